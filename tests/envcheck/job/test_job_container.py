"""The container of a job, for every recipe on every simulated machine, and as published."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from envcheck.collect import facts
from envcheck.core import paths
from envcheck.core.facts import EngineFacts, Facts, VendorFacts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Answer, Outcome
from envcheck.job.card_ids import count_cards, format_card_node, select_card_ids
from envcheck.job.container_privileges import JobContainer, as_values, derive_container, is_published_privileged
from envcheck.job.local_facts import add_job_places, collect_facts_here
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from envcheck.lint import linter
from envcheck.scripts import source_file
from envcheck.simulate.machine_file import list_machines
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.container_spec import normalize_device
from installers.recipes.docker_cli import shell_words
from installers.recipes.recipe import Mount, Recipe
from installers.state import state_file
from installers.state.state_file import EnvironmentState
from tests.envcheck.checks.doctor_helpers import simulate_machine

# Those of documents; the container of a recipe for the host is in none.
RECIPES = {recipe.name: recipe for recipe in catalogue.load_all() if recipe.container and not recipe.alternative}
LISTED = {name: recipe.container.devices for name, recipe in RECIPES.items() if recipe.container}
NPU_CONTROL = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
PATHS = "ask paths"


@cache
def gather_facts(machine: str) -> Facts:
    with simulate_machine(machine) as there:
        return facts.gather_facts(there)


def derive_job_container(
    name: str, known: Facts, *, as_published: bool = False, count: int | None = None
) -> JobContainer:
    recipe = RECIPES[name]
    ids = select_card_ids(recipe, known, recipe.device, count or count_cards(recipe, recipe.device))
    found = derive_container(recipe, known, recipe.device, ids, "x86_64", "/w", as_published)
    assert found
    return found


def drop_runtime(machine: str) -> Facts:
    """The machine without the vendor's runtime."""
    return replace(gather_facts(machine), engine=EngineFacts("26.1.3", ("runc",)))


def make_machine_with_cards(name: str, engine: EngineFacts | None) -> Facts:
    """A machine with sixteen cards of the recipe's vendor, and this engine."""
    vendor = VENDORS[RECIPES[name].device]
    nodes = tuple(format_card_node(number, vendor) for number in range(16))
    return Facts(vendors=(VendorFacts(vendor, nodes=nodes),), engine=engine)


def list_sources(found: JobContainer) -> list[str]:
    return [device.split(":")[0] for device in found.spec.devices]


@pytest.mark.parametrize("machine", list_machines())
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_on_every_machine(name: str, machine: str) -> None:
    """Never privileged, never with the host's /dev or process ids; exactly as many cards as the recipe's jobs use,
    present ones first."""
    recipe, known = RECIPES[name], drop_runtime(machine)
    vendor, count = VENDORS[recipe.device], count_cards(recipe, recipe.device) or 0
    found = derive_job_container(name, known)
    nodes = next((v.nodes for v in known.vendors if v.vendor is vendor), None) or ()
    cards = [path for path in list_sources(found) if path not in vendor.control_nodes]

    assert not (found.spec.privileged or found.spec.pid or found.spec.capabilities)
    assert "/dev" not in [mount.source for mount in found.spec.mounts]
    assert len(cards) == count
    assert len(set(cards) & set(nodes)) == min(count, len(nodes))
    assert list_sources(found)[count:] == list(vendor.control_nodes)


def list_lint_rules(found: JobContainer) -> set[str]:
    """Return the container rules that the linter reports for the docker line, except name and architecture."""
    line = " ".join(shell_words(found.spec))
    result = linter.lint_source(
        source_file.make_source("run.sh", f"#!/bin/bash\n{line}\n".encode()), TargetMachine(Facts), others=False
    )
    return {remark.rule for remark in result.remarks if remark.rule.startswith("container.")} - {
        "container.name",
        "container.architecture",
    }


@pytest.mark.parametrize(
    "engine", (None, EngineFacts("26.1.3", ("ascend", "iluvatar", "runc"))), ids=("nodes", "runtime")
)
@pytest.mark.parametrize("name", RECIPES)
def test_lint_accepts_what_is_printed(name: str, engine: EngineFacts | None) -> None:
    """The linter reports nothing for the derived container, and the privileges of a published privileged one."""
    known = make_machine_with_cards(name, engine)
    published = {"container.privileges"} if is_published_privileged(RECIPES[name]) else set()

    assert list_lint_rules(derive_job_container(name, known)) == set()
    assert list_lint_rules(derive_job_container(name, known, as_published=True)) == published


