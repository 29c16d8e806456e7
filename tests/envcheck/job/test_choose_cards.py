"""The cards of a job: requested, in the user's own list of visible devices, or free and healthy ones."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from envcheck.cli import main
from envcheck.core.derived.link_groups import choose_linked
from envcheck.core.errors import EnvcheckError, UsageError
from envcheck.core.facts import Facts, MachineRequirements, VendorFacts
from envcheck.core.model import Device, Process, Topology
from envcheck.job import visible_cards
from envcheck.job.choose_cards import CardQuery, choose_cards, number_cards
from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from tests.function_calls import count_calls
from tests.launch.gates.gate_parts import BOX16, make_matrix

Enter = Callable[..., None]
TINY = {"atlas-800t-a2": "tiny-npu", "bi-v150x8": "tiny-iluvatar", "h200x8": "tiny-nvidia", "p800x8": "tiny-xpu"}
ALARM, TWO = "health-alarm=0", ("--cards-per-node", "2")


def plan_training(*words: str) -> dict[str, Any]:
    """Return the document of a dry run, also of one that is refused."""
    done = CliRunner().invoke(main.main, ["train", *words, "--dry-run", "--json"])
    assert done.exception is None or isinstance(done.exception, (SystemExit, EnvcheckError)), done.output
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout else dict(done.exception.document)
    return found


def list_numbers(found: dict[str, Any], *options: str) -> list[str]:
    """Return the values of the launcher's device option."""
    words = found["command"]
    return [value for option, value in itertools.pairwise(words) if option in options]


@pytest.mark.parametrize("machine", TINY)
def test_requested_cards(machine: str, on_machine: Enter) -> None:
    """--devices sets the launcher's option and, unless that suffices, the list; job.devices has the tool's numbers."""
    on_machine(machine)
    found = plan_training("--recipe", TINY[machine], "--method", "lora", "--devices", "4,5")

    assert found["job"]["devices"] == [4, 5]
    assert found["job"]["devices_reason"] == "selected with --devices"
    assert found["caution"] == ["devices 4-5: selected with --devices"]
    assert list_numbers(found, "--npus", "--gpus", "--xpus") == ["4,5"]
    assert VENDORS[found["device"]].visible_env in found["unset"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--devices", "8,9"), "--devices: npu-smi lists no device 8"),
        (("--devices", "4,4"), "--devices names device 4 twice"),
        (("--devices", "7-4"), "--devices 7-4: 7 is greater than 4"),
        (("--devices", "4,5,6"), "1 x 3 = 3 cards; tensor 2 needs a multiple of 2"),
        (("--devices", "x"), "--devices x: expected numbers of devices, UUIDs, or 'auto'"),
        (("--devices", "4-5", "--cards-per-node", "4"), "--devices names 2 devices, but --cards-per-node is 4"),
        (("--devices", "0-9999"), "--devices names more than 1024 devices"),
        (("--devices", "0,1", "--on", "slurm"), "--devices cannot be used with --on slurm: Slurm selects the devices"),
        (("--devices", "0,1", "--on", "k8s"), "--devices cannot be used with --on k8s: the device plugin selects"),
    ],
)
def test_refused_cards(words: tuple[str, ...], error: str, on_machine: Enter, tmp_path: Path) -> None:
    """Unknown, doubled, too many and impossible cards are refused in one sentence, as a usage error."""
    on_machine("atlas-800t-a2")
    recipes = tmp_path / "own"
    recipes.mkdir()
    text = (catalogue.OURS / "tiny-npu.toml").read_text("utf-8")
    text = text.replace('"tiny-npu"', '"two"').replace("parallel = { data = 2 }", "parallel = { tensor = 2 }")
    (recipes / "two.toml").write_text(text, "utf-8")
    options = ("--recipes", str(recipes), "--recipe", "two", "--method", "lora", "--dry-run")
    done = CliRunner().invoke(main.main, ["train", *options, *words])

    assert isinstance(done.exception, UsageError), done.output
    assert done.exception.message.startswith(error)
    assert done.exception.next_step


