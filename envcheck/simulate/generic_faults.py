"""Faults for machines of any vendor; those without a scope only for vendors that list them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.simulate.fault import (
    DEVICE_INDEX,
    NUMBER,
    VERSION,
    Fault,
    FaultScope,
    find_chip,
    has_several_chips,
    replace_chip,
    replace_tool,
    set_amiss,
)
from envcheck.core.simulate.machine import SimulatedProcess, SimulatedSystem
from envcheck.simulate import host_answers, network_answers
from envcheck.simulate.driver_upgrade import change_driver
from envcheck.simulate.vendor_simulations import load_simulations

LONGEST_HANG_S = 3600


def _lose_card(machine: SimulatedSystem, index: int | str | None) -> SimulatedSystem:
    return replace_chip(machine, replace(find_chip(machine, index, -1), listed=False))


def _hold_memory(machine: SimulatedSystem, mib: int | str | None) -> SimulatedSystem:
    assert machine.devices is not None
    chip = find_chip(machine, None, 0)
    free = machine.devices.memory_mib - chip.memory_used_mib
    held = min(free, 20480) if mib is None else int(mib)
    if not 0 < held <= free:
        raise UsageError(
            _("device {index} of {name} has {free} MiB free", index=chip.index, name=machine.name, free=free),
            _("use --fault memory-held={free}", free=free),
        )
    holder = SimulatedProcess(20817 + len(chip.holders), "python3", held)
    return replace_chip(
        machine, replace(chip, memory_used_mib=chip.memory_used_mib + held, holders=(*chip.holders, holder))
    )


def _overheat_card(machine: SimulatedSystem, degrees: int | str | None) -> SimulatedSystem:
    return replace_chip(
        machine, replace(find_chip(machine, None, 0), temperature_c=96 if degrees is None else int(degrees))
    )


def _add_ecc_errors(machine: SimulatedSystem, count: int | str | None) -> SimulatedSystem:
    return replace_chip(
        machine, replace(find_chip(machine, None, 0), ecc_uncorrected=3 if count is None else int(count))
    )


def _degrade_topology(machine: SimulatedSystem, index: int | str | None) -> SimulatedSystem:
    assert machine.links is not None
    chip = find_chip(machine, index, -1)
    return replace(machine, links=replace(machine.links, lost=(*machine.links.lost, chip.index)))


def _downgrade_driver(machine: SimulatedSystem, wanted: int | str | None) -> SimulatedSystem:
    """Lower the driver's version but not the toolkit's, as on real machines in this state."""
    return change_driver(machine, str(wanted or load_simulations()[machine.vendor].old_driver))


def _mismatch_library(machine: SimulatedSystem, wanted: int | str | None) -> SimulatedSystem:
    """Raise the version of the driver's files while the old kernel module stays loaded."""
    assert machine.driver is not None
    library = str(wanted or _increase_version(machine.driver.version))
    mismatch = load_simulations()[machine.vendor].mismatch
    failure = mismatch(library) if mismatch else None
    tool = replace(machine.tool, failure=failure or machine.tool.failure)
    return replace(machine, driver=replace(machine.driver, library=library), tool=tool)


def _increase_version(number: str) -> str:
    """Return the next version: 24.1.rc1 → 24.2.rc1."""
    return re.sub(r"^(\d+\.)(\d+)", lambda found: found[1] + str(int(found[2]) + 1), number)


def _hang_tool(machine: SimulatedSystem, seconds: int | str | None) -> SimulatedSystem:
    hang_s = 600 if seconds is None else int(seconds)
    if not 0 < hang_s <= LONGEST_HANG_S:
        raise UsageError(
            _(
                "--fault tool-hang: expected 1 to {longest_hang_s} s, got {hang_s} s",
                hang_s=hang_s,
                longest_hang_s=LONGEST_HANG_S,
            ),
            _("use --fault tool-hang=600"),
        )
    return replace_tool(machine, replace(machine.tool, hang_s=hang_s))


def _shrink_shm(machine: SimulatedSystem, mib: int | str | None) -> SimulatedSystem:
    return replace(machine, host=replace(machine.host, shm_mib=64 if mib is None else int(mib)))


def _has_paddle(machine: SimulatedSystem) -> bool:
    return any("paddle" in name for name in machine.packages)


def _has_engine(machine: SimulatedSystem) -> bool:
    return machine.docker is not None


def _has_rdma(machine: SimulatedSystem) -> bool:
    return len(network_answers.list_hcas(machine)) > 2


def _has_ecc(machine: SimulatedSystem) -> bool:
    return machine.devices is not None and machine.devices.ecc


def _unload_module(machine: SimulatedSystem, _unused: int | str | None) -> SimulatedSystem:
    failure = load_simulations()[machine.vendor].no_module
    return replace_tool(set_amiss("module-gone")(machine, None), replace(machine.tool, failure=failure))


