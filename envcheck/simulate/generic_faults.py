"""Faults that machines of any vendor can have; those without a scope, of the vendors that share them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.simulate.fault import (
    DEVICE_INDEX,
    NUMBER,
    VERSION,
    Fault,
    Scope,
    find_chip,
    has_several_chips,
    replace_chip,
    replace_tool,
    set_amiss,
)
from envcheck.core.simulate.machine import Holder, Machine
from envcheck.simulate import host_answers, network
from envcheck.simulate.vendor_simulations import load_simulations

LONGEST_HANG_S = 3600


def _card_lost(machine: Machine, index: int | str | None) -> Machine:
    return replace_chip(machine, replace(find_chip(machine, index, -1), listed=False))


def _memory_held(machine: Machine, mib: int | str | None) -> Machine:
    assert machine.devices is not None
    chip = find_chip(machine, None, 0)
    free = machine.devices.memory_mib - chip.memory_used_mib
    held = min(free, 20480) if mib is None else int(mib)
    if not 0 < held <= free:
        raise UsageError(
            f"device {chip.index} of {machine.name} has {free} MiB free", f"write --fault memory-held={free}"
        )
    holder = Holder(20817 + len(chip.holders), "python3", held)
    return replace_chip(
        machine, replace(chip, memory_used_mib=chip.memory_used_mib + held, holders=(*chip.holders, holder))
    )


def _hot(machine: Machine, degrees: int | str | None) -> Machine:
    return replace_chip(
        machine, replace(find_chip(machine, None, 0), temperature_c=96 if degrees is None else int(degrees))
    )


def _ecc(machine: Machine, count: int | str | None) -> Machine:
    return replace_chip(
        machine, replace(find_chip(machine, None, 0), ecc_uncorrected=3 if count is None else int(count))
    )


def _topology_degraded(machine: Machine, index: int | str | None) -> Machine:
    assert machine.links is not None
    chip = find_chip(machine, index, -1)
    return replace(machine, links=replace(machine.links, lost=(*machine.links.lost, chip.index)))


def _driver_old(machine: Machine, wanted: int | str | None) -> Machine:
    """The toolkit stays: that is how a machine gets into this state."""
    assert machine.driver is not None
    simulation = load_simulations()[machine.vendor]
    old = str(wanted or simulation.old_driver)
    cuda = simulation.cuda_of_driver.get(int(re.split(r"\D", old)[0]), machine.driver.cuda)
    return replace(machine, driver=replace(machine.driver, version=old, library="", cuda=cuda))


def _library_mismatch(machine: Machine, wanted: int | str | None) -> Machine:
    """The files were upgraded while the old kernel module stayed loaded."""
    assert machine.driver is not None
    library = str(wanted or _next(machine.driver.version))
    mismatch = load_simulations()[machine.vendor].mismatch
    failure = mismatch(library) if mismatch else None
    tool = replace(machine.tool, failure=failure or machine.tool.failure)
    return replace(machine, driver=replace(machine.driver, library=library), tool=tool)


def _next(number: str) -> str:
    """24.1.rc1 → 24.2.rc1"""
    return re.sub(r"^(\d+\.)(\d+)", lambda found: found[1] + str(int(found[2]) + 1), number)


def _hang(machine: Machine, seconds: int | str | None) -> Machine:
    hang_s = 600 if seconds is None else int(seconds)
    if not 0 < hang_s <= LONGEST_HANG_S:
        raise UsageError(f"--fault tool-hang: {hang_s} s is not 1 to {LONGEST_HANG_S}", "write --fault tool-hang=600")
    return replace_tool(machine, replace(machine.tool, hang_s=hang_s))


def _shm_small(machine: Machine, mib: int | str | None) -> Machine:
    return replace(machine, host=replace(machine.host, shm_mib=64 if mib is None else int(mib)))


def _paddle(machine: Machine) -> bool:
    return any("paddle" in name for name in machine.packages)


def _engine(machine: Machine) -> bool:
    return machine.docker is not None


def _rdma(machine: Machine) -> bool:
    return len(network.hcas(machine)) > 2


def _has_ecc(machine: Machine) -> bool:
    return machine.devices is not None and machine.devices.ecc


def _module_gone(machine: Machine, _: int | str | None) -> Machine:
    failure = load_simulations()[machine.vendor].no_module
    return replace_tool(set_amiss("module-gone")(machine, None), replace(machine.tool, failure=failure))


def _ghost(machine: Machine, _: int | str | None) -> Machine:
    chip = find_chip(machine, None, 0)
    held = Holder(host_answers.GHOST_PID, "python3", 2048)
    return replace_chip(
        machine, replace(chip, memory_used_mib=chip.memory_used_mib + 2048, holders=(*chip.holders, held))
    )


_ANY, _CARDS = Scope.ANY_MACHINE, Scope.WITH_CARDS
GENERIC_FAULTS: Mapping[str, Fault] = {
    "card-lost": Fault("lspci and /dev have it, the tool lost it", _card_lost, NUMBER, DEVICE_INDEX, scope=_CARDS),
    "memory-held": Fault("a process holds memory of the first device", _memory_held, NUMBER, "MiB", scope=_CARDS),
    "hot": Fault("the first device is too warm", _hot, NUMBER, "degrees", scope=_CARDS),
    "ecc": Fault("uncorrected memory errors on the first device", _ecc, NUMBER, "a count", only=_has_ecc),
    "topology-degraded": Fault(
        "one device lost its direct links", _topology_degraded, NUMBER, DEVICE_INDEX, has_several_chips, _CARDS
    ),
    "driver-old": Fault("a driver older than any recipe wants", _driver_old, VERSION, "a version", scope=_CARDS),
    "library-mismatch": Fault(
        "libraries newer than the loaded driver", _library_mismatch, VERSION, "a version", scope=_CARDS
    ),
    "truncated": Fault(
        "the tool's list stops in the middle of a row",
        lambda m, _: replace_tool(m, replace(m.tool, truncated=True)),
        scope=_CARDS,
    ),
    "tool-hang": Fault("the vendor's tool does not answer", _hang, NUMBER, "seconds", scope=_CARDS),
    "tool-missing": Fault(
        "the vendor's tool is not there", lambda m, _: replace_tool(m, replace(m.tool, missing=True)), scope=_CARDS
    ),
    "docker-absent": Fault("there is no container engine", lambda m, _: replace(m, docker=None), scope=_ANY),
    "shm-small": Fault("/dev/shm is small", _shm_small, NUMBER, "MiB", scope=_ANY),
    "node-closed": Fault("a plain user who may not open the device nodes", set_amiss("node-closed"), scope=_CARDS),
    "kernel-next": Fault("the newest kernel has no module for the cards", set_amiss("kernel-next"), scope=_CARDS),
    "library-lost": Fault("the driver's library cannot be loaded", set_amiss("library-lost"), scope=_CARDS),
    "node-held": Fault(
        "a container's process that the tool does not list has the first device open",
        set_amiss("node-held"),
        scope=_CARDS,
    ),
    "card-shared": Fault(
        "a running container was given the first device", set_amiss("card-shared"), only=_engine, scope=_CARDS
    ),
    "container-shm": Fault(
        "as card-shared, with 64 MiB to share", set_amiss("container-shm"), only=_engine, scope=_CARDS
    ),
    "engine-config": Fault("the engine's daemon.json is no JSON", set_amiss("engine-config"), only=_engine, scope=_ANY),
    "user-unnamed": Fault("the user's id has no entry in passwd", set_amiss("user-unnamed"), scope=_ANY),
    "runc-open": Fault("runc may be written by everybody", set_amiss("runc-open"), only=_engine),
    "path-dead": Fault("LD_LIBRARY_PATH names a toolkit that is gone", set_amiss("path-dead")),
    "cpu-manager": Fault("kubelet pins processors, and rewrites cgroups", set_amiss("cpu-manager")),
    "library-twice": Fault("LD_LIBRARY_PATH has a library of the toolkit twice", set_amiss("library-twice")),
    "standard-old": Fault(
        "the C++ library is older than the framework wants", set_amiss("standard-old"), only=_paddle, scope=_CARDS
    ),
    "rdma-down": Fault("the last RDMA port is down", set_amiss("rdma-down"), only=_rdma),
    "rdma-hidden": Fault("RDMA devices, and no nodes to open them", set_amiss("rdma-hidden"), only=_rdma),
    "iommu-on": Fault(
        "the IOMMU translates what cards send each other over PCIe", set_amiss("iommu-on"), only=has_several_chips
    ),
    "module-gone": Fault("the kernel was updated, and has no module for the cards", _module_gone, scope=_CARDS),
    "ghost": Fault("memory is held by a process that does not exist", _ghost, scope=_CARDS),
}
