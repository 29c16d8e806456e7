"""Each gate of `envcheck train`: right, wrong, absent, unreadable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli.docs_gates import table
from envcheck.core.facts import Facts, Network, VendorFacts
from envcheck.core.model import Device, Document, Finding, Status
from envcheck.vendors import VENDORS
from installers.recipes.recipe import Container, Hardware
from launch import gates
from launch.gates import answers, place
from tests.launch.gates.gate_parts import (
    BOX,
    BOXED,
    DISKS,
    FACTS,
    FAILING,
    GIB,
    HIDDEN,
    JOB,
    LOCK,
    RECIPE,
    SIGHT,
    arguments,
    cards,
    command,
    host,
    job,
    left_out,
    locked,
    parted,
    seeing,
    shm,
    sight,
    situated,
)

NOT_APPLICABLE, OK, BLOCKED, UNKNOWN, WARN, FAIL = Status
FLOOR = {"recipe": replace(RECIPE, hardware=Hardware("npu", memory_gib=64))}
MODEL = {"command": replace(command(), requires=("m/config.json",))}
WHOLE: dict[str, Any] = {"shards": 2, "size_bytes": 5 * GIB, "flaws": [], "config": {}}
CUT = {"what": "model-1.safetensors is cut off", "next": "fetch it again", "sure": True}
SEVERAL = job(nodes=2)
HOSTED = {**job(nodes=2, launcher=(*JOB.launcher, "--host", "10.0.0.7")), "host": "10.0.0.7"}
MIX = ("--train_dataset_path", "a.jsonl,b.jsonl", "--train_dataset_prob")
NAMED = {"command": replace(command(), data=("identity",), requires=("data/dataset_info.json",))}
CALLED = {"sizes": {"data/dataset_info.json": 9}, "sets": {"identity": "data/identity.json"}}
PIPELINE = {"pipeline": 4}
HETERO = replace(RECIPE, jobs=tuple(replace(JOB, role=name, device=name) for name in ("nvidia", "iluvatar")))
NPUS = replace(RECIPE, jobs=tuple(replace(JOB, role=name, device=name) for name in ("nvidia", "npu")))
HCCL = dict.fromkeys(range(60000, 60032))
CUT_OFF = Document("npu-smi", "info", truncated=True)

CASES: list[tuple[str, dict[str, Any], Status]] = [
    ("environment", {}, OK),
    ("environment", sight(missing=("paddlepaddle is not installed",)), FAIL),
    ("environment", HIDDEN, BLOCKED),
    ("lock", locked("1.26.4"), OK),
    ("lock", locked("1.26.4", image="sha256:aa"), OK),
    ("lock", locked("1.26.3"), FAIL),
    ("lock", locked("1.26.4", image="sha256:bb"), FAIL),
    ("lock", {}, NOT_APPLICABLE),
    ("lock", {"lock_error": "envcheck.lock: line 3: no TOML"}, UNKNOWN),
    ("lock", {"lock": LOCK, **HIDDEN}, BLOCKED),
    ("doctor", {"doctor": (replace(FAILING, status=WARN),)}, WARN),
    ("doctor", {"doctor": (replace(FAILING, status=WARN), replace(FAILING, status=UNKNOWN))}, UNKNOWN),
    ("doctor", {"doctor": (replace(FAILING, name="host.clock", status=UNKNOWN),)}, OK),
    ("doctor", {"doctor": (FAILING,)}, FAIL),
    ("doctor", {"doctor": (replace(FAILING, name="job.cards"),)}, OK),
    ("devices", {}, OK),
    ("devices", host(cpu_count=1), WARN),
    ("devices", {"facts": replace(FACTS, host=None)}, UNKNOWN),
    ("devices", cards(2), OK),
    ("devices", cards(1), FAIL),
    ("devices", {"device": "npu"}, FAIL),
    ("devices", cards(1, document=CUT_OFF), UNKNOWN),
    ("devices", cards(0, document=None, pci=("01:00.0",)), BLOCKED),
    ("devices", parted(2), FAIL),
    ("devices", {**parted(1), **job(processes=1)}, OK),
    ("world", job(parallel={"tensor": 2, "data": 1}), OK),
    ("world", job(parallel={"tensor": 3}), FAIL),
    ("world", job(parallel={"tensor": 1, "data": 1}), FAIL),
    ("world", job(parallel={"tensor": 0}), FAIL),
    ("world", {}, NOT_APPLICABLE),
    ("visible", seeing("0,1", 2), OK),
    ("visible", seeing("0,1,5", 2), OK),
    ("visible", seeing("0, 1", 2), FAIL),
    ("visible", seeing("1,0", 2), FAIL),
    ("visible", seeing("0,0", 2), FAIL),
    ("visible", seeing("0,16", 2), FAIL),
    ("visible", seeing("0", 2), FAIL),
    ("visible", seeing("", 2), FAIL),
    ("visible", seeing("0-1", 2), FAIL),
    ("visible", {**seeing("0,1,2", 3), "facts": cards(2)["facts"]}, OK),  # too few cards: gate.devices says so
    ("visible", cards(2), NOT_APPLICABLE),
    ("visible", left_out("2,3"), WARN),
    ("visible", left_out("0,1,3"), OK),
    ("visible", left_out("1,0"), WARN),
    ("visible", left_out("0,1,"), WARN),
    ("visible", left_out("0,,1"), WARN),
    ("visible", left_out("a"), WARN),
    ("visible", left_out(""), WARN),
    ("visible", {}, NOT_APPLICABLE),
    ("topology", seeing("0,1,2,3,4,5,6,7", 8), OK),
    ("topology", seeing("0,1,8,9", 4), OK),
    ("topology", seeing("0,1,2,3,4,5,6,7,8,9,10,11", 12), FAIL),
    ("topology", seeing("0,1,2,9", 4, HCCL_INTRA_ROCE_ENABLE="1"), OK),
    ("topology", seeing("0,1", 2, HCCL_INTRA_ROCE_ENABLE="1", HCCL_INTRA_PCIE_ENABLE="1"), FAIL),
    ("topology", seeing("0", 1), NOT_APPLICABLE),
    ("topology", {}, NOT_APPLICABLE),
    ("topology", seeing("0,1", 2, topology=None), UNKNOWN),
    ("mixed", {"recipe": HETERO, "job": HETERO.jobs[1], "device": "iluvatar"}, OK),
    ("mixed", {"recipe": NPUS, "job": NPUS.jobs[1], "device": "npu"}, FAIL),
    ("mixed", {}, NOT_APPLICABLE),
    ("steps", job(steps={"max": 50, "warmup": 5, "save": 10}), OK),
    ("steps", job(steps={"max": 50, "warmup": 50}), FAIL),
    ("steps", job(steps={"max": 50, "save": 100}), WARN),
    ("steps", job(steps={"max": 50, "eval": 51}), WARN),
    ("steps", {}, NOT_APPLICABLE),
    ("bubble", arguments("--gradient_accumulation_steps", "9", parallel=PIPELINE), OK),
    ("bubble", arguments("--gradient_accumulation_steps", "2", parallel=PIPELINE), WARN),
    ("bubble", arguments(parallel=PIPELINE), WARN),
    ("bubble", {}, NOT_APPLICABLE),
    ("bubble", arguments("--gradient_accumulation_steps", "auto", parallel=PIPELINE), UNKNOWN),
    ("memory", {**cards(2), **FLOOR}, OK),
    ("memory", {**cards(2), "recipe": replace(RECIPE, hardware=Hardware("npu", memory_gib=80))}, FAIL),
    ("memory", {}, NOT_APPLICABLE),
    ("memory", {**cards(2), **FLOOR, "facts": replace(FACTS, vendors=())}, BLOCKED),
    ("host", {}, OK),
    ("host", host(memory_available_bytes=GIB), FAIL),
    ("host", sight(memory_bytes=GIB), FAIL),
    ("host", {"recipe": replace(RECIPE, hardware=Hardware("any"))}, NOT_APPLICABLE),
    ("host", host(memory_available_bytes=None), UNKNOWN),
    ("shm", {}, OK),
    ("shm", shm(0.064), FAIL),
    ("shm", shm(64, 0.1), WARN),
    ("shm", {"recipe": replace(RECIPE, hardware=Hardware("any"))}, NOT_APPLICABLE),
    ("shm", shm(None), UNKNOWN),
    ("shm", {"facts": replace(FACTS, disks=None)}, UNKNOWN),
    ("shm", {"stage": BOX, **sight(shm_bytes=2 * GIB, shm_free_bytes=2 * GIB)}, OK),
    ("shm", {"stage": BOX, **sight(shm_bytes=64 << 20, shm_free_bytes=64 << 20)}, FAIL),
    ("shm", HIDDEN, BLOCKED),
    ("disk", {}, OK),
    ("disk", sight(free_bytes=0), FAIL),
    ("disk", sight(free_bytes=None), UNKNOWN),
    ("disk", job(disk_gib=10), FAIL),
    ("folder", {}, OK),
    ("folder", {"runs_error": "permission denied"}, FAIL),
    ("alone", {}, OK),
    ("alone", {"holder": "17"}, FAIL),
    ("data", {}, OK),
    ("data", sight(sizes={"d": None}), FAIL),
    ("data", sight(sizes={"d": 0}), FAIL),
    ("data", sight(sizes={"d.jsonl": 9}, data={"d.jsonl": {"flaw": "line 3 is no JSON"}}), FAIL),
    ("data", sight(sizes={"d.jsonl": 9}, data={"d.jsonl": {"seen": "JSON lines, 3 in all"}}), OK),
    ("data", sight(sizes={"d.jsonl": 9}, data={"d.jsonl": {"error": "permission denied"}}), FAIL),
    ("data", {**NAMED, "sight": replace(SIGHT, **{**CALLED, "sizes": {"data/identity.json": 5}})}, OK),
    ("data", {**NAMED, "sight": replace(SIGHT, **{**CALLED, "sets": {"identity": ""}})}, FAIL),
    ("data", {**NAMED, "sight": replace(SIGHT, **{**CALLED, "sizes": {"data/identity.json": None}})}, FAIL),
    ("data", {"stage": BOX, **sight(sizes={"d": None})}, FAIL),
    ("data", {"stage": BOX, **sight(missing=("start the container",), sizes={})}, BLOCKED),
    ("data", HIDDEN, BLOCKED),
    ("mix", arguments(*MIX, "0.3,0.7"), OK),
    ("mix", arguments(*MIX, "1.0"), FAIL),
    ("mix", arguments(*MIX, "0.3,0.6"), FAIL),
    ("mix", arguments(*MIX, "1.5,-0.5"), FAIL),
    ("mix", arguments(*MIX, "nan,1"), FAIL),
    ("mix", arguments(*MIX, "half,half"), FAIL),
    ("mix", arguments("--dataset", "a", "b", "--interleave_prob", "0.5", "0.5"), OK),
    ("mix", arguments("--dataset", "a,b,c", "--interleave_probs", "0.5,0.5"), FAIL),
    ("mix", {}, NOT_APPLICABLE),
    ("model", {**MODEL, **sight(models={"m": WHOLE})}, OK),
    ("model", {**MODEL, **sight(models={"m": {**WHOLE, "flaws": [CUT]}})}, FAIL),
    ("model", {**MODEL, **sight(models={})}, FAIL),
    ("model", {**MODEL, **sight(models={"m": {**WHOLE, "flaws": [{**CUT, "sure": False}]}})}, UNKNOWN),
    ("model", {**MODEL, **HIDDEN}, BLOCKED),
    ("model", {}, NOT_APPLICABLE),
    ("master", {**SEVERAL, "master": "10.0.0.7", "own_master": True}, OK),
    ("master", {**SEVERAL, "master": "10.0.0.8", "own_master": False}, FAIL),
    ("master", {**SEVERAL, "master": "10.0.0.8", "leads": False}, NOT_APPLICABLE),
    ("master", {**SEVERAL, "master": "10.0.0.8", "leads": False, "rank": 1, "own_master": False}, NOT_APPLICABLE),
    ("master", {**SEVERAL, "master": "10.0.0.7", "leads": False, "rank": 1, "own_master": True}, FAIL),
    ("master", {**SEVERAL, "master": "nowhere", "own_master": None}, UNKNOWN),
    ("master", SEVERAL, BLOCKED),
    ("master", {}, NOT_APPLICABLE),
    ("port", {}, OK),
    ("port", {"port": 80}, OK),
    ("port", {"port": 80, "port_error": "address already in use"}, FAIL),
    ("port", {"port": 80, "leads": False}, NOT_APPLICABLE),
    ("port", {"port": 80, **HIDDEN}, BLOCKED),
    ("ports", {**cards(2), **sight(ports=HCCL)}, OK),
    ("ports", {**cards(2), **sight(ports={**HCCL, 60003: "address already in use"})}, FAIL),
    ("ports", {**cards(2), **job(environment={"HCCL_IF_BASE_PORT": "65530"})}, FAIL),
    ("ports", {**cards(2), **sight(ports={})}, UNKNOWN),
    ("ports", {**cards(2), **HIDDEN}, BLOCKED),
    ("ports", {**cards(1), **job(processes=1)}, NOT_APPLICABLE),
    ("ports", sight(kernel_ports=(28000, 28232)), OK),
    ("ports", sight(kernel_ports=(3, 28232)), FAIL),
    ("ports", sight(kernel_ports=None), UNKNOWN),
    ("ports", job(nodes=1, processes=1), NOT_APPLICABLE),
    ("name", {}, OK),
    ("name", {"facts": replace(FACTS, network=Network(None))}, WARN),
    ("name", {"facts": replace(FACTS, network=None)}, UNKNOWN),
    ("name", SEVERAL, OK),
    ("name", {**SEVERAL, "facts": replace(FACTS, network=Network(("127.0.1.1", "::1")))}, FAIL),
    ("name", {**HOSTED, "facts": replace(FACTS, network=Network(("127.0.1.1",)))}, WARN),
    ("name", {**HOSTED, "host": "10.0.0.8", "facts": replace(FACTS, network=Network(("127.0.1.1",)))}, FAIL),
    ("name", {**HOSTED, "own_host": False}, WARN),
    ("name", {**SEVERAL, "host": "10.9.9.9", "own_host": False}, WARN),
    ("variables", {}, OK),
    ("variables", {"stale": ("PADDLE_RANK",)}, WARN),
    ("variables", {"stale": ("PADDLE_RANK",), **job(environment={"PADDLE_RANK": "1"})}, OK),
    ("command", {}, OK),
    ("command", {"command": replace(command(), missing=("master",))}, FAIL),
    ("container", {}, OK),
    ("container", sight(obstacle="no engine answers"), FAIL),
    ("container", {"stage": BOX}, OK),
    ("degrees", {}, NOT_APPLICABLE),
]
# Gates of the planner, whose cases are jobs of the catalogue: tests/launch/gates/test_gates_machines.py.
PLANNED = {"degrees", "memory"}
NEVER_CLOSED = {"variables", "bubble"}  # left-overs are removed; how long a pipeline waits is told
# Sums, and what the machine always answers: there is nothing that could not be read.
ALWAYS_TOLD = {
    "doctor",
    "world",
    "visible",
    "mixed",
    "steps",
    "folder",
    "alone",
    "mix",
    "variables",
    "command",
    "container",
}


def ids(value: object) -> str:
    return value if isinstance(value, str) else value.name if isinstance(value, Status) else ""


@pytest.mark.parametrize(("name", "changed", "expected"), CASES, ids=ids)
def test_gate(name: str, changed: dict[str, Any], expected: Status) -> None:
    """Each gate is open, closed, or says that it cannot tell; what is not open comes with what would open it."""
    finding = gates.GATES[name](situated(**changed))

    assert finding.status is expected, finding
    assert finding.name == f"gate.{name}"
    assert finding.seen
    assert finding.remedy or finding.status in (OK, NOT_APPLICABLE, BLOCKED)
    assert not finding.remedy or finding.remedy.words


def test_every_gate_has_its_cases() -> None:
    """Each gate has a right and a wrong case, and one that cannot be read or looked at where there is something."""
    had = {name: {status for other, _, status in CASES if other == name} for name in gates.GATES}

    assert {name for name, _, _ in CASES} == set(gates.GATES)
    assert {name for name in had if OK not in had[name]} <= PLANNED
    assert {name for name in had if FAIL not in had[name]} == NEVER_CLOSED | {"degrees"}
    assert {name for name in had if not had[name] & {UNKNOWN, BLOCKED}} <= ALWAYS_TOLD | PLANNED


@pytest.mark.parametrize(("name", "changed"), [(name, changed) for name, changed, _ in CASES])
def test_a_record_without_commands_crashes_no_gate(
    name: str, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a vendor's record need not give is in no gate's way."""
    for key, vendor in VENDORS.items():
        monkeypatch.setitem(VENDORS, key, replace(vendor, commands={}, port_spans=()))

    assert gates.GATES[name](situated(**changed)).seen


