"""Each gate of `envcheck train`: right, wrong, absent, unreadable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envcheck.core.facts import Facts, Network, Packages, ScriptVerdict, VendorFacts
from envcheck.core.messages import verbatim
from envcheck.core.model import Device, Document, Finding, Status
from envcheck.report import Style
from envcheck.vendors import VENDORS
from installers.recipes.recipe import Hardware, Package, RecipeContainer, RecipeImage
from launch import gates
from launch.gates import listing, results, run_location
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
    change_arguments,
    change_host,
    change_job,
    change_locked_package,
    change_place_facts,
    change_shm,
    hide_cards,
    limit_visible_cards,
    make_command,
    make_context,
    make_mig_cards,
    make_npu_cards,
)

NOT_APPLICABLE, OK, BLOCKED, UNKNOWN, WARN, FAIL = Status
FLOOR = {"recipe": replace(RECIPE, hardware=Hardware("npu", memory_gib=64))}
MODEL = {"command": replace(make_command(), requires=("m/config.json",))}
WHOLE: dict[str, Any] = {"shards": 2, "size_bytes": 5 * GIB, "flaws": [], "config": {}}
SAVED = {"files": 3, "size_bytes": 1 << 20, "flaws": []}
CUT = {"what": "model-1.safetensors is cut off", "next": "download the file again", "sure": True}
CHAT = replace(JOB, method="chat", requires=("o/a.json",), arguments=("--adapter", "o"))
TRAINED = {"job": CHAT, "command": make_command(CHAT)}
SEVERAL = change_job(nodes=2)
HOSTED = {**change_job(nodes=2, launcher=(*JOB.launcher, "--host", "10.0.0.7")), "host": "10.0.0.7"}
MIX = ("--train_dataset_path", "a.jsonl,b.jsonl", "--train_dataset_prob")
NAMED = {"command": replace(make_command(), data=("identity",), requires=("data/dataset_info.json",))}
CALLED = {"sizes": {"data/dataset_info.json": 9}, "sets": {"identity": "data/identity.json"}}
PIPELINE = {"pipeline": 4}
HETERO = replace(RECIPE, jobs=tuple(replace(JOB, role=name, device=name) for name in ("nvidia", "iluvatar")))
NPUS = replace(RECIPE, jobs=tuple(replace(JOB, role=name, device=name) for name in ("nvidia", "npu")))
HCCL = dict.fromkeys(range(60000, 60032))
PACKED = replace(RECIPE, packages=(Package("torch", ">=2"),))
HAS_PACKAGE = replace(FACTS, packages=Packages("3.10.1", packages={"torch": "2.1"}))
LACKS_PACKAGE = replace(FACTS, packages=Packages("3.10.1"))
CUT_OFF = Document("npu-smi", "info", truncated=True)


MISTAKEN = ScriptVerdict("run.sh", is_file=True, mistakes=(verbatim("run.sh:1: no master"),))
UNREAD = ScriptVerdict("run.sh", is_file=True, unread=verbatim("no grammar"), unread_remedy=verbatim("pip install x"))


CASES: list[tuple[str, dict[str, Any], Status]] = [
    ("environment", {}, OK),
    ("environment", change_place_facts(missing=("paddlepaddle is not installed",)), FAIL),
    ("environment", HIDDEN, BLOCKED),
    ("environment", change_place_facts(is_verified=False), UNKNOWN),
    ("environment", {**change_place_facts(is_verified=False), "recipe": PACKED, "facts": HAS_PACKAGE}, OK),
    ("environment", {**change_place_facts(is_verified=False), "recipe": PACKED, "facts": LACKS_PACKAGE}, UNKNOWN),
    ("lint", {}, NOT_APPLICABLE),
    ("lint", {"script": ScriptVerdict("run.sh", is_file=True)}, OK),
    ("lint", {"script": replace(MISTAKEN, mistakes=(), warnings=MISTAKEN.mistakes)}, WARN),
    ("lint", {"script": MISTAKEN}, FAIL),
    ("lint", {"script": UNREAD}, UNKNOWN),
    ("lock", change_locked_package("1.26.4"), OK),
    ("lock", change_locked_package("1.26.4", image="sha256:aa"), OK),
    ("lock", change_locked_package("1.26.3"), FAIL),
    ("lock", change_locked_package("1.26.4", image="sha256:bb"), FAIL),
    ("lock", {}, NOT_APPLICABLE),
    ("lock", {"lock_error": "envcheck.lock: line 3: no TOML"}, UNKNOWN),
    ("lock", {"lock": LOCK, **HIDDEN}, BLOCKED),
    ("doctor", {"doctor": (replace(FAILING, status=WARN),)}, WARN),
    ("doctor", {"doctor": (replace(FAILING, status=WARN), replace(FAILING, status=UNKNOWN))}, UNKNOWN),
    ("doctor", {"doctor": (replace(FAILING, name="host.clock", status=UNKNOWN),)}, OK),
    ("doctor", {"doctor": (FAILING,)}, FAIL),
    ("doctor", {"doctor": (replace(FAILING, name="job.cards"),)}, OK),
    ("devices", {}, OK),
    ("devices", change_host(cpu_count=1), WARN),
    ("devices", {"facts": replace(FACTS, host=None)}, UNKNOWN),
    ("devices", make_npu_cards(2), OK),
    ("devices", make_npu_cards(1), FAIL),
    ("devices", {"device": "npu"}, FAIL),
    ("devices", make_npu_cards(1, document=CUT_OFF), UNKNOWN),
    ("devices", make_npu_cards(0, document=None, pci=("01:00.0",)), BLOCKED),
    ("devices", make_mig_cards(2), FAIL),
    ("devices", {**make_mig_cards(1), **change_job(processes=1)}, OK),
    ("world", change_job(parallel={"tensor": 2, "data": 1}), OK),
    ("world", change_job(parallel={"tensor": 3}), FAIL),
    ("world", change_job(parallel={"tensor": 1, "data": 1}), FAIL),
    ("world", change_job(parallel={"tensor": 0}), FAIL),
    ("world", {}, NOT_APPLICABLE),
    ("visible", limit_visible_cards("0,1", 2), OK),
    ("visible", limit_visible_cards("0,1,5", 2), OK),
    ("visible", limit_visible_cards("0, 1", 2), FAIL),
    ("visible", limit_visible_cards("1,0", 2), FAIL),
    ("visible", limit_visible_cards("0,0", 2), FAIL),
    ("visible", limit_visible_cards("0,16", 2), FAIL),
    ("visible", limit_visible_cards("0", 2), FAIL),
    ("visible", limit_visible_cards("", 2), FAIL),
    ("visible", limit_visible_cards("0-1", 2), FAIL),
    (
        "visible",
        {**limit_visible_cards("0,1,2", 3), "facts": make_npu_cards(2)["facts"]},
        OK,
    ),  # too few cards: gate.devices says so
    ("visible", make_npu_cards(2), NOT_APPLICABLE),
    ("visible", hide_cards("2,3"), WARN),
    ("visible", hide_cards("0,1,3"), OK),
    ("visible", hide_cards("1,0"), WARN),
    ("visible", hide_cards("0,1,"), WARN),
    ("visible", hide_cards("0,,1"), WARN),
    ("visible", hide_cards("a"), WARN),
    ("visible", hide_cards(""), WARN),
    ("visible", {}, NOT_APPLICABLE),
    ("topology", limit_visible_cards("0,1,2,3,4,5,6,7", 8), OK),
    ("topology", limit_visible_cards("0,1,8,9", 4), OK),
    ("topology", limit_visible_cards("0,1,2,3,4,5,6,7,8,9,10,11", 12), FAIL),
    ("topology", limit_visible_cards("0,1,2,9", 4, HCCL_INTRA_ROCE_ENABLE="1"), OK),
    ("topology", limit_visible_cards("0,1", 2, HCCL_INTRA_ROCE_ENABLE="1", HCCL_INTRA_PCIE_ENABLE="1"), FAIL),
    ("topology", limit_visible_cards("0", 1), NOT_APPLICABLE),
    ("topology", {}, NOT_APPLICABLE),
    ("topology", limit_visible_cards("0,1", 2, topology=None), UNKNOWN),
    ("mixed", {"recipe": HETERO, "job": HETERO.jobs[1], "device": "iluvatar"}, OK),
    ("mixed", {"recipe": NPUS, "job": NPUS.jobs[1], "device": "npu"}, FAIL),
    ("mixed", {}, NOT_APPLICABLE),
    ("steps", change_job(steps={"max": 50, "warmup": 5, "save": 10}), OK),
    ("steps", change_job(steps={"max": 50, "warmup": 50}), FAIL),
    ("steps", change_job(steps={"max": 50, "save": 100}), WARN),
    ("steps", change_job(steps={"max": 50, "eval": 51}), WARN),
    ("steps", {}, NOT_APPLICABLE),
    ("bubble", change_arguments("--gradient_accumulation_steps", "9", parallel=PIPELINE), OK),
    ("bubble", change_arguments("--gradient_accumulation_steps", "2", parallel=PIPELINE), WARN),
    ("bubble", change_arguments(parallel=PIPELINE), WARN),
    ("bubble", {}, NOT_APPLICABLE),
    ("bubble", change_arguments("--gradient_accumulation_steps", "auto", parallel=PIPELINE), UNKNOWN),
    ("memory", {**make_npu_cards(2), **FLOOR}, OK),
    ("memory", {**make_npu_cards(2), "recipe": replace(RECIPE, hardware=Hardware("npu", memory_gib=80))}, FAIL),
    ("memory", {}, NOT_APPLICABLE),
    ("memory", {**make_npu_cards(2), **FLOOR, "facts": replace(FACTS, vendors=())}, BLOCKED),
    ("host", {}, OK),
    ("host", change_host(memory_available_bytes=GIB), FAIL),
    ("host", change_place_facts(memory_bytes=GIB), FAIL),
    ("host", {"recipe": replace(RECIPE, hardware=Hardware("any"))}, NOT_APPLICABLE),
    ("host", change_host(memory_available_bytes=None), UNKNOWN),
    ("shm", {}, OK),
    ("shm", change_shm(0.064), FAIL),
    ("shm", change_shm(64, 0.1), WARN),
    ("shm", {"recipe": replace(RECIPE, hardware=Hardware("any"))}, NOT_APPLICABLE),
    ("shm", change_shm(None), UNKNOWN),
    ("shm", {"facts": replace(FACTS, disks=None)}, UNKNOWN),
    ("shm", {"stage": BOX, **change_place_facts(shm_bytes=2 * GIB, shm_free_bytes=2 * GIB)}, OK),
    ("shm", {"stage": BOX, **change_place_facts(shm_bytes=64 << 20, shm_free_bytes=64 << 20)}, FAIL),
    ("shm", HIDDEN, BLOCKED),
    ("disk", {}, OK),
    ("disk", change_place_facts(free_bytes=0), FAIL),
    ("disk", change_place_facts(free_bytes=None), UNKNOWN),
    ("disk", change_job(disk_gib=10), FAIL),
    ("folder", {}, OK),
    ("folder", {"runs_error": "permission denied"}, FAIL),
    ("alone", {}, OK),
    ("alone", {"holder": "17"}, FAIL),
    ("alone", {"holder": "17", "holder_run": "a-run"}, FAIL),
    ("data", {}, OK),
    ("data", change_place_facts(sizes={"d": None}), FAIL),
    ("data", change_place_facts(sizes={"d": 0}), FAIL),
    ("data", change_place_facts(sizes={"d.jsonl": 9}, data={"d.jsonl": {"flaw": "line 3 is no JSON"}}), FAIL),
    ("data", change_place_facts(sizes={"d.jsonl": 9}, data={"d.jsonl": {"seen": "JSON lines, 3 lines"}}), OK),
    ("data", change_place_facts(sizes={"d.jsonl": 9}, data={"d.jsonl": {"error": "permission denied"}}), FAIL),
    ("data", {**NAMED, "sight": replace(SIGHT, **{**CALLED, "sizes": {"data/identity.json": 5}})}, OK),
    ("data", {**NAMED, "sight": replace(SIGHT, **{**CALLED, "sets": {"identity": ""}})}, FAIL),
    ("data", {**NAMED, "sight": replace(SIGHT, **{**CALLED, "sizes": {"data/identity.json": None}})}, FAIL),
    ("data", {"stage": BOX, **change_place_facts(sizes={"d": None})}, FAIL),
    ("data", {"stage": BOX, **change_place_facts(missing=("start the container",), sizes={})}, BLOCKED),
    ("data", HIDDEN, BLOCKED),
    ("mix", change_arguments(*MIX, "0.3,0.7"), OK),
    ("mix", change_arguments(*MIX, "1.0"), FAIL),
    ("mix", change_arguments(*MIX, "0.3,0.6"), FAIL),
    ("mix", change_arguments(*MIX, "1.5,-0.5"), FAIL),
    ("mix", change_arguments(*MIX, "nan,1"), FAIL),
    ("mix", change_arguments(*MIX, "half,half"), FAIL),
    ("mix", change_arguments("--dataset", "a", "b", "--interleave_prob", "0.5", "0.5"), OK),
    ("mix", change_arguments("--dataset", "a,b,c", "--interleave_probs", "0.5,0.5"), FAIL),
    ("mix", {}, NOT_APPLICABLE),
    ("model", {**MODEL, **change_place_facts(models={"m": WHOLE})}, OK),
    ("model", {**MODEL, **change_place_facts(models={"m": {**WHOLE, "flaws": [CUT]}})}, FAIL),
    ("model", {**MODEL, **change_place_facts(models={})}, FAIL),
    ("model", {**MODEL, **change_place_facts(models={"m": {**WHOLE, "flaws": [{**CUT, "sure": False}]}})}, UNKNOWN),
    ("model", {**MODEL, **HIDDEN}, BLOCKED),
    ("model", {}, NOT_APPLICABLE),
    ("checkpoint", {"checkpoint": "c", **change_place_facts(checkpoints={"c": SAVED})}, OK),
    ("checkpoint", {"checkpoint": "c", **change_place_facts(checkpoints={"c": {**SAVED, "flaws": [CUT]}})}, FAIL),
    ("checkpoint", {"checkpoint": "c", **change_place_facts(checkpoints={})}, UNKNOWN),
    ("checkpoint", {"checkpoint": "c", **HIDDEN}, BLOCKED),
    ("checkpoint", {}, NOT_APPLICABLE),
    ("weights", {**TRAINED, **change_place_facts(values={"o": {}})}, OK),
    ("weights", {**TRAINED, **change_place_facts(values={"o": {"flaw": "w.npz, a: not finite"}})}, FAIL),
    ("weights", {}, NOT_APPLICABLE),
    ("weights", {**TRAINED, **HIDDEN}, BLOCKED),
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
    ("ports", {**make_npu_cards(2), **change_place_facts(ports=HCCL)}, OK),
    ("ports", {**make_npu_cards(2), **change_place_facts(ports={**HCCL, 60003: "address already in use"})}, FAIL),
    ("ports", {**make_npu_cards(2), **change_job(environment={"HCCL_IF_BASE_PORT": "65530"})}, FAIL),
    ("ports", {**make_npu_cards(2), **change_place_facts(ports={})}, UNKNOWN),
    ("ports", {**make_npu_cards(2), **HIDDEN}, BLOCKED),
    ("ports", {**make_npu_cards(1), **change_job(processes=1)}, NOT_APPLICABLE),
    ("ports", change_place_facts(kernel_ports=(28000, 28232)), OK),
    ("ports", change_place_facts(kernel_ports=(3, 28232)), FAIL),
    ("ports", change_place_facts(kernel_ports=None), UNKNOWN),
    ("ports", change_job(nodes=1, processes=1), NOT_APPLICABLE),
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
    ("variables", {"stale": ("PADDLE_RANK",), **change_job(environment={"PADDLE_RANK": "1"})}, OK),
    ("command", {}, OK),
    ("command", {"command": replace(make_command(), missing=("master",))}, FAIL),
    ("command", {"script": ScriptVerdict("run.sh", is_file=True, absent=(verbatim("torchrun is absent"),))}, FAIL),
    ("command", {"script": ScriptVerdict("run.sh", is_file=True, unsure=(verbatim("conda sets it"),))}, UNKNOWN),
    ("container", {}, OK),
    ("container", change_place_facts(obstacle="no engine answers"), FAIL),
    ("container", {"stage": BOX}, OK),
    ("degrees", {}, NOT_APPLICABLE),
]
# Gates of the planner, whose cases are jobs of the catalogue: tests/launch/gates/test_gates_machines.py.
PLANNED = {"degrees", "memory"}
NEVER_CLOSED = {"variables", "bubble"}  # these only report
# Gates whose input is always available.
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


def make_id(value: object) -> str:
    return value if isinstance(value, str) else value.name if isinstance(value, Status) else ""


@pytest.mark.parametrize(("name", "changed", "expected"), CASES, ids=make_id)
def test_gate(name: str, changed: dict[str, Any], expected: Status) -> None:
    """Each gate has the expected status, and a remedy unless it passed."""
    finding = gates.GATES[name](make_context(**changed))

    assert finding.status is expected, finding
    assert finding.name == f"gate.{name}"
    assert finding.seen
    assert finding.remedy or finding.status in (OK, NOT_APPLICABLE, BLOCKED)
    assert not finding.remedy or finding.remedy.words


def test_every_gate_has_its_cases() -> None:
    """Each gate has a passing and a failing case, and one with unreadable input where it reads something."""
    had = {name: {status for other, _, status in CASES if other == name} for name in gates.GATES}

    assert {name for name, _, _ in CASES} == set(gates.GATES)
    assert {name for name in had if OK not in had[name]} <= PLANNED
    assert {name for name in had if FAIL not in had[name]} == NEVER_CLOSED | {"degrees"}
    assert {name for name in had if not had[name] & {UNKNOWN, BLOCKED}} <= ALWAYS_TOLD | PLANNED


def test_a_file_of_the_toolkit_comes_with_the_toolkit() -> None:
    """A missing file of the vendor's toolkit is not attributed to the project."""
    library = "/usr/local/corex/lib64/libcuda.so.1"
    changed = {"command": replace(make_command(), requires=(library,)), **change_place_facts(sizes={library: None})}
    finding = gates.GATES["data"](make_context(**changed))

    assert finding.remedy and finding.remedy.words == "Install the vendor's toolkit, which contains these files."