@pytest.mark.parametrize(
    ("machine", "faults", "words", "devices", "reason"),
    [
        ("atlas-800t-a2", (), ("--devices", "auto"), [0, 1], "free and healthy"),
        ("atlas-800t-a2", (ALARM,), ("--devices", "auto"), [1, 2], "avoids 1 device: device 0: Alarm"),
        ("atlas-800t-a2", (ALARM,), (), [1, 2], "avoids 1 device: device 0: Alarm"),
        ("bi-v150x8", ("memory-held=32000",), (), [2, 3], "device 0 is in use by python3 (pid 20817, 32000 MiB)"),
        ("h200x8", ("hot=120",), TWO, [1, 2], "avoids 1 device: device 0: 120"),
        ("p800x8", ("ecc=9",), (), [1, 2], "avoids 1 device: device 0"),
        ("h200x8", ("memory-held=2000",), ("--devices", "auto", *TWO), [1, 2], "device 0 is in use by python3"),
    ],
)
def test_free_and_healthy_cards(
    machine: str,
    faults: tuple[str, ...],
    words: tuple[str, ...],
    devices: list[int],
    reason: str,
    on_machine: Enter,
) -> None:
    """A dead or taken card is avoided and named, with --devices auto and without an option."""
    on_machine(machine, *faults)
    found = plan_training("--recipe", TINY[machine], "--method", "lora", *words)

    assert found["job"]["devices"] == devices
    assert reason in found["job"]["devices_reason"]
    assert not [gate for gate in found["failed_checks"] if gate["name"] in ("gate.doctor", "gate.memory")]


def test_a_card_with_enough_room_is_used(on_machine: Enter) -> None:
    """Without --devices, memory of another process does not matter if the job fits."""
    on_machine("h200x8", "memory-held=2000")
    found = plan_training("--recipe", "tiny-nvidia", "--method", "lora", *TWO)

    assert (found["job"]["devices"], found["job"]["devices_reason"]) == ([0, 1], None)