def test_nothing_known_is_never_green() -> None:
    """Where neither machine nor place could be looked at, only what can be told without them is open."""
    blind = situated(facts=Facts(), **{**HIDDEN, **job(nodes=2), "port": 80, "master": "m"})
    green = {finding.name.removeprefix("gate.") for finding in gates.walk(blind) if finding.status is OK}

    assert green <= {"doctor", "folder", "alone", "variables", "command"}


@pytest.mark.parametrize(
    ("name", "changed", "words"),
    [
        ("mix", arguments("--train_dataset_path", "a,b,c", "--train_dataset_prob", "-1,2,0"), "numbers below 0: -1"),
        ("world", job(processes=1, parallel={"tensor": 1}), "tensor 1 = 1, on 1 x 1 = 1 process"),
        ("bubble", arguments("--gradient_accumulation_steps", "2", parallel=PIPELINE), "they would wait 25 %"),
    ],
)
def test_words_of_what_is_wrong(name: str, changed: dict[str, Any], words: str) -> None:
    """The number that is wrong is named, and one process is not several."""
    found = gates.GATES[name](situated(**changed))

    assert words in f"{found.seen} {found.remedy.words if found.remedy else ''}"
    assert "processes" not in found.seen


def test_a_document_that_is_none() -> None:
    """The sentence has one subject, the file's name."""
    flaw = sight(sizes={"bad.json": 9}, data={"bad.json": {"flaw": "it is no JSON at column 3 (x)"}})

    assert gates.GATES["data"](situated(**flaw)).evidence == ("bad.json is no JSON at column 3 (x)",)


