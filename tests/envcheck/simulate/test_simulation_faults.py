"""Faults of a simulated machine: each changes what it claims, and nonsense is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.collect.machine import Machine as Door
from envcheck.collect.questions import HOST_QUESTIONS
from envcheck.core.errors import UsageError
from envcheck.core.model import Outcome, Question
from envcheck.core.simulate.machine import Machine
from envcheck.simulate import faults
from envcheck.simulate.machine_file import load, names
from envcheck.vendors import VENDORS
from tests.envcheck.simulate.simulation_parts import PARSERS, document, listing, opened, say, told_by

pytestmark = pytest.mark.slow

MACHINES = sorted(names())
WITH_CARDS = [name for name in MACHINES if load(name).devices]


@pytest.fixture
def door(tmp_path: Path) -> Callable[..., tuple[Machine, Door]]:
    return opened(tmp_path)


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
    "shm-small": lambda m, at: json.loads(told_by(m, at, "disks"))["/dev/shm"]["total_bytes"] == 64 << 20,
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
    "rdma-down": lambda m, at: "DOWN" in told_by(m, at, "rdma"),
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
    assert set(faults.load_faults()) == set(CLAIMS)


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