@pytest.mark.parametrize("name", LISTED)
def test_derived_devices_are_those_of_the_recipe(name: str) -> None:
    """The derived device nodes are those that the recipe lists, or those of the recipe that it extends."""
    found = derive_job_container(name, Facts())

    assert set(list_sources(found)) <= set(LISTED[name] or list_sources(found))
    if not RECIPES[name].like and LISTED[name]:
        assert tuple(list_sources(found)) == LISTED[name]


@pytest.mark.parametrize(
    ("name", "engine", "devices", "cdi", "runtime", "variables"),
    (
        ("ernie-300b-npu", EngineFacts(runtimes=("ascend",)), 19, 0, "", {"ASCEND_RT_VISIBLE_DEVICES": range(16)}),
        ("ernie-300b-npu", EngineFacts(error="no answer"), 19, 0, "", {"ASCEND_RT_VISIBLE_DEVICES": range(16)}),
        ("ernie-0.3b-npu", None, 4, 0, "", {"ASCEND_RT_VISIBLE_DEVICES": range(1)}),
        ("ernie-21b-iluvatar", None, 16, 0, "", {}),
        ("ernie-21b-iluvatar", EngineFacts(runtimes=("iluvatar",)), 16, 0, "", {}),
        ("ernie-21b-iluvatar", EngineFacts(cdi=("iluvatar.com/gpu=0",)), 16, 0, "", {}),
        (
            "ernie-21b-iluvatar",
            EngineFacts(runtimes=("iluvatar",), cdi=tuple(f"iluvatar.com/gpu={n}" for n in range(16))),
            *(0, 16, "", {}),
        ),
    ),
)
def test_how_the_container_gets_its_cards(
    name: str, engine: EngineFacts | None, devices: int, cdi: int, runtime: str, variables: dict[str, range]
) -> None:
    """By CDI if the engine has all devices, by device nodes if these suffice, else by the vendor's runtime; variables
    number the cards inside the container."""
    spec = derive_job_container(name, make_machine_with_cards(name, engine)).spec

    assert (len(spec.devices), len(spec.cdi), spec.runtime) == (devices, cdi, runtime)
    assert {key: ",".join(map(str, ids)) for key, ids in variables.items()}.items() <= spec.environment.items()


@pytest.mark.parametrize("name", RECIPES)
def test_as_published(name: str) -> None:
    """As published: privileged if the document is, else the listed nodes, with all of its mounts."""
    recipe, found = RECIPES[name], derive_job_container(name, gather_facts("atlas-800t-a2"), as_published=True)
    box = recipe.container
    assert box

    assert found.as_published
    assert found.spec.privileged == is_published_privileged(recipe)
    assert found.spec.devices == (() if found.spec.privileged else tuple(map(normalize_device, box.devices)))
    assert (found.spec.pid, len(found.spec.mounts)) == (box.pid, len(box.mounts))
    assert found.spec.environment == box.environment


def test_only_differences_from_the_document_are_unverified() -> None:
    """A container with the options of the document is verified; one that differs is not."""
    known = drop_runtime("atlas-800t-a2")
    verified = {name for name in RECIPES if derive_job_container(name, known).is_verified}

    qwen = {"qwen-7b-npu-llamafactory", "qwen-7b-npu8-llamafactory", "qwen-7b-npu-swift", "qwen-14b-npu-swift"}
    assert verified == qwen


def test_one_container_serves_all_jobs() -> None:
    """A one-card job gets the container of the eight-card job; with fewer cards it gets those present."""
    one, all_of = (
        derive_job_container("qwen-7b-npu-swift", drop_runtime("atlas-800t-a2"), count=count) for count in (1, 8)
    )
    known = drop_runtime("atlas-800t-a2")
    few = replace(known, vendors=(replace(known.vendors[0], nodes=("/dev/davinci2", "/dev/davinci10")),))

    assert one == all_of
    assert list_sources(derive_job_container("qwen-7b-npu-swift", few, count=1)) == [
        "/dev/davinci2",
        "/dev/davinci10",
        *NPU_CONTROL,
    ]


