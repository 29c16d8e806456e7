"""Simulated machines: their tools are read by our own parsers to exactly what the description says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck import runner
from envcheck.errors import UsageError
from envcheck.facts import follow_ups
from envcheck.machine import Machine as Door
from envcheck.machine import ask_all, simulated
from envcheck.model import Document, Outcome, Question
from envcheck.simulation import faults, network
from envcheck.simulation.build import build
from envcheck.simulation.machine import Machine
from envcheck.simulation.machine_file import OWN, load, names, parse
from envcheck.simulation.topology import relation
from envcheck.vendors import HOST_QUESTIONS, VENDORS
from probes import ixsmi, npu_smi, nvidia_smi
from probes.host import COLLECTORS

PARSERS: dict[str, Callable[[str], Document]] = {
    "npu-smi": npu_smi.parse,
    "ixsmi": ixsmi.parse,
    "nvidia-smi": nvidia_smi.parse,
    "hccn_tool": npu_smi.parse,
}
MACHINES = sorted(names())
WITH_CARDS = [name for name in MACHINES if load(name).devices]
NPUS = [name for name in MACHINES if load(name).vendor == "npu"]
ENVCHECK = [sys.executable, "-m", "envcheck"]


@pytest.fixture
def door(tmp_path: Path) -> Callable[..., tuple[Machine, Door]]:
    """The machine of that name with these faults, built, and the door to it."""

    def made(name: str, *wishes: str) -> tuple[Machine, Door]:
        machine = faults.apply(load(name), [faults.asked(wish) for wish in wishes])
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        build(machine, folder, 1e9)
        return machine, simulated(folder)

    return made


def say(at: Door, *argv: str) -> str:
    return at(Question("run", argv)).text


def document(at: Door, *argv: str) -> Document:
    return PARSERS[argv[0]](say(at, *argv))


def listing(machine: Machine, at: Door) -> Document:
    """What the vendor's steadiest question that is answered tells, or its last one's complaint."""
    questions = VENDORS[machine.vendor].devices
    return document(at, *next((q for q in questions if at(q).ok), questions[-1]).what)


@pytest.mark.parametrize("name", WITH_CARDS)
def test_devices_are_the_described_ones(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """Every way of listing devices that a machine answers parses to exactly those described."""
    machine, at = door(name)
    make = machine.devices
    assert make is not None
    documents = [document(at, *q.what) for q in VENDORS[machine.vendor].devices if at(q).ok]
    expected = [(c.bus_id, make.name, c.temperature_c, c.memory_used_mib, make.memory_mib) for c in machine.chips]

    assert documents
    for told in documents:
        seen = [(d.bus_id, d.name, d.temperature_c, d.memory_used_mib, d.memory_total_mib) for d in told.devices]
        power = [None if d.power_w is None else round(d.power_w) for d in told.devices]

        assert expected == seen
        assert [None if c.power_w is None else round(c.power_w) for c in machine.chips] == power
        assert not told.truncated
        assert told.error is None
        assert machine.driver is not None
        assert machine.driver.version == told.driver_version


@pytest.mark.parametrize("name", NPUS)
def test_ascend_numbers(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """NPU, chip, health and, where the layout has it, Phy-ID are those described."""
    machine, at = door(name)
    make = machine.devices
    assert make is not None
    seen = [(d.npu, d.chip, d.phy_id, d.health) for d in listing(machine, at).devices]

    assert [(c.card, c.die, c.index if make.phy_ids else None, "OK") for c in machine.chips] == seen


@pytest.mark.parametrize("name", WITH_CARDS)
def test_topology_is_the_described_one(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """The matrix that the parser reads holds the relation of every pair."""
    machine, at = door(name)
    question = next(q for q in VENDORS[machine.vendor].details if "topo" in q.what)
    read = document(at, *question.what).topology
    assert read is not None
    cells = [[read.matrix[row][column] for column in read.names] for row in read.names]

    assert [[relation(machine, a, b) for b in machine.chips] for a in machine.chips] == cells
    assert machine.links is not None
    assert list(machine.links.cpu_affinity) == [a for a in read.cpu_affinity.values() if a]


@pytest.mark.parametrize("name", MACHINES)
def test_every_question_has_an_answer(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """No question of envcheck's own fails on a machine without fault, except the other generation's spelling."""
    machine, at = door(name)
    vendor = VENDORS[machine.vendor]
    presence = vendor.presence if vendor.pci_vendor else ()
    first = ask_all(at, (*vendor.devices, *vendor.details, *presence, *HOST_QUESTIONS))
    answers = first | ask_all(at, follow_ups(vendor, first))
    wrong = {key: a.outcome for key, a in answers.items() if a.outcome in (Outcome.FAILED, Outcome.HUNG)}
    missing = [key for key, a in answers.items() if a.outcome is Outcome.ABSENT and key.startswith(("run", "ask"))]
    missing = [key for key in missing if "nv-fabricmanager" not in key or network.switches(machine)]

    assert [key for key in wrong if ",power.draw," not in key] == []
    assert missing == []


@pytest.mark.parametrize("name", WITH_CARDS)
def test_lspci_and_nodes_agree(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """lspci shows each device at its place and /dev has a node for each; others of that vendor are no accelerators."""
    machine, at = door(name)
    lspci, nodes = (at(question).out.splitlines() for question in VENDORS[machine.vendor].presence)
    make = machine.devices
    assert make is not None
    own = [line for line in lspci if f":{make.pci_id}]" in line]

    assert {c.bus_id.partition(":")[2].lower() for c in machine.chips} == {line.split()[0] for line in own}
    assert len(machine.chips) == len(nodes)


def test_collectors_have_the_real_ones_shape(door: Callable[..., tuple[Machine, Door]]) -> None:
    """What the host tells has the keys that the real collectors have on this machine."""
    _, at = door("cpu")
    for name, collect in COLLECTORS.items():
        told, real = json.loads(at(Question("ask", (name,))).out), collect()

        assert name == "environment" or set(told) <= set(real)
        assert name in ("environment", "disks") or set(told) == set(real)
    assert {"/", ".", "home", "/dev/shm"} <= set(json.loads(_asked(*door("cpu"), "disks")))


def test_power_of_one_chip_a_card(door: Callable[..., tuple[Machine, Door]]) -> None:
    """On a BI-V150 only the second chip of each card shows its power."""
    told = listing(*door("bi-v150x8"))

    assert [n % 2 == 1 for n in range(16)] == [d.power_w is not None for d in told.devices]


@pytest.mark.parametrize("name", WITH_CARDS)
def test_tables_are_straight(name: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """All framed lines of a tool's table are of one width, processes and all."""
    machine, at = door(name, "memory-held", "driver-old=21.12.345.rc1.b0300")
    lines = say(at, *VENDORS[machine.vendor].devices[-1].what).splitlines()

    assert len({len(line) for line in lines if line.startswith(("|", "+"))}) == 1