def _hold_by_ghost(machine: SimulatedSystem, _unused: int | str | None) -> SimulatedSystem:
    chip = find_chip(machine, None, 0)
    held = SimulatedProcess(host_answers.GHOST_PID, "python3", 2048)
    return replace_chip(
        machine, replace(chip, memory_used_mib=chip.memory_used_mib + 2048, holders=(*chip.holders, held))
    )


_ANY, _CARDS = FaultScope.ANY_MACHINE, FaultScope.WITH_CARDS
GENERIC_FAULTS: Mapping[str, Fault] = {
    "card-lost": Fault(
        _("device is in lspci and /dev, but missing from the vendor tool"),
        _lose_card,
        NUMBER,
        DEVICE_INDEX,
        scope=_CARDS,
    ),
    "memory-held": Fault(_("a process uses memory on the first device"), _hold_memory, NUMBER, "MiB", scope=_CARDS),
    "hot": Fault(_("the first device is too hot"), _overheat_card, NUMBER, _("degrees"), scope=_CARDS),
    "ecc": Fault(
        _("uncorrected memory errors on the first device"), _add_ecc_errors, NUMBER, _("a count"), only=_has_ecc
    ),
    "topology-degraded": Fault(
        _("one device has no direct links"), _degrade_topology, NUMBER, DEVICE_INDEX, has_several_chips, _CARDS
    ),
    "driver-old": Fault(
        _("driver older than every recipe requires"), _downgrade_driver, VERSION, _("a version"), scope=_CARDS
    ),
    "library-mismatch": Fault(
        _("driver libraries newer than the loaded driver"), _mismatch_library, VERSION, _("a version"), scope=_CARDS
    ),
    "truncated": Fault(
        _("vendor tool output stops in the middle of a row"),
        lambda m, _unused: replace_tool(m, replace(m.tool, truncated=True)),
        scope=_CARDS,
    ),
    "tool-hang": Fault(_("vendor tool does not respond"), _hang_tool, NUMBER, _("seconds"), scope=_CARDS),
    "tool-missing": Fault(
        _("vendor tool is missing"),
        lambda m, _unused: replace_tool(m, replace(m.tool, missing=True)),
        scope=_CARDS,
    ),
    "docker-absent": Fault(_("no container engine installed"), lambda m, _unused: replace(m, docker=None), scope=_ANY),
    "shm-small": Fault(_("/dev/shm is small"), _shrink_shm, NUMBER, "MiB", scope=_ANY),
    "node-closed": Fault(_("user without permission to open the device nodes"), set_amiss("node-closed"), scope=_CARDS),
    "kernel-next": Fault(_("newest installed kernel has no driver module"), set_amiss("kernel-next"), scope=_CARDS),
    "library-lost": Fault(_("driver library cannot be loaded"), set_amiss("library-lost"), scope=_CARDS),
    "node-held": Fault(
        _("a container process not listed by the vendor tool has the first device open"),
        set_amiss("node-held"),
        scope=_CARDS,
    ),
    "card-shared": Fault(
        _("a running container has the first device"), set_amiss("card-shared"), only=_has_engine, scope=_CARDS
    ),
    "container-shm": Fault(
        _("like card-shared, with 64 MiB of shared memory"), set_amiss("container-shm"), only=_has_engine, scope=_CARDS
    ),
    "engine-config": Fault(
        _("daemon.json of the engine is not valid JSON"), set_amiss("engine-config"), only=_has_engine, scope=_ANY
    ),
    "user-unnamed": Fault(_("user id has no passwd entry"), set_amiss("user-unnamed"), scope=_ANY),
    "runc-open": Fault(_("runc is world-writable"), set_amiss("runc-open"), only=_has_engine),
    "path-dead": Fault(_("LD_LIBRARY_PATH points to a removed toolkit"), set_amiss("path-dead")),
    "cpu-manager": Fault(_("kubelet pins CPUs and rewrites cgroups"), set_amiss("cpu-manager")),
    "library-twice": Fault(_("LD_LIBRARY_PATH contains a toolkit library twice"), set_amiss("library-twice")),
    "standard-old": Fault(
        _("C++ library older than the framework requires"),
        set_amiss("standard-old"),
        only=_has_paddle,
        scope=_CARDS,
    ),
    "rdma-down": Fault(_("the last RDMA port is down"), set_amiss("rdma-down"), only=_has_rdma),
    "rdma-hidden": Fault(_("RDMA devices without device nodes"), set_amiss("rdma-hidden"), only=_has_rdma),
    "iommu-on": Fault(_("IOMMU translates PCIe traffic between cards"), set_amiss("iommu-on"), only=has_several_chips),
    "module-gone": Fault(_("kernel was updated and has no driver module"), _unload_module, scope=_CARDS),
    "ghost": Fault(_("memory is used by a process that no longer exists"), _hold_by_ghost, scope=_CARDS),
}