def test_a_pipe_in_place_of_data() -> None:
    """It has no bytes either, and what it is says more."""
    pipe = sight(sizes={"d.jsonl": 0}, data={"d.jsonl": {"flaw": "is no plain file"}})

    assert gates.GATES["data"](situated(**pipe)).evidence == ("d.jsonl is no plain file",)


NEEDY = replace(command(), scripts=("set_env.sh",), requires=("m/config.json", "train.py"), data=("d",), own_data=False)
GONE = dict.fromkeys(("d", "set_env.sh", "m/config.json", "train.py"))


def test_each_kind_of_missing_file_has_its_next_step() -> None:
    """What the toolkit, the hub, the user and the project bring is told apart, the model by its own gate alone; a
    container is named as the place."""
    inside = gates.GATES["data"](situated(command=NEEDY, stage=BOX, **sight(sizes=GONE)))
    model = gates.GATES["model"](situated(command=NEEDY, stage=BOX, **sight(sizes=GONE)))

    assert "in box" in inside.seen
    assert inside.status is Status.FAIL
    assert len(inside.evidence) == 3
    assert inside.remedy
    assert model.remedy and "hub" in model.remedy.words
    for word in ("toolkit", "Put the data there", "project"):
        assert word in inside.remedy.words
    assert "--data" not in inside.remedy.words  # the command has no place for it