def test_mig_is_shown_everywhere(door: Callable[..., tuple[Machine, Door]]) -> None:
    """MIG shows in the XML, the table and the list, and a device's memory stays its own."""
    _, at = door("a100x8-mig")

    assert {d.mig_mode for d in document(at, "nvidia-smi", "-q", "-x").devices} == {"Enabled"}
    assert {d.mig_mode for d in document(at, "nvidia-smi").devices} == {"Enabled"}
    assert say(at, "nvidia-smi", "-L").count("MIG 3g.40gb") == 16


# fault → what must be different; each looks at the machine's own tools and files
def _health(word: str) -> Callable[[Machine, Door], bool]:
    return lambda m, at: (
        word in [d.health for d in listing(m, at).devices]
        and word
        in say(at, "npu-smi", "info", "-t", "health", "-i", str(next(c.card for c in m.chips if c.health == word)))
    )


def _error(category: str) -> Callable[[Machine, Door], bool]:
    def seen(m: Machine, at: Door) -> bool:
        error = listing(m, at).error
        return error is not None and error.category == category

    return seen


def _lost(m: Machine, at: Door) -> bool:
    lspci, nodes = (at(question).out for question in VENDORS[m.vendor].presence)
    listed = listing(m, at)
    shown = len(listed.devices) == len(m.chips) - 1 or (listed.error is not None and len(m.chips) == 1)
    return shown and m.chips[-1].bus_id.partition(":")[2].lower() in lspci and len(nodes.split()) == len(m.chips)


