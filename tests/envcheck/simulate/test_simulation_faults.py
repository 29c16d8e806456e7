"""Faults of simulated machines: each changes what it claims, and invalid ones are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.collect.answer_sources import AnswerSource as Door
from envcheck.collect.questions import HOST_QUESTIONS
from envcheck.core.errors import UsageError
from envcheck.core.model import Outcome, Question
from envcheck.core.simulate.machine import SimulatedSystem
from envcheck.simulate import faults
from envcheck.simulate.machine_file import list_machines, load_machine
from envcheck.vendors import VENDORS
from envcheck.vendors.kunlunxin import simulate_xpu_smi
from tests.envcheck.simulate.simulation_parts import (
    PARSERS,
    make_machine_opener,
    parse_listing,
    parse_tool,
    read_collector,
    run_tool,
)

pytestmark = pytest.mark.slow

MACHINES = sorted(list_machines())
WITH_CARDS = [name for name in MACHINES if load_machine(name).devices]


@pytest.fixture
def door(tmp_path: Path) -> Callable[..., tuple[SimulatedSystem, Door]]:
    return make_machine_opener(tmp_path)


# fault → what must differ, read from the machine's tools and files
def _shows_health(word: str) -> Callable[[SimulatedSystem, Door], bool]:
    return lambda m, at: (
        word in [d.health for d in parse_listing(m, at).devices]
        and word
        in run_tool(at, "npu-smi", "info", "-t", "health", "-i", str(next(c.card for c in m.chips if c.health == word)))
    )


def _shows_error(category: str) -> Callable[[SimulatedSystem, Door], bool]:
    def seen(m: SimulatedSystem, at: Door) -> bool:
        error = parse_listing(m, at).error
        return error is not None and error.category == category

    return seen


def _shows_lost_card(m: SimulatedSystem, at: Door) -> bool:
    vendor = VENDORS[m.vendor]
    lspci, nodes = "".join(at(question).out for question in vendor.pci_questions), at(vendor.node_question).out
    listed = parse_listing(m, at)
    shown = len(listed.devices) == len(m.chips) - 1 or (listed.error is not None and len(m.chips) == 1)
    return shown and m.chips[-1].bus_id.partition(":")[2].lower() in lspci and len(nodes.split()) == len(m.chips)


def _shows_mismatch(m: SimulatedSystem, at: Door) -> bool:
    told = parse_tool(at, *VENDORS[m.vendor].devices[-1].what)
    if told.error:
        return told.error.category == "driver-library-mismatch"
    if told.runtime_version:
        return not str(told.driver_version).startswith(told.runtime_version)
    return told.tool_version not in (None, told.driver_version)


def _shows_ecc(m: SimulatedSystem, at: Door) -> bool:
    if m.vendor == "npu":
        return "HBM Double Bit Error Count               : 3" in run_tool(at, "npu-smi", "info", "-t", "ecc", "-i", "0")
    return parse_listing(m, at).devices[0].ecc_uncorrected == 3


def _shows_held_memory(m: SimulatedSystem, at: Door) -> bool:
    table = parse_tool(at, *VENDORS[m.vendor].devices[-1].what) if m.vendor != "npu" else parse_listing(m, at)
    return table.devices[0].memory_used_mib == m.chips[0].memory_used_mib >= 20480 and table.processes[0].pid == 20817


def _shows_degraded_links(m: SimulatedSystem, at: Door) -> bool:
    question = next(q for q in VENDORS[m.vendor].details if "topo" in q.what)
    read = parse_tool(at, *question.what).topology
    assert read is not None
    last = read.names[-1]
    return {read.matrix[last][other] for other in read.names if other != last} == {"SYS"}


def _shows_truncation(m: SimulatedSystem, at: Door) -> bool:
    read = parse_listing(m, at)
    whole = [device for device in read.devices if device.memory_total_mib is not None]
    return read.truncated and len(whole) < len(m.chips)


def _read_collector(at: Door, name: str) -> Any:
    return json.loads(at(Question("ask", (name,))).out)


def _list_pids(at: Door) -> list[int]:
    listed: list[int] = _read_collector(at, "processes")["pids"]
    return listed


def _read_file(at: Door, path: str) -> str:
    return at(Question("read", (path,))).out


CLAIMS: dict[str, Callable[[SimulatedSystem, Door], bool]] = {
    "card-lost": _shows_lost_card,
    "health-warning": _shows_health("Warning"),
    "health-alarm": _shows_health("Alarm"),
    "memory-held": _shows_held_memory,
    "hot": lambda m, at: parse_listing(m, at).devices[0].temperature_c == 96,
    "ecc": _shows_ecc,
    "link-down": lambda m, at: "DOWN" in run_tool(at, "hccn_tool", "-i", "0", "-link", "-g"),
    "topology-degraded": _shows_degraded_links,
    "driver-old": lambda m, at: parse_listing(m, at).driver_version == m.driver.version if m.driver else False,
    "library-mismatch": _shows_mismatch,
    "dcmi-8005": lambda m, at: _shows_error("dcmi-init-failed")(m, at) and "-8005" in run_tool(at, "npu-smi", "info"),
    "dcmi-8020": lambda m, at: _shows_error("device-busy")(m, at),
    "truncated": _shows_truncation,
    "tool-hang": lambda m, at: at(Question("run", (VENDORS[m.vendor].tool,), 0.3)).outcome is Outcome.HUNG,
    "tool-missing": lambda m, at: at(VENDORS[m.vendor].devices[0]).outcome is Outcome.ABSENT,
    "docker-absent": lambda m, at: at(HOST_QUESTIONS[-1]).outcome is Outcome.ABSENT,
    "shm-small": lambda m, at: json.loads(read_collector(m, at, "disks"))["/dev/shm"]["total_bytes"] == 64 << 20,
    "module-gone": lambda m, at: (
        _read_collector(at, "kernel")["loaded"] == [] and not at(VENDORS[m.vendor].presence_questions[1]).out
    ),
    "ghost": lambda m, at: "40961" in run_tool(at, *VENDORS[m.vendor].devices[-1].what) and 40961 not in _list_pids(at),
    "node-closed": lambda m, at: not any(one["usable"] for one in _read_collector(at, "paths")["paths"].values()),
    "kernel-next": lambda m, at: [] in [one["modules"] for one in _read_collector(at, "kernel")["kernels"].values()],
    "library-lost": lambda m, at: not all(one["loads"] for one in _read_collector(at, "libraries").values()),
    "node-held": lambda m, at: len(_read_collector(at, "processes")["holding"]) == 1,
    "card-shared": lambda m, at: _read_collector(at, "containers")["containers"] != [],
    "container-shm": lambda m, at: any(
        c["shm_bytes"] == 64 << 20 for c in _read_collector(at, "containers")["containers"]
    ),
    "engine-config": lambda m, at: not _read_file(at, "/etc/docker/daemon.json").endswith("}"),
    "user-unnamed": lambda m, at: _read_collector(at, "caller")["user"] is None,
    "runc-open": lambda m, at: _read_collector(at, "paths")["paths"]["/usr/bin/runc"]["mode"] == 0o777,
    "dcmi-writable": lambda m, at: _read_collector(at, "paths")["paths"]["/usr/local/dcmi/libdcmi.so"]["mode"] == 0o666,
    "mount-folder": lambda m, at: _read_collector(at, "paths")["paths"]["/etc/ascend_install.info"]["kind"] == "folder",
    "path-dead": lambda m, at: not all(_read_collector(at, "paths")["named"]["LD_LIBRARY_PATH"].values()),
    "opp-other": lambda m, at: "6.0.0" in _read_file(at, "/usr/local/Ascend/ascend-toolkit/latest/opp/version.info"),
    "kernels-missing": lambda m, at: not at(next(q for q in VENDORS["npu"].details if "tbe/kernel/" in q.what[0])).out,
    "nnal-other": lambda m, at: "7.0.0" in _read_file(at, "/usr/local/Ascend/nnal/atb/latest/version.info"),
    "cpu-manager": lambda m, at: "static" in _read_file(at, "/var/lib/kubelet/cpu_manager_state"),
    "library-twice": lambda m, at: _read_collector(at, "loader")["copies"] != {},
    "standard-old": lambda m, at: _read_collector(at, "loader")["standard"]["gives"] == "3.4.19",
    "ports-open": lambda m, at: "60000" not in _read_file(at, "/proc/sys/net/ipv4/ip_local_reserved_ports"),
    "tls-uneven": lambda m, at: "switch[1]" in run_tool(at, "hccn_tool", "-i", "0", "-tls", "-g"),
    "rdma-down": lambda m, at: "DOWN" in read_collector(m, at, "rdma"),
    "rdma-hidden": lambda m, at: _read_collector(at, "rdma")["verbs"] == [],
    "fabric-down": lambda m, at: (
        "failed" in run_tool(at, "systemctl", "show", "nvidia-fabricmanager", "-p", "LoadState,ActiveState")
    ),
    "iommu-on": lambda m, at: all(card["iommu"] == "DMA" for card in _read_collector(at, "bus")["cards"].values()),
    "xre-hidden": lambda m, at: parse_tool(at, "xpu-smi").driver_version == simulate_xpu_smi.INTERFACE_VERSION,
    "sbl-old": lambda m, at: "<sbl>1.39</sbl>" in run_tool(at, "xpu-smi", "-q", "-x"),
    "corex-other": lambda m, at: "corex-3.1.0" in at(Question("list", ("/usr/local/corex*",))).out,
}


@pytest.mark.parametrize(
    ("name", "fault"),
    [(name, fault) for name in MACHINES for fault in faults.list_applicable_faults(load_machine(name))],
)
def test_fault_changes_what_it_claims(name: str, fault: str, door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """Each fault shows in the machine's tools and files, and only with it."""
    assert CLAIMS[fault](*door(name, fault))
    if fault != "driver-old":  # otherwise the driver is as described
        assert not CLAIMS[fault](*door(name))