def test_a_list_of_cards_that_is_left_out_is_told() -> None:
    """The variable is not said to be unset, the cards on which the job starts are named, and nothing points to options
    that choose none."""
    left = situated(**left_out("3,2"))
    seen, told = (gates.GATES[name](left) for name in ("visible", "variables"))

    assert seen.seen.startswith("ASCEND_RT_VISIBLE_DEVICES=3,2 is left out: it is not ascending")
    assert seen.seen.endswith("; the job starts on cards 0,1")
    assert told.remedy and told.remedy.words == "Of the list of cards gate.visible tells."


def test_the_cards_of_the_launchers_list_are_judged() -> None:
    """A recipe whose launcher names its cards starts on those, and not on the first ones."""
    its = job(launcher=("{python}", "-m", "paddle.distributed.launch", "--npus", "2,3"))

    assert [device.index for device in answers.used(situated(**{**cards(4), **its}))] == [2, 3]


def test_the_way_in_is_one_that_is_open() -> None:
    """What lacks is installed by train where something is trained, and by provision alone for a talk."""
    lacks = sight(missing=("paddlepaddle is not installed",))
    trained, talked = (gates.GATES["environment"](situated(**lacks, **more)) for more in ({}, job(method="chat")))

    assert trained.remedy and [words.split()[1] for words in trained.remedy.commands] == ["provision", "train"]
    assert talked.remedy and [words.split()[1] for words in talked.remedy.commands] == ["provision"]
    assert "train" not in talked.remedy.words