def _mismatch(m: Machine, at: Door) -> bool:
    told = document(at, *VENDORS[m.vendor].devices[-1].what)
    if told.error:
        return told.error.category == "driver-library-mismatch"
    return told.tool_version not in (None, told.driver_version)


def _ecc(m: Machine, at: Door) -> bool:
    if m.vendor == "npu":
        return "HBM Double Bit Error Count               : 3" in say(at, "npu-smi", "info", "-t", "ecc", "-i", "0")
    return listing(m, at).devices[0].ecc_uncorrected == 3


def _held(m: Machine, at: Door) -> bool:
    table = document(at, *VENDORS[m.vendor].devices[-1].what) if m.vendor != "npu" else listing(m, at)
    return table.devices[0].memory_used_mib == m.chips[0].memory_used_mib >= 20480 and table.processes[0].pid == 20817


def _degraded(m: Machine, at: Door) -> bool:
    question = next(q for q in VENDORS[m.vendor].details if "topo" in q.what)
    read = document(at, *question.what).topology
    assert read is not None
    last = read.names[-1]
    return {read.matrix[last][other] for other in read.names if other != last} == {"SYS"}


def _cut(m: Machine, at: Door) -> bool:
    read = listing(m, at)
    return read.truncated and len(read.devices) < len(m.chips)


def _asked(m: Machine, at: Door, name: str) -> str:
    return at(Question("ask", (name,))).out


def _told(at: Door, name: str) -> Any:
    return json.loads(at(Question("ask", (name,))).out)


def _pids(at: Door) -> list[int]:
    listed: list[int] = _told(at, "processes")["pids"]
    return listed


def _file(at: Door, path: str) -> str:
    return at(Question("read", (path,))).out