def test_every_fault_is_claimed() -> None:
    """The table of this file and the table of faults have the same names."""
    assert set(faults.load_faults()) == set(CLAIMS)


def test_values_and_combinations(door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """Faults take values, combine, and do not depend on their order."""
    wishes = ("hot=101", "card-lost=0", "card-lost=2", "memory-held=1000", "driver-old=21.0.2")
    machine, at = door("atlas-800t-a2", *wishes)
    told = parse_listing(machine, at)

    assert [d.npu for d in told.devices] == [1, 3, 4, 5, 6, 7]
    assert (told.devices[0].temperature_c, told.devices[0].memory_used_mib) == (101, 4314)
    assert told.driver_version == "21.0.2"
    assert machine == door("atlas-800t-a2", *reversed(wishes))[0]


@pytest.mark.parametrize(
    ("name", "wish", "words"),
    [
        ("h200x8", "dcmi-8005", "does not apply to"),
        ("cpu", "card-lost", "does not apply to"),
        ("dev-4090x1", "topology-degraded", "does not apply to"),
        ("h200x8", "card-lost=8", "no device 8"),
        ("h200x8", "memory-held=999999999", "MiB free"),
        ("h200x8", "tool-hang=0", "3600"),
        ("h200x8", "driver-old=../../etc", "expects a version, got"),
        ("h200x8", "truncated=3", "takes no value"),
        ("h200x8", "frobnicated", "unknown fault"),
    ],
)
def test_nonsense_is_refused(name: str, wish: str, words: str) -> None:
    """A fault that does not apply, or an invalid value, is one message with the valid ones."""
    with pytest.raises(UsageError) as refused:
        faults.apply_faults(load_machine(name), [faults.parse_fault(wish)])

    assert words in refused.value.message
    assert refused.value.next_step


@pytest.mark.parametrize("name", WITH_CARDS)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_faults_together(name: str, data: st.DataObject, door: Callable[..., tuple[SimulatedSystem, Door]]) -> None:
    """Any combination of faults builds, and no parser reads a device that is not described."""
    wishes = data.draw(
        st.lists(
            st.sampled_from([f for f in faults.list_applicable_faults(load_machine(name)) if f != "tool-hang"]),
            unique=True,
        )
    )
    try:
        machine, at = door(name, *wishes)
    except UsageError:
        assert "card-lost" in wishes and len(load_machine(name).chips) == 1  # no device is left to break
        return
    for question in VENDORS[machine.vendor].devices:
        seen = {d.bus_id for d in PARSERS[question.what[0]](at(question).text).devices if d.bus_id}

        assert seen <= {chip.bus_id for chip in machine.listed_chips}