def test_nobody_measures_a_folder_that_nobody_saw() -> None:
    """A container that is not there is why its free space is not known; then there is nothing to make room in."""
    finding = gates.GATES["disk"](situated(**HIDDEN))

    assert (finding.status, finding.blocked_by) == (BLOCKED, "gate.container")
    assert finding.seen == "box is not there to look into; not checked because gate.container failed"


@pytest.mark.parametrize(("boxed", "device", "status"), [(False, "npu", FAIL), (True, "npu", WARN), (False, "", WARN)])
def test_closed_nodes_close_a_job_of_this_host(boxed: bool, device: str, status: Status) -> None:
    """Who may not open the cards' nodes trains in a container alone; other cards' and other warnings stay."""
    closed = Finding("devices.access", WARN, "wang may not open /dev/davinci0", device=device or "nvidia")
    other = Finding("devices.memory", WARN, "held", device="npu")

    assert [f.status for f in place.of_job((closed, other), "npu", boxed)] == [status, WARN]


def test_doctor_gate_hands_on_the_remedy() -> None:
    """What doctor says about each failure, and its commands, reach the person who wanted to train."""
    finding = gates.GATES["doctor"](situated(doctor=(FAILING, replace(FAILING, name="host.memory", remedy=None))))

    assert finding.evidence == ("driver.version: too old. Update it.", "host.memory: too old.")
    assert finding.remedy
    assert finding.remedy.commands == ("update",)