CLAIMS: dict[str, Callable[[Machine, Door], bool]] = {
    "card-lost": _lost,
    "health-warning": _health("Warning"),
    "health-alarm": _health("Alarm"),
    "memory-held": _held,
    "hot": lambda m, at: listing(m, at).devices[0].temperature_c == 96,
    "ecc": _ecc,
    "link-down": lambda m, at: "DOWN" in say(at, "hccn_tool", "-i", "0", "-link", "-g"),
    "topology-degraded": _degraded,
    "driver-old": lambda m, at: listing(m, at).driver_version == m.driver.version if m.driver else False,
    "library-mismatch": _mismatch,
    "dcmi-8005": lambda m, at: _error("dcmi-init-failed")(m, at) and "-8005" in say(at, "npu-smi", "info"),
    "dcmi-8020": lambda m, at: _error("device-busy")(m, at),
    "truncated": _cut,
    "tool-hang": lambda m, at: at(Question("run", (VENDORS[m.vendor].tool,), 0.3)).outcome is Outcome.HUNG,
    "tool-missing": lambda m, at: at(VENDORS[m.vendor].devices[0]).outcome is Outcome.ABSENT,
    "docker-absent": lambda m, at: at(HOST_QUESTIONS[-1]).outcome is Outcome.ABSENT,
    "shm-small": lambda m, at: json.loads(_asked(m, at, "disks"))["/dev/shm"]["total_bytes"] == 64 << 20,
    "module-gone": lambda m, at: _told(at, "kernel")["loaded"] == [] and not at(VENDORS[m.vendor].presence[1]).out,
    "ghost": lambda m, at: "40961" in say(at, *VENDORS[m.vendor].devices[-1].what) and 40961 not in _pids(at),
    "node-closed": lambda m, at: not any(one["usable"] for one in _told(at, "paths")["paths"].values()),
    "kernel-next": lambda m, at: [] in [one["modules"] for one in _told(at, "kernel")["kernels"].values()],
    "library-lost": lambda m, at: not all(one["loads"] for one in _told(at, "libraries").values()),
    "node-held": lambda m, at: len(_told(at, "processes")["holding"]) == 1,
    "card-shared": lambda m, at: _told(at, "containers")["containers"] != [],
    "container-shm": lambda m, at: any(c["shm_bytes"] == 64 << 20 for c in _told(at, "containers")["containers"]),
    "engine-config": lambda m, at: not _file(at, "/etc/docker/daemon.json").endswith("}"),
    "user-unnamed": lambda m, at: _told(at, "caller")["user"] is None,
    "runc-open": lambda m, at: _told(at, "paths")["paths"]["/usr/bin/runc"]["mode"] == 0o777,
    "dcmi-writable": lambda m, at: _told(at, "paths")["paths"]["/usr/local/dcmi/libdcmi.so"]["mode"] == 0o666,
    "mount-folder": lambda m, at: _told(at, "paths")["paths"]["/etc/ascend_install.info"]["kind"] == "folder",
    "path-dead": lambda m, at: not all(_told(at, "paths")["named"]["LD_LIBRARY_PATH"].values()),
    "opp-other": lambda m, at: "6.0.0" in _file(at, "/usr/local/Ascend/ascend-toolkit/latest/opp/version.info"),
    "kernels-missing": lambda m, at: not at(next(q for q in VENDORS["npu"].details if "tbe/kernel/" in q.what[0])).out,
    "nnal-other": lambda m, at: "7.0.0" in _file(at, "/usr/local/Ascend/nnal/atb/latest/version.info"),
    "cpu-manager": lambda m, at: "static" in _file(at, "/var/lib/kubelet/cpu_manager_state"),
    "library-twice": lambda m, at: _told(at, "loader")["copies"] != {},
    "standard-old": lambda m, at: _told(at, "loader")["standard"]["gives"] == "3.4.19",
    "ports-open": lambda m, at: "60000" not in _file(at, "/proc/sys/net/ipv4/ip_local_reserved_ports"),
    "tls-uneven": lambda m, at: "switch[1]" in say(at, "hccn_tool", "-i", "0", "-tls", "-g"),
    "rdma-down": lambda m, at: "DOWN" in _asked(m, at, "rdma"),
    "rdma-hidden": lambda m, at: _told(at, "rdma")["verbs"] == [],
    "fabric-down": lambda m, at: (
        "failed" in say(at, "systemctl", "show", "nvidia-fabricmanager", "-p", "LoadState,ActiveState")
    ),
    "iommu-on": lambda m, at: all(card["iommu"] == "DMA" for card in _told(at, "bus")["cards"].values()),
    "corex-other": lambda m, at: "corex-3.1.0" in at(Question("list", ("/usr/local/corex*",))).out,
}


@pytest.mark.parametrize(
    ("name", "fault"), [(name, fault) for name in MACHINES for fault in faults.applicable(load(name))]
)
def test_fault_changes_what_it_claims(name: str, fault: str, door: Callable[..., tuple[Machine, Door]]) -> None:
    """Each fault is seen by the tools and files of the machine, and is not seen without it."""
    assert CLAIMS[fault](*door(name, fault))
    if fault != "driver-old":  # without it the driver is also what the description says
        assert not CLAIMS[fault](*door(name))


def test_every_fault_is_claimed() -> None:
    """The table of this file and that of the faults hold the same names."""
    assert set(faults.FAULTS) == set(CLAIMS)


