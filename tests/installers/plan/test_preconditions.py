"""Whether a machine is suitable for a recipe, by its facts; and who owns a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envcheck.core.facts import Facts, SystemFacts, VendorFacts
from envcheck.core.findings import warn
from envcheck.core.messages import _
from envcheck.core.model import Device, Document, Status, fix
from envcheck.job.suitability import judge_requirements
from envcheck.vendors import VENDORS
from installers.plan import host_facts, preconditions
from installers.recipes.recipe import Hardware, Recipe, RecipeJob, derive_requirements

GIB = 1024
NOBODY = 65534
LORA = RecipeJob("lora", "", ("true",), processes=8)
RECIPE = Recipe("r", "", "npu", "f", ("m",), Hardware("p", 8, 64, ("x86_64",)), (LORA,))
HOST = SystemFacts(architecture="x86_64")


def make_machine(sizes: tuple[int | None, ...], used: int = 0, **more: Any) -> Facts:
    """Cards of these sizes in MiB, each with this much in use."""
    found = tuple(Device(npu=n, memory_total_mib=size, memory_used_mib=used) for n, size in enumerate(sizes))
    vendor = VendorFacts(VENDORS["npu"], devices=found, document=Document("npu-smi", "info"))
    return Facts(**{"vendors": (vendor,), "host": HOST, **more})


UNSEEN = VendorFacts(VENDORS["npu"], pci=("c1:00.0",))  # on the bus, and no driver
FIT = make_machine((64 * GIB,) * 8)


def test_a_driver_older_than_the_image_is_noted_before_the_pull() -> None:
    """A driver that may be too old for the image is a note of the plan, with the command that installs a newer one."""
    doubt = warn(_("the image is documented with driver 2; 1 is installed"), fix(_("Install driver 2."), "install it"))
    finding = replace(doubt, name="job.image_versions")

    assert list(preconditions.list_cautions((), (finding,))) == [
        "the image is documented with driver 2; 1 is installed. Install driver 2. Run install it."
    ]


def list_obstacles(cards: Facts | None, recipe: Recipe = RECIPE, role: str = "") -> list[str]:
    return [each.why for each in preconditions.find_obstacles(preconditions.judge_jobs(recipe, cards, role))]


@pytest.mark.parametrize(
    "cards",
    (
        FIT,
        make_machine((64 * GIB,) * 9),
        make_machine((62 * GIB,) * 8),
        make_machine((64 * GIB,) * 8, used=60 * GIB),
        make_machine((*(64 * GIB,) * 8, 32 * GIB)),
        make_machine((None,) * 8),
        make_machine((), vendors=(UNSEEN,)),
        None,
    ),
    ids=("exactly", "more", "rounded", "in-use", "small-one-unused", "sizes-not-told", "not-seen", "not-judged"),
)
def test_nothing_against_it(cards: Facts | None) -> None:
    """Sufficient, unknown, and possibly freed resources are no obstacle."""
    assert list_obstacles(cards) == []
    assert list(preconditions.list_cautions(preconditions.judge_jobs(RECIPE, cards))) == []


@pytest.mark.parametrize(
    ("cards", "told"),
    (
        (
            make_machine((64 * GIB,) * 8, host=SystemFacts(architecture="aarch64")),
            ["recipe r supports x86_64 only; this host is aarch64"],
        ),
        (make_machine((64 * GIB,) * 7), ["this job needs 8 devices; 7 found"]),
        (
            make_machine((32 * GIB,) * 8),
            ["devices 0-7: 32 GiB of memory; this job needs 8 devices of 64 GiB"],
        ),
        (
            make_machine((32 * GIB, *(64 * GIB,) * 7)),
            ["device 0: 32 GiB of memory; this job needs 8 devices of 64 GiB"],
        ),
        (make_machine((None,)), ["this job needs 8 devices; 1 found"]),
        (make_machine((), vendors=()), ["this job needs Huawei Ascend devices; this machine has none"]),
    ),
)
def test_against_it(cards: Facts, told: list[str]) -> None:
    """Certain mismatches are obstacles, with the same message and remedy as in doctor."""
    judged = judge_requirements(replace(cards, wanted=derive_requirements(RECIPE, LORA)))
    failed = {f.seen: f.remedy.words for f in judged if f.remedy and f.status is Status.FAIL}

    assert list_obstacles(cards) == told
    assert [
        each.remedy.partition(" Run ")[0]
        for each in preconditions.find_obstacles(preconditions.judge_jobs(RECIPE, cards))
    ] == [failed[words] for words in told]


def test_enough_for_one_method() -> None:
    """If one method can run here, the others are listed as notes, and there is no obstacle."""
    large = replace(LORA, method="sft", cards=16)
    recipe = replace(RECIPE, jobs=(LORA, large))

    assert list_obstacles(FIT, recipe) == []
    assert list(preconditions.list_cautions(preconditions.judge_jobs(recipe, FIT))) == [
        "not suitable for sft: this job needs 16 devices; 8 found"
    ]


def test_the_method_is_named() -> None:
    """If each method lacks something else, each obstacle names its method."""
    recipe = replace(RECIPE, jobs=(replace(LORA, cards=12), replace(LORA, method="sft", cards=16)))

    assert list_obstacles(FIT, recipe) == [
        "lora: this job needs 12 devices; 8 found",
        "sft: this job needs 16 devices; 8 found",
    ]


def test_the_own_role_counts() -> None:
    """Requirements of other node roles are ignored."""
    recipe = replace(RECIPE, jobs=(replace(LORA, role="a"), replace(LORA, role="b", cards=16)))

    assert (list_obstacles(FIT, recipe, "a"), len(list_obstacles(FIT, recipe, "b"))) == ([], 1)


def test_folders_of_root(tmp_path: Path) -> None:
    """A folder that only root can write to is root's, unless others cannot enter it."""
    (tmp_path / "closed").mkdir(mode=0o700)

    assert host_facts.is_root_only(Path("/usr/share/envcheck-no-such/venv"))
    assert not host_facts.is_root_only(Path("/tmp/envcheck-no-such"))
    assert not host_facts.is_root_only(tmp_path / "closed" / "venv")


def run_as_nobody(ask: Callable[[], str]) -> str:
    """Answer as for a process that is not root."""
    if os.geteuid() != 0:
        return ask()
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writing, ask().encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as file:
        return file.read()


def test_closed_folders(tmp_path: Path) -> None:
    """Other folders that this user cannot write to, or whose parents are not accessible, are known beforehand."""
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o000)
    asked = ("/usr/share/envcheck-no-such", str(hidden / "a" / "b"), "/tmp")
    told = run_as_nobody(lambda: " ".join(sorted(host_facts.read_facts(Path("/tmp"), (), asked).closed)))

    assert told.split() == sorted(asked[:2])