@pytest.mark.parametrize(("toolkit", "last"), [("8.0.RC1", 60015), ("8.2.RC1", 60031), (None, 60031)])
def test_collectives_ports_by_toolkit(toolkit: str | None, last: int) -> None:
    """HCCL opens 16 ports up to CANN 8.0 and 32 from 8.2 on; where the version is not known, 32 are looked at."""
    recipe = replace(RECIPE, toolkit_minimum=toolkit, container=Container("box"))
    finding = gates.GATES["ports"](situated(**cards(2), recipe=recipe, sight=replace(SIGHT, ports=HCCL)))

    assert finding.seen == f"ports 60000 to {last}: free"


def test_chips_are_counted_not_cards() -> None:
    """On Iluvatar the words say that a card holds two of what is counted."""
    found = tuple(Device(index=n) for n in range(4))
    facts = replace(FACTS, vendors=(VendorFacts(VENDORS["iluvatar"], devices=found),))
    finding = gates.GATES["devices"](situated(device="iluvatar", facts=facts))

    assert finding.seen == "this job needs 2 devices; 4 found (2 per card)"


def test_a_limit_of_the_container_counts() -> None:
    """A memory limit of the place is named beside what the host has free."""
    finding = gates.GATES["host"](situated(recipe=BOXED, stage=BOX, sight=replace(SIGHT, memory_bytes=GIB)))

    assert finding.seen == "this job needs 2.0 GiB of host memory; 1.0 GiB free"
    assert "a limit of the container box leaves 1.0 GiB" in finding.evidence


def test_shm_of_the_host_is_not_the_containers() -> None:
    """A container's own /dev/shm counts, however large the host's is."""
    finding = gates.GATES["shm"](situated(recipe=BOXED, stage=BOX, sight=replace(SIGHT, shm_bytes=64 << 20)))

    assert DISKS["/dev/shm"].total_bytes == 64 * GIB
    assert finding.seen == "this job needs 1.0 GiB of /dev/shm; 64 MiB found"
    assert finding.remedy and "--shm-size=1g" in finding.remedy.words


def test_the_page_has_the_table() -> None:
    """docs/train.md has a row for each gate, as the table of gates says it: python -m launch.gates"""
    assert table() in (Path(__file__).parents[3] / "docs/train.md").read_text()