def test_values_and_combinations(door: Callable[..., tuple[Machine, Door]]) -> None:
    """Faults take values, add up, and do not depend on the order of asking."""
    wishes = ("hot=101", "card-lost=0", "card-lost=2", "memory-held=1000", "driver-old=21.0.2")
    machine, at = door("atlas-800t-a2", *wishes)
    told = listing(machine, at)

    assert [d.npu for d in told.devices] == [1, 3, 4, 5, 6, 7]
    assert (told.devices[0].temperature_c, told.devices[0].memory_used_mib) == (101, 4314)
    assert told.driver_version == "21.0.2"
    assert machine == door("atlas-800t-a2", *reversed(wishes))[0]


@pytest.mark.parametrize(
    ("name", "wish", "words"),
    [
        ("h200x8", "dcmi-8005", "makes no sense"),
        ("cpu", "card-lost", "makes no sense"),
        ("dev-4090x1", "topology-degraded", "makes no sense"),
        ("h200x8", "card-lost=8", "no device 8"),
        ("h200x8", "memory-held=999999999", "MiB free"),
        ("h200x8", "tool-hang=0", "3600"),
        ("h200x8", "driver-old=../../etc", "takes a version"),
        ("h200x8", "truncated=3", "takes no value"),
        ("h200x8", "frobnicated", "no fault"),
    ],
)
def test_nonsense_is_refused(name: str, wish: str, words: str) -> None:
    """A fault that cannot be there, or a value that it does not take, is one sentence with what could be asked."""
    with pytest.raises(UsageError) as refused:
        faults.apply(load(name), [faults.asked(wish)])

    assert words in refused.value.message
    assert refused.value.next_step


@pytest.mark.parametrize("name", WITH_CARDS)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_faults_together(name: str, data: st.DataObject, door: Callable[..., tuple[Machine, Door]]) -> None:
    """Whatever faults come together, the machine is built, and no parser sees a device that is not described."""
    wishes = data.draw(
        st.lists(st.sampled_from([f for f in faults.applicable(load(name)) if f != "tool-hang"]), unique=True)
    )
    try:
        machine, at = door(name, *wishes)
    except UsageError:
        assert "card-lost" in wishes and len(load(name).chips) == 1  # nothing is left to break
        return
    for question in VENDORS[machine.vendor].devices:
        seen = {d.bus_id for d in PARSERS[question.what[0]](at(question).text).devices if d.bus_id}

        assert seen <= {chip.bus_id for chip in machine.listed}


GOOD = (OWN / "atlas-800t-a2.toml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('vendor = "npu"', 'vendor = "abacus"', "vendor must be one of"),
        ('title = "', 'title = "\\n', "one printable line"),
        ("memory_mib = 65536", 'memory_mib = "a lot"', "memory_mib: a whole number"),
        ("memory_mib = 65536", "memory_mib = -1", "out of range"),
        ("memory_mib = 65536", "memory_mib = true", "a whole number"),
        ("memory_mib = 65536", f"memory_mib = {'9' * 5000}", "not TOML"),
        ("power_w = 92.0", "power_w = nan", "out of range"),
        ("power_w = 92.0", f"power_w = 1{'0' * 400}", "out of range"),
        ("idle_mib = 3314", "idle_mib = 70000", "idle_mib is more"),
        ('"0000:C1:00.0"', '"0000:C2:00.0"', "only once"),
        ('"0000:C1:00.0"', '"$(reboot)"', "look like"),
        ('toolkit = "8.0.RC1"', 'toolkit = "../../../etc"', "must be versions"),
        ('hostname = "atlas-a2-0"', 'hostname = "a b"', "hostname"),
        ('inside = "HCCS"', 'inside = "HCCS"\nlost = [1]', "no key 'lost'"),
        ('inside = "HCCS"', 'inside = "HCCS"\ngroups = [[0, 1]]', "every device once"),
        ('cpu_affinity = ["144-167", ', "cpu_affinity = [", "one entry for each"),
        ("[driver]", "[drivel]", "no key 'drivel'"),
        ('[docker]\nversion = "26.1.3"', "[docker]", "version is missing"),
        ("[host]", "[host", "not TOML"),
        ("cpus = 192", "cpus = 0", "cpus"),
        ("[environment]", "[environment]\n'A;rm' = ''", "environment"),
    ],
)
def test_malformed_machine_is_one_sentence(old: str, new: str, words: str) -> None:
    """Whatever is wrong in a description is named with file and key; nothing is written."""
    assert old in GOOD
    with pytest.raises(UsageError) as refused:
        parse(GOOD.replace(old, new, 1), "mine", "mine.toml")

    assert words in refused.value.message
    assert refused.value.message.startswith("mine.toml")
    assert len(refused.value.message.splitlines()) == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(GOOD)), st.text(max_size=20))