def make_recipe(*devices: str) -> Recipe:
    recipe = RECIPES["qwen-7b-npu-llamafactory"]
    assert recipe.container
    return replace(recipe, container=replace(recipe.container, devices=devices, privileged=True))


def test_certain_cards_and_other_nodes_of_a_recipe() -> None:
    """A recipe that lists specific cards gets these; other device nodes are kept."""
    recipe, known = make_recipe("/dev/davinci5", "/dev/infiniband/uverbs0"), drop_runtime("atlas-800t-a2")
    ids = select_card_ids(recipe, known, "npu", 1)
    found = derive_container(recipe, known, "npu", ids, "x86_64", "/w")
    assert found

    assert list_sources(found) == ["/dev/davinci5", *NPU_CONTROL, "/dev/infiniband/uverbs0"]
    assert not found.spec.privileged


@pytest.mark.parametrize(
    ("there", "source_path"),
    (
        (("/usr/local/sbin/npu-smi",), "/usr/local/sbin/npu-smi"),
        (("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi"), "/usr/local/bin/npu-smi"),
        ((), "/usr/local/bin/npu-smi"),
        (None, "/usr/local/bin/npu-smi"),
    ),
)
def test_npu_smi_is_mounted_from_where_it_is(there: tuple[str, ...] | None, source_path: str) -> None:
    """npu-smi is mounted from where the host has it, to the path that the recipe names."""
    seen = {path: {"kind": "file", "mode": 493, "uid": 0, "gid": 0, "usable": True} for path in there or ()}
    answer = Answer(PATHS, Outcome.ANSWERED, json.dumps({"paths": seen, "named": {}}))
    known = replace(make_machine_with_cards("ernie-300b-npu", None), answers={} if there is None else {PATHS: answer})

    assert (
        Mount(source_path, "/usr/local/bin/npu-smi", True) in derive_job_container("ernie-300b-npu", known).spec.mounts
    )


def test_document_of_the_container() -> None:
    """Mounts and devices are single texts, and the engine's defaults are named."""
    values = as_values(derive_job_container("qwen-7b-npu-llamafactory", Facts()))

    assert values.pop("mounts")[2:4] == [
        "/w/output:/app/output",
        "/usr/local/dcmi:/usr/local/dcmi:ro",
    ]
    assert values == {
        "privileged": False,
        "devices": ["/dev/davinci0", *NPU_CONTROL],
        "network": "bridge",
        "ipc": "private",
        "runtime": "",
    }


def test_no_container() -> None:
    """A recipe without container or image runs on the host."""
    tiny = catalogue.find_recipe(catalogue.load_all(), "tiny-npu")
    bare = replace(RECIPES["ernie-300b-npu"], image=None)

    assert [derive_container(recipe, Facts(), "npu", (0,), "x86_64", "/w") for recipe in (tiny, bare)] == [None, None]


def test_the_facts_of_another_vendors_machine_do_not_count() -> None:
    """A job resolved for the recipe's own host does not depend on this machine's container engine."""
    known = replace(gather_facts("bi-v150x8"), engine=EngineFacts(runtimes=("ascend", "iluvatar")))

    assert derive_job_container("ernie-300b-npu", known) == derive_job_container("ernie-300b-npu", Facts())


def test_the_choice_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that was provisioned with the document's own options is the one of the job; others' are not."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    for name, as_published in (("ernie-300b-npu", True), ("ernie-21b-npu", False)):
        state_file.save_state(paths.environment_folder(name), EnvironmentState(made=True, as_published=as_published))
    known = collect_facts_here(JobRequest(device="npu"))
    jobs = [
        resolve(JobRequest(recipe=name, method="lora"), tuple(RECIPES.values()), known)
        for name in ("ernie-300b-npu", "ernie-21b-npu")
    ]

    assert known.published_containers == ("ernie-300b-npu",)
    assert [job.container.as_published for job in jobs if job.container] == [True, False]


def test_the_cards_of_a_container_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """provision's state file has the cards of the container, and the facts of this machine have them by recipe."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    folder = paths.environment_folder("qwen-7b-npu-swift")
    state_file.save_state(folder, EnvironmentState(made=True, cards=(4, 5)))
    loaded = state_file.load_state(folder)

    assert loaded and loaded.cards == (4, 5)
    assert add_job_places(Facts(), JobRequest()).container_cards == {"qwen-7b-npu-swift": (4, 5)}