@pytest.mark.parametrize(
    ("value", "devices"),
    [("4", [4]), ("6,7", [6]), ("2,4,6", [2]), ("4,4", [0]), ("0, 1", [0]), ("99", [0])],
)
def test_the_user_s_own_list(
    value: str, devices: list[int], on_machine: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of visible devices is obeyed; one that the runtime would misread is left to gate.visible."""
    on_machine("atlas-800t-a2")
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", value)
    found = plan_training("--recipe", "qwen-7b-npu-llamafactory", "--method", "lora")

    assert found["job"]["devices"] == devices
    if devices != [0]:
        assert found["job"]["devices_reason"] == f"selected by ASCEND_RT_VISIBLE_DEVICES={value}"
        assert f"/dev/davinci{devices[0]}" in found["job"]["container"]["devices"]
        assert "/dev/davinci0" not in found["job"]["container"]["devices"]
        assert found["environment"]["ASCEND_RT_VISIBLE_DEVICES"] == "0"  # as the container counts


def test_uuids_in_the_user_s_own_list(on_machine: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    """UUIDs and their beginnings name cards, in --devices too; the numbering is then that of the tool."""
    on_machine("h200x8")
    from envcheck.job.local_facts import collect_facts_here
    from envcheck.job.request import JobRequest

    uuids = [device.uuid or "" for device in collect_facts_here(JobRequest(device="nvidia")).vendors[0].devices]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{uuids[5]},{uuids[3]}")
    listed = plan_training("--recipe", "tiny-nvidia", "--method", "lora", *TWO)
    asked = plan_training("--recipe", "tiny-nvidia", "--method", "lora", "--devices", f"{uuids[6]},{uuids[7]}")

    assert listed["job"]["devices"] == [3, 5]
    assert asked["job"]["devices"] == [6, 7]
    assert listed["environment"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_container_gets_only_the_chosen_cards(on_machine: Enter, tmp_path: Path) -> None:
    """A new container has the requested cards; the one that exists is kept if it has them, and counts from 0."""
    on_machine("atlas-800t-a2")
    words = ("--recipe", "qwen-7b-npu-swift", "--method", "lora")
    fresh = plan_training(*words, "--devices", "4")
    state = tmp_path / "home" / "environments" / "qwen-7b-npu-swift" / ".envcheck"
    state.mkdir(parents=True)
    (state / "state.json").write_text(json.dumps({"cards": [2, 3, 4, 5]}), "utf-8")
    there = plan_training(*words, "--devices", "4")
    elsewhere = plan_training(*words, "--devices", "7")

    def list_cards(found: dict[str, Any]) -> list[str]:
        devices = found["job"]["container"]["devices"]
        return [path.removeprefix("/dev/davinci") for path in devices if path.startswith("/dev/davinci")][:-1]

    assert (list_cards(fresh), fresh["environment"]["ASCEND_RT_VISIBLE_DEVICES"]) == (["4"], "0")
    assert (list_cards(there), there["environment"]["ASCEND_RT_VISIBLE_DEVICES"]) == (["2", "3", "4", "5"], "2")
    assert (list_cards(elsewhere), elsewhere["environment"]["ASCEND_RT_VISIBLE_DEVICES"]) == (["7"], "0")


def test_scripts_show_the_choice(on_machine: Enter) -> None:
    """--as-script has the numbers, and why these, as a comment."""
    on_machine("atlas-800t-a2")
    words = ["train", "--recipe", "tiny-npu", "--method", "lora", "--devices", "6,7", "--as-script"]
    script = CliRunner().invoke(main.main, words).stdout

    assert "# Note: devices 6-7: selected with --devices" in script
    assert "--npus 6,7" in script


def test_modules_and_linked_groups() -> None:
    """Cards of one module or linked group are preferred; across two modules they are pairs, as HCCL needs."""
    groups = make_matrix((range(4), range(4, 8)))

    assert choose_npus(BOX16, range(1, 16), 8) == tuple(range(8, 16))
    assert choose_npus(BOX16, (0, 1, 2, 5, 8, 9, 11, 13), 6) == (0, 1, 5, 8, 9, 13)
    assert choose_npus(groups, (0, 1, 2, 4, 5, 6, 7), 4) == (4, 5, 6, 7)
    assert choose_npus(groups, range(8), 2) == (0, 1)
    assert choose_npus(None, (3, 1), 1) == (1,)


def choose_npus(topology: Topology | None, free: Sequence[int], count: int) -> tuple[int, ...]:
    return choose_linked(VendorFacts(VENDORS["npu"], topology=topology), free, count)


def make_dies(number: int) -> Topology:
    """Return the topology of modules with two dies."""
    names = tuple(f"Phy-ID{n}" for n in range(number))
    relations = {(i, j): "SIO" if i // 2 == j // 2 else "HCCS_SW" for i in range(number) for j in range(number)}
    matrix = {a: {b: "X" if a == b else relations[i, j] for j, b in enumerate(names)} for i, a in enumerate(names)}
    return Topology(names, (), matrix)


@pytest.mark.parametrize(
    ("free", "count", "chosen"),
    (
        (range(1, 16), 2, (2, 3)),
        (range(1, 16), 4, (2, 3, 4, 5)),
        ((1, 2, 3, 4, 6, 7), 4, (2, 3, 6, 7)),
        ((1, 2, 3), 3, (1, 2, 3)),
        ((1, 3, 5), 2, (1, 3)),
        (range(16), 16, tuple(range(16))),
    ),
)
def test_dies_of_few_modules(free: Sequence[int], count: int, chosen: tuple[int, ...]) -> None:
    """Of modules with two dies, both are chosen where they are free: a job is on no more modules than it needs."""
    assert choose_npus(make_dies(16), free, count) == chosen


def test_package_link_of_the_vendor() -> None:
    """The name of the link between the dies of one package is the vendor's; to others it is a link like any."""
    gpus = VendorFacts(VENDORS["nvidia"], topology=make_dies(8))

    assert choose_linked(gpus, (1, 2, 3), 2) == (1, 2)
    assert choose_npus(make_dies(8), (1, 2, 3), 2) == (2, 3)


def test_work_of_a_choice() -> None:
    """Twice the devices, of which half are chosen, cost about eight times the calls: each set grows step by step."""
    few, many = (count_calls(choose_npus, make_dies(n), range(n), n // 2) for n in (8, 16))

    assert many < 10 * few


@given(
    held=st.sets(st.integers(0, 7)),
    sick=st.sets(st.integers(0, 7)),
    count=st.integers(1, 8),
    requested=st.sampled_from((None, "auto")),
)
def test_any_machine(held: set[int], sick: set[int], count: int, requested: str | None) -> None:
    """The choice has the right number of different cards, and no bad one as long as there are enough good ones."""
    devices = tuple(
        Device(
            index=n,
            npu=n,
            memory_total_mib=65536,
            memory_used_mib=65000 if n in held else 3000,
            health="Alarm" if n in sick else "OK",
        )
        for n in range(8)
    )
    processes = tuple(Process(device=n, pid=n + 1, memory_mib=62000) for n in held)
    v = VendorFacts(VENDORS["npu"], devices=devices, processes=processes, topology=BOX16)
    wanted = MachineRequirements("r", "m", "npu", cards=count, memory_gib=28)
    query = CardQuery(requested, count, lambda: wanted)
    choice = choose_cards(query, Facts(device="npu", vendors=(v,), environment={}), "npu")
    places = choice.places if choice else tuple(range(count))

    assert len(set(places)) == count
    bad = held | sick
    assert not bad & set(places) or 8 - len(bad) < count
    if choice and bad & set(range(count)) and 8 - len(bad) >= count:
        assert "avoids" in choice.reason


def test_numbers_of_the_tool() -> None:
    """Cards have the tool's numbers: NPU ids, and physical ids where dies share an NPU."""
    slots = [Device(index=n, npu=number) for n, number in enumerate((1, 2, 5))]
    dies = [Device(npu=n // 2, chip=n % 2, phy_id=n) for n in range(4)]

    assert number_cards(slots) == (1, 2, 5)
    assert number_cards(dies) == (0, 1, 2, 3)
    assert number_cards([replace(die, phy_id=None) for die in dies]) == (0, 1, 2, 3)


@pytest.mark.parametrize("fault", ("health-alarm=7", "card-lost=7", "link-down=7"))
def test_a_bad_card_outside_the_job(fault: str, on_machine: Enter) -> None:
    """A card that the job does not use closes no gate; a job that needs it is refused."""
    on_machine("atlas-800t-a2", fault)
    two = plan_training("--recipe", "tiny-npu", "--method", "lora")
    eight = plan_training("--recipe", "tiny-npu", "--method", "lora", "--cards-per-node", "8")

    assert two["job"]["devices"] == [0, 1]
    assert not [gate for gate in two["failed_checks"] if gate["name"] in ("gate.doctor", "gate.devices")]
    assert [gate for gate in eight["failed_checks"] if gate["name"] in ("gate.doctor", "gate.devices")]


def test_a_chat_on_a_chosen_card(on_machine: Enter) -> None:
    """`infer` has the same option."""
    on_machine("atlas-800t-a2")
    words = ["infer", "--recipe", "qwen-7b-npu-llamafactory", "--adapter", "output/a", "--devices", "3", "--dry-run"]
    shown = CliRunner().invoke(main.main, words).stdout

    assert "device 3: selected with --devices" in shown
    assert "/dev/davinci3" in shown


@pytest.mark.parametrize(
    ("machine", "recipe", "variable", "value", "devices"),
    [
        ("p800x8", "ernie-21b-xpu", "XPU_VISIBLE_DEVICES", "3,4,5,6,7", [4, 5, 6, 7]),
        ("p800x8", "ernie-21b-xpu", "", "auto", [0, 1, 2, 3]),
        ("atlas-200t-a2-box16", "tiny-npu", "ASCEND_RT_VISIBLE_DEVICES", "7,8,9", [8, 9]),
    ],
)
def test_linked_cards_of_the_list(
    machine: str,
    recipe: str,
    variable: str,
    value: str,
    devices: list[int],
    on_machine: Enter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of more cards than needed those with links to each other are used, as the vendor's topology shows them."""
    on_machine(machine)
    words = ("--recipe", recipe, "--method", "lora")
    if variable:
        monkeypatch.setenv(variable, value)
    found = plan_training(*words, *(() if variable else ("--devices", value)))

    assert found["job"]["devices"] == devices
    assert "gate.topology" not in [gate["name"] for gate in found["failed_checks"]]


def test_an_obeyed_list_is_not_reported(on_machine: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list that the cards were chosen from is not called a leftover of another job."""
    on_machine("h200x8")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    done = CliRunner().invoke(main.main, ["train", "--recipe", "tiny-nvidia", "--method", "lora", "--gates", "--json"])
    found = {gate["name"]: gate for gate in json.loads(done.stdout)["gates"]}

    assert "device 4: selected by CUDA_VISIBLE_DEVICES=4,5" in found["gate.devices"]["seen"]
    assert found["gate.variables"]["status"] == "OK"


def test_nodes_may_use_different_cards() -> None:
    """The command that the nodes compare does not have the choice of cards."""
    for recipe in catalogue.load_all():
        for job in recipe.jobs:
            vendor = VENDORS[catalogue.job_device((recipe, job))]
            chosen = [visible_cards.select_numbers(recipe, job, vendor, numbers) for numbers in ((4, 5), (6, 7))]
            first, second = (visible_cards.drop_numbers(each, vendor) for each in chosen)

            assert (first.numbers, first.environment) == (second.numbers, second.environment)
            assert first.environment == visible_cards.drop_numbers(job, vendor).environment