def test_hostile_machine_never_crashes(place: int, junk: str) -> None:
    """Any text in any place gives a machine or a sentence."""
    try:
        parse(GOOD[:place] + junk + GOOD[place:], "mine", "mine.toml")
    except UsageError as refused:
        assert refused.message


def test_own_machine_wins(tmp_path: Path) -> None:
    """A user's machine of the same name is used, and other names of ours stay."""
    (tmp_path / "cpu.toml").write_text((OWN / "cpu.toml").read_text().replace("cpu-0", "mine"))

    assert load("cpu", tmp_path).host.hostname == "mine"
    assert load("h200x8", tmp_path) == load("h200x8")


def test_huge_and_foreign_files(tmp_path: Path) -> None:
    """A file too large, not UTF-8, or a folder or pipe in its place is a sentence."""
    (tmp_path / "huge.toml").write_text("#" * 100_000)
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe9"')
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")

    for name in ("huge", "latin", "folder", "pipe", "../machines/cpu"):
        with pytest.raises(UsageError):
            load(name, tmp_path)


def test_unknown_queries(door: Callable[..., tuple[Machine, Door]]) -> None:
    """What a tool does not know it answers as the vendor's does: with an error, and not with an empty success."""
    npu, nvidia, corex = door("atlas-800t-a2")[1], door("h200x8")[1], door("bi-v150x8")[1]

    assert document(npu, "npu-smi", "info", "-t", "product", "-i", "0").kind == "error"
    assert "Error parameter of -i" in say(npu, "npu-smi", "info", "-t", "board", "-i", "8")
    assert "Error parameter of -t" in say(npu, "npu-smi", "info", "-t", "weather", "-i", "0")
    for at, tool in ((nvidia, "nvidia-smi"), (corex, "ixsmi")):
        answer = at(Question("run", (tool, "--query-gpu=index,../../../etc/passwd", "--format=csv")))
        assert (answer.status, answer.out.startswith("Field")) == (2, True)
        assert at(Question("run", (tool, "--dance"))).outcome is Outcome.FAILED


def test_query_formats(door: Callable[..., tuple[Machine, Door]]) -> None:
    """--query-gpu honours the fields asked for, their order, noheader and nounits."""
    _, at = door("dev-4090x1")
    asked = "--query-gpu=memory.total,index,gpu_name"

    assert (
        say(at, "nvidia-smi", asked, "--format=csv")
        == "memory.total [MiB], index, name\n24564 MiB, 0, NVIDIA GeForce RTX 4090\n"
    )
    assert say(at, "nvidia-smi", asked, "--format=csv,noheader,nounits") == "24564, 0, NVIDIA GeForce RTX 4090\n"


def test_start_is_quick(tmp_path: Path) -> None:
    """A simulated tool starts without an interpreter of its own: the best of ten runs takes at most 50 ms."""
    build(load("atlas-200t-a2-box16"), tmp_path, 1e9)
    tool = str(tmp_path / "bin" / "npu-smi")

    assert min(runner.run([tool, "info"], timeout_s=10).elapsed_s for _ in range(10)) < 0.05


def test_hanging_tool_leaves_nobody(tmp_path: Path) -> None:
    """A tool that hangs is ended at its deadline, with all its children."""
    build(faults.apply(load("h200x8"), [faults.asked("tool-hang=599")]), tmp_path, 1e9)

    assert runner.run([str(tmp_path / "bin/nvidia-smi")], timeout_s=0.3).hung
    assert not [p for p in psutil.Process().children(recursive=True) if "599" in " ".join(p.cmdline())]