def test_doubts_about_the_host_s_toolkit_count_without_a_container() -> None:
    """A warning about the toolkit of the host is noted where the job uses it, and not where an image brings its own."""
    doubt = replace(FAILING, name="toolkit.operators", status=WARN)
    image = RecipeImage({"x86_64": "registry/image:1"})

    assert gates.GATES["doctor"](make_context(doctor=(doubt,))).status is WARN
    assert gates.GATES["doctor"](make_context(doctor=(doubt,), recipe=replace(RECIPE, image=image))).status is OK


def test_unchecked_gates_are_one_line_after_their_cause() -> None:
    """Gates that a missing container blocks do not bury the gate that failed."""
    found = gates.evaluate_gates(make_context(port=80, **HIDDEN))
    blocked = [finding.name for finding in found if finding.status is BLOCKED]
    lines = [line for line in listing.render_gates(found, Style(width=1000)).splitlines() if line]
    (at,) = (number for number, line in enumerate(lines) if "not checked because gate.container failed" in line)

    assert len(blocked) >= 5
    assert all(name in lines[at] for name in blocked)
    assert lines[at - 2].endswith("gate.container: no engine answers")


@pytest.mark.parametrize(("name", "changed"), [(name, changed) for name, changed, _ in CASES])
def test_a_record_without_commands_crashes_no_gate(
    name: str, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No gate needs the optional fields of a vendor record."""
    for key, vendor in VENDORS.items():
        monkeypatch.setitem(VENDORS, key, replace(vendor, commands={}, port_spans=()))

    assert gates.GATES[name](make_context(**changed)).seen


def test_nothing_known_is_never_green() -> None:
    """Without facts only gates that need none are OK."""
    blind = make_context(facts=Facts(), **{**HIDDEN, **change_job(nodes=2), "port": 80, "master": "m"})
    green = {finding.name.removeprefix("gate.") for finding in gates.evaluate_gates(blind) if finding.status is OK}

    assert green <= {"doctor", "folder", "alone", "variables", "command"}


@pytest.mark.parametrize(
    ("name", "changed", "words"),
    [
        (
            "mix",
            change_arguments("--train_dataset_path", "a,b,c", "--train_dataset_prob", "-1,2,0"),
            "negative values: -1",
        ),
        ("world", change_job(processes=1, parallel={"tensor": 1}), "tensor 1 = 1; the job starts 1 x 1 = 1 process"),
        (
            "bubble",
            change_arguments("--gradient_accumulation_steps", "2", parallel=PIPELINE),
            "reduce the idle time to 25 %",
        ),
    ],
)
def test_messages_of_failures(name: str, changed: dict[str, Any], words: str) -> None:
    """The message names the wrong number and uses the singular for one process."""
    found = gates.GATES[name](make_context(**changed))

    assert words in f"{found.seen} {found.remedy.words if found.remedy else ''}"
    assert "processes" not in found.seen


def test_evidence_of_invalid_data() -> None:
    """The line begins with the name of the file."""
    flaw = change_place_facts(sizes={"bad.json": 9}, data={"bad.json": {"flaw": "not valid JSON at column 3 (x)"}})

    assert gates.GATES["data"](make_context(**flaw)).evidence == ("bad.json: not valid JSON at column 3 (x)",)


def test_a_pipe_in_place_of_data() -> None:
    """The type of the file is reported, not its size of 0."""
    pipe = change_place_facts(sizes={"d.jsonl": 0}, data={"d.jsonl": {"flaw": "not a regular file"}})

    assert gates.GATES["data"](make_context(**pipe)).evidence == ("d.jsonl: not a regular file",)


NEEDY = replace(
    make_command(), scripts=("set_env.sh",), requires=("m/config.json", "train.py"), data=("d",), own_data=False
)
GONE = dict.fromkeys(("d", "set_env.sh", "m/config.json", "train.py"))


def test_each_kind_of_missing_file_has_its_next_step() -> None:
    """Files of toolkit, user and project have different remedies; gate.model covers the model."""
    inside = gates.GATES["data"](make_context(command=NEEDY, stage=BOX, **change_place_facts(sizes=GONE)))
    model = gates.GATES["model"](make_context(command=NEEDY, stage=BOX, **change_place_facts(sizes=GONE)))

    assert "in container box" in inside.seen
    assert inside.status is Status.FAIL
    assert len(inside.evidence) == 3
    assert inside.remedy
    assert model.remedy and "Download the model" in model.remedy.words
    for word in ("toolkit", "Copy the data to that path", "project"):
        assert word in inside.remedy.words
    assert "--data" not in inside.remedy.words  # the command has no such placeholder


def test_an_ignored_visible_list_is_reported() -> None:
    """The message states that the variable is ignored and which cards the job uses instead."""
    left = make_context(**hide_cards("3,2"))
    seen, told = (gates.GATES[name](left) for name in ("visible", "variables"))

    assert seen.seen.startswith("ASCEND_RT_VISIBLE_DEVICES=3,2 is ignored because it is not ascending")
    assert seen.seen.endswith("; the job uses cards 0,1")
    assert told.remedy and told.remedy.words == "See gate.visible for the device list."


def test_the_cards_of_the_launchers_list_are_judged() -> None:
    """The device list of the launcher selects the cards, not their order."""
    its = change_job(launcher=("{python}", "-m", "paddle.distributed.launch", "--npus", "2,3"))

    assert [device.index for device in results.select_job_devices(make_context(**{**make_npu_cards(4), **its}))] == [
        2,
        3,
    ]


def test_commands_that_install_the_environment() -> None:
    """Missing software is installed by provision or train; for a chat only by provision."""
    lacks = change_place_facts(missing=("paddlepaddle is not installed",))
    trained, talked = (
        gates.GATES["environment"](make_context(**lacks, **more)) for more in ({}, change_job(method="chat"))
    )

    assert trained.remedy and [words.split()[1] for words in trained.remedy.commands] == ["provision", "train"]
    assert talked.remedy and [words.split()[1] for words in talked.remedy.commands] == ["provision"]
    assert "train" not in talked.remedy.words


def test_disk_of_an_unavailable_container() -> None:
    """The disk gate is blocked by gate.container, without a remedy of its own."""
    finding = gates.GATES["disk"](make_context(**HIDDEN))

    assert (finding.status, finding.blocked_by) == (BLOCKED, "gate.container")
    assert finding.seen == "cannot inspect container box; not checked because gate.container failed"


@pytest.mark.parametrize(("boxed", "device", "status"), [(False, "npu", FAIL), (True, "npu", WARN), (False, "", WARN)])
def test_closed_nodes_close_a_job_of_this_host(boxed: bool, device: str, status: Status) -> None:
    """Inaccessible device nodes fail a job on the host only; other warnings stay warnings."""
    closed = Finding("devices.access", WARN, "wang cannot open /dev/davinci0", device=device or "nvidia")
    other = Finding("devices.memory", WARN, "held", device="npu")

    assert [f.status for f in run_location.adapt_to_job((closed, other), "npu", boxed)] == [status, WARN]


def test_doctor_gate_has_the_remedies() -> None:
    """The messages and commands of all failed checks are in the finding."""
    finding = gates.GATES["doctor"](make_context(doctor=(FAILING, replace(FAILING, name="host.memory", remedy=None))))

    assert finding.evidence == ("driver.version: too old. Update it.", "host.memory: too old.")
    assert finding.remedy
    assert finding.remedy.commands == ("update",)


def test_a_training_in_the_container_is_not_killed_on_the_host() -> None:
    """The pid of a training in the container is one of the container: `kill` runs there."""
    inside = make_context(recipe=BOXED, stage=BOX, sight=replace(SIGHT, marks={17: "/runs/a"}))
    finding = gates.GATES["alone"](replace(inside, holder=run_location.find_container_run(inside.sight)))
    unknown = gates.GATES["alone"](make_context(holder="unknown"))

    assert finding.remedy and finding.remedy.commands == ("docker exec box kill 17",)
    assert unknown.remedy and unknown.remedy.commands == ()


@pytest.mark.parametrize(("toolkit", "last"), [("8.0.RC1", 60015), ("8.2.RC1", 60031), (None, 60031)])
def test_collectives_ports_by_toolkit(toolkit: str | None, last: int) -> None:
    """HCCL opens 16 ports up to CANN 8.0 and 32 since 8.2; 32 are tested for an unknown version."""
    recipe = replace(RECIPE, toolkit_minimum=toolkit, container=RecipeContainer("box"))
    finding = gates.GATES["ports"](make_context(**make_npu_cards(2), recipe=recipe, sight=replace(SIGHT, ports=HCCL)))

    assert finding.seen == f"ports 60000-{last}: free"


def test_chips_are_counted_not_cards() -> None:
    """The message for Iluvatar states that a card has two devices."""
    found = tuple(Device(index=n) for n in range(4))
    facts = replace(FACTS, vendors=(VendorFacts(VENDORS["iluvatar"], devices=found),))
    finding = gates.GATES["devices"](make_context(device="iluvatar", facts=facts))

    assert finding.seen == "this job needs 2 devices; 4 found (2 per card)"


def test_a_limit_of_the_container_counts() -> None:
    """The memory limit of the container is listed as evidence."""
    finding = gates.GATES["host"](make_context(recipe=BOXED, stage=BOX, sight=replace(SIGHT, memory_bytes=GIB)))

    assert finding.seen == "this job needs 2.0 GiB of host memory; 1.0 GiB free"
    assert "the memory limit of container box leaves 1.0 GiB" in finding.evidence


def test_shm_of_the_host_is_not_the_containers() -> None:
    """The /dev/shm of the container counts, not the host's."""
    finding = gates.GATES["shm"](make_context(recipe=BOXED, stage=BOX, sight=replace(SIGHT, shm_bytes=64 << 20)))

    assert DISKS["/dev/shm"].total_bytes == 64 * GIB
    assert finding.seen == "this job needs 1.0 GiB of /dev/shm; 64 MiB found"
    assert finding.remedy and "--shm-size=1g" in finding.remedy.words


def test_a_supervised_run_is_stopped_by_its_id() -> None:
    """Its supervisor is not killed: that would make an orphan of the run."""
    finding = gates.GATES["alone"](make_context(holder="17", holder_run="a-run"))

    assert finding.remedy and finding.remedy.commands == ("envcheck runs stop a-run",)
    assert "run a-run is active" in finding.seen