def test_scripts_pass_shellcheck(tmp_path: Path) -> None:
    """shellcheck has nothing to say about the executables."""
    checker = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not checker:
        pytest.skip("shellcheck is not installed")
    for name in ("atlas-800t-a3", "bi-v150x8"):
        folder = tmp_path / name
        folder.mkdir()
        build(load(name), folder, 1e9)
        done = subprocess.run([checker, *map(str, (folder / "bin").iterdir())], capture_output=True, text=True)

        assert done.returncode == 0, done.stdout


def simulate(*argv: str, tmp: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TMPDIR": str(tmp), "ENVCHECK_HOME": str(tmp / "home")}
    return subprocess.run([*ENVCHECK, "simulate", *argv], capture_output=True, text=True, timeout=60, env=env)


def leftovers(tmp: Path) -> list[str]:
    return [path.name for path in tmp.iterdir() if path.name.startswith("envcheck-simulated")]


def test_command_runs_there(tmp_path: Path) -> None:
    """The command sees the simulated tools first on its PATH; its exit code is ours; the folder is gone afterwards."""
    done = simulate("bi-v150x8", "--", "sh", "-c", "ixsmi -L; exit 7", tmp=tmp_path)

    assert done.returncode == 7
    assert done.stdout.count("Iluvatar BI-V150") == 16
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("cpu", "--", "no-such-command-here"), 127, "not found"),
        (("cpu", "--", "sh", "-c", "kill -KILL $$"), 137, ""),
        (("cpu",), 2, "no command"),
        ((), 2, "which machine"),
        (("vax", "--", "true"), 2, "choose one of"),
        (("cpu", "--fault", "ecc", "--", "true"), 2, "docker-absent, shm-small"),
        (("cpu", "--machines", "/nowhere", "--", "true"), 2, "not a folder"),
        (("cpu", "--keep", "/dev/null", "--", "true"), 2, "give --keep a new folder"),
        (("cpu", "--keep", "/proc/nowhere", "--", "true"), 2, "cannot be written"),
    ],
)
def test_ends_as_a_shell_would(argv: tuple[str, ...], code: int, words: str, tmp_path: Path) -> None:
    """Each way of ending has its exit code and, where envcheck itself stopped, a sentence."""
    done = simulate(*argv, tmp=tmp_path)

    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_are_passed_on(sign: signal.Signals, code: int, tmp_path: Path) -> None:
    """Ctrl-C and a polite kill reach the command, and the folder is gone when it has ended."""
    command = [*ENVCHECK, "simulate", "h200x8", "--", "sh", "-c", "echo ready; exec sleep 50"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        began = time.monotonic()
        child.send_signal(sign)

        assert child.wait(20) == code
    assert time.monotonic() - began < 15
    assert leftovers(tmp_path) == []


def test_kept_folder_can_be_used_by_hand(tmp_path: Path) -> None:
    """--keep leaves the folder, which may be moved, and says how to use it."""
    done = simulate("atlas-800t-a2", "--keep", str(tmp_path / "kept"), tmp=tmp_path)
    moved = tmp_path / "moved"
    (tmp_path / "kept").rename(moved)

    assert "ENVCHECK_SYSROOT" in done.stdout
    assert len(document(simulated(moved), "npu-smi", "info").devices) == 8
    assert (moved / "root/dev/davinci7").exists()
    assert simulate("cpu", "--keep", str(moved), tmp=tmp_path).returncode == 2


def test_list(tmp_path: Path) -> None:
    """--list names all machines and faults, for people and for programs."""
    told = json.loads(simulate("--list", "--json", tmp=tmp_path).stdout)
    text = simulate("--list", tmp=tmp_path).stdout

    assert [machine["name"] for machine in told["machines"]] == MACHINES
    assert list(faults.FAULTS) == [fault["name"] for fault in told["faults"]]
    assert all(word in text for word in (*MACHINES, *faults.FAULTS))
