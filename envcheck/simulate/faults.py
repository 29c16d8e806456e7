"""What can be wrong with a machine: a name, where it applies, and a pure function on the description."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from envcheck.core.errors import UsageError
from envcheck.core.simulate.machine import Chip, Holder, Machine, Tool
from envcheck.core.simulate.reply import Reply
from envcheck.simulate import host_answers, network, npu_smi, nvidia_smi
from envcheck.simulate.machine_rules import version

ANY = frozenset({"npu", "iluvatar", "nvidia", "cpu"})
CARDS = ANY - {"cpu"}
NPU, ILUVATAR, NVIDIA = frozenset({"npu"}), frozenset({"iluvatar"}), frozenset({"nvidia"})
NUMBER, VERSION, NOTHING = "number", "version", ""
LONGEST_HANG_S = 3600
_EXAMPLE = {NUMBER: " or with =NUMBER", VERSION: " or with =VERSION, as 4.3.0", NOTHING: ""}

# Older than every recipe's minimum, and seen in public outputs of these tools.
_OLD = {"npu": "22.0.4", "iluvatar": "3.1.0", "nvidia": "470.103.01"}
_CUDA = {470: "11.4"}  # what nvidia-smi of that branch shows
# Both codes are of on-chip memory (MindCluster's fault list); which word the table prints for each was not found.
_WARNING, _ALARM = ("Warning", "80E18402"), ("Alarm", "80E01801")


@dataclass(frozen=True)
class Fault:
    """`value` is what may follow the name: a number, a version, or nothing; `apply` gets None where none was given."""

    summary: str
    vendors: frozenset[str]
    apply: Callable[[Machine, int | str | None], Machine]
    value: str = NOTHING
    means: str = ""
    only: Callable[[Machine], bool] = lambda machine: True


@dataclass(frozen=True)
class Asked:
    """One --fault, understood."""

    name: str
    value: int | str | None = None


def applicable(machine: Machine) -> tuple[str, ...]:
    """The names of the faults that make sense on this machine."""
    return tuple(name for name, fault in FAULTS.items() if machine.vendor in fault.vendors and fault.only(machine))


def asked(text: str) -> Asked:
    """NAME or NAME=VALUE; UsageError for what no fault is called or takes."""
    name, has_value, value = text.partition("=")
    if name not in FAULTS:
        raise UsageError(f"there is no fault {name!r:.60}", f"choose from {', '.join(FAULTS)}")
    fault = FAULTS[name]
    if not has_value:
        return Asked(name)
    if fault.value == NUMBER and re.fullmatch(r"[0-9]{1,9}", value):
        return Asked(name, int(value))
    if fault.value == VERSION and version(value):
        return Asked(name, value)
    expected = f"takes {fault.means}" if fault.value else "takes no value"
    raise UsageError(f"--fault {name} {expected}, not {value!r:.60}", f"write --fault {name}{_EXAMPLE[fault.value]}")


def apply(machine: Machine, wishes: Sequence[Asked]) -> Machine:
    """The machine with all faults, in the order of the table whatever the order of asking."""
    possible = applicable(machine)
    for wish in wishes:
        if wish.name not in possible:
            raise UsageError(
                f"{wish.name} makes no sense on {machine.name}", f"faults that apply there: {', '.join(possible)}"
            )
    for wish in sorted(wishes, key=lambda wish: list(FAULTS).index(wish.name)):
        machine = FAULTS[wish.name].apply(machine, wish.value)
    return machine


def _chip(machine: Machine, index: int | str | None, default: int) -> Chip:
    """The chip of that index among those that are left, or the default's place among them."""
    left = machine.listed
    if index is None:
        if not left:
            raise UsageError(f"{machine.name} has no device left for this fault", "drop a card-lost")
        return left[default]
    for chip in left:
        if chip.index == index:
            return chip
    numbers = ", ".join(str(chip.index) for chip in left)
    raise UsageError(f"{machine.name} has no device {index}", f"its devices are {numbers or 'all lost'}")


def _changed(machine: Machine, chip: Chip) -> Machine:
    chips = tuple(chip if chip.index == other.index else other for other in machine.chips)
    return replace(machine, chips=chips)


def _card_lost(machine: Machine, index: int | str | None) -> Machine:
    return _changed(machine, replace(_chip(machine, index, -1), listed=False))


def _health(which: tuple[str, str], default: int) -> Callable[[Machine, int | str | None], Machine]:
    def apply(machine: Machine, index: int | str | None) -> Machine:
        chip = _chip(machine, index, default)
        return _changed(machine, replace(chip, health=which[0], error_code=which[1]))

    return apply


def _memory_held(machine: Machine, mib: int | str | None) -> Machine:
    assert machine.devices is not None
    chip = _chip(machine, None, 0)
    free = machine.devices.memory_mib - chip.memory_used_mib
    held = min(free, 20480) if mib is None else int(mib)
    if not 0 < held <= free:
        raise UsageError(
            f"device {chip.index} of {machine.name} has {free} MiB free", f"write --fault memory-held={free}"
        )
    holder = Holder(20817 + len(chip.holders), "python3", held)
    return _changed(
        machine, replace(chip, memory_used_mib=chip.memory_used_mib + held, holders=(*chip.holders, holder))
    )


def _hot(machine: Machine, degrees: int | str | None) -> Machine:
    return _changed(machine, replace(_chip(machine, None, 0), temperature_c=96 if degrees is None else int(degrees)))


def _ecc(machine: Machine, count: int | str | None) -> Machine:
    return _changed(machine, replace(_chip(machine, None, 0), ecc_uncorrected=3 if count is None else int(count)))


def _link_down(machine: Machine, index: int | str | None) -> Machine:
    return _changed(machine, replace(_chip(machine, index, 0), link_up=False))


def _topology_degraded(machine: Machine, index: int | str | None) -> Machine:
    assert machine.links is not None
    chip = _chip(machine, index, -1)
    return replace(machine, links=replace(machine.links, lost=(*machine.links.lost, chip.index)))


def _driver_old(machine: Machine, wanted: int | str | None) -> Machine:
    """The toolkit stays: that is how a machine gets into this state."""
    assert machine.driver is not None
    old = str(wanted or _OLD[machine.vendor])
    cuda = _CUDA.get(int(re.split(r"\D", old)[0]), machine.driver.cuda)
    return replace(machine, driver=replace(machine.driver, version=old, library="", cuda=cuda))


def _library_mismatch(machine: Machine, wanted: int | str | None) -> Machine:
    """The files were upgraded while the old kernel module stayed loaded."""
    assert machine.driver is not None
    library = str(wanted or _next(machine.driver.version))
    failure = _MISMATCH[machine.vendor](library) if machine.vendor in _MISMATCH else None
    tool = replace(machine.tool, failure=failure or machine.tool.failure)
    return replace(machine, driver=replace(machine.driver, library=library), tool=tool)


_MISMATCH = {"nvidia": nvidia_smi.mismatch}  # the others go on, and show the two versions


def _next(number: str) -> str:
    """24.1.rc1 → 24.2.rc1"""
    return re.sub(r"^(\d+\.)(\d+)", lambda found: found[1] + str(int(found[2]) + 1), number)


def _hang(machine: Machine, seconds: int | str | None) -> Machine:
    hang_s = 600 if seconds is None else int(seconds)
    if not 0 < hang_s <= LONGEST_HANG_S:
        raise UsageError(f"--fault tool-hang: {hang_s} s is not 1 to {LONGEST_HANG_S}", "write --fault tool-hang=600")
    return _tool(machine, replace(machine.tool, hang_s=hang_s))


def _tool(machine: Machine, tool: Tool) -> Machine:
    return replace(machine, tool=tool)


def _shm_small(machine: Machine, mib: int | str | None) -> Machine:
    return replace(machine, host=replace(machine.host, shm_mib=64 if mib is None else int(mib)))


def _always(machine: Machine) -> bool:
    return True


def _paddle(machine: Machine) -> bool:
    return any("paddle" in name for name in machine.packages)


def _engine(machine: Machine) -> bool:
    return machine.docker is not None


def _several(machine: Machine) -> bool:
    return len(machine.chips) > 1


def _rdma(machine: Machine) -> bool:
    return len(network.hcas(machine)) > 2


def _has_ecc(machine: Machine) -> bool:
    return machine.devices is not None and machine.devices.ecc


def _amiss(name: str) -> Callable[[Machine, int | str | None], Machine]:
    return lambda machine, _: replace(machine, amiss=machine.amiss | {name})


def _module_gone(machine: Machine, _: int | str | None) -> Machine:
    return _tool(_amiss("module-gone")(machine, None), replace(machine.tool, failure=_NO_MODULE[machine.vendor]))


def _ghost(machine: Machine, _: int | str | None) -> Machine:
    chip = _chip(machine, None, 0)
    held = Holder(host_answers.GHOST_PID, "python3", 2048)
    return _changed(machine, replace(chip, memory_used_mib=chip.memory_used_mib + 2048, holders=(*chip.holders, held)))


_NVML = (
    " has failed because it couldn't communicate with the {} driver. Make sure that the latest {} driver is installed "
)
_NO_MODULE = {
    "npu": npu_smi.DCMI_8005,
    "iluvatar": Reply(f"IX-SMI{_NVML.format('Iluvatar', 'Iluvatar')}and running.\n", status=9),
    "nvidia": Reply(f"NVIDIA-SMI{_NVML.format('NVIDIA', 'NVIDIA')}and running.\n\n", status=9),
}
# What collectors and files tell (simulation/sight.py, files.py): summary, vendors, where.
AMISS: dict[str, tuple[str, frozenset[str], Callable[[Machine], bool]]] = {
    "node-closed": ("a plain user who may not open the device nodes", CARDS, _always),
    "kernel-next": ("the newest kernel has no module for the cards", CARDS, _always),
    "library-lost": ("the driver's library cannot be loaded", CARDS, _always),
    "node-held": ("a container's process that the tool does not list has the first device open", CARDS, _always),
    "card-shared": ("a running container was given the first device", CARDS, _engine),
    "container-shm": ("as card-shared, with 64 MiB to share", CARDS, _engine),
    "engine-config": ("the engine's daemon.json is no JSON", ANY, _engine),
    "user-unnamed": ("the user's id has no entry in passwd", ANY, _always),
    "runc-open": ("runc may be written by everybody", NPU, _engine),
    "dcmi-writable": ("libdcmi.so may be written by everybody", NPU, _always),
    "mount-folder": ("a folder stands where the driver's install record should", NPU, _always),
    "path-dead": ("LD_LIBRARY_PATH names a toolkit that is gone", NPU, _always),
    "opp-other": ("the operator package is of another CANN", NPU, _always),
    "kernels-missing": ("the operators' kernels are not installed", NPU, _always),
    "nnal-other": ("NNAL/ATB is of another CANN", NPU, _always),
    "cpu-manager": ("kubelet pins processors, and rewrites cgroups", NPU, _always),
    "library-twice": ("LD_LIBRARY_PATH has a library of the toolkit twice", NPU | ILUVATAR, _always),
    "standard-old": ("the C++ library is older than the framework wants", CARDS, _paddle),
    "ports-open": ("HCCL's ports are not kept from being given to others", NPU, _several),
    "tls-uneven": ("TLS is on at the port of the first NPU alone", NPU, _several),
    "rdma-down": ("the last RDMA port is down", NVIDIA, _rdma),
    "rdma-hidden": ("RDMA devices, and no nodes to open them", NVIDIA, _rdma),
    "fabric-down": ("the service that sets up the NVSwitches has failed", NVIDIA, network.switches),
    "iommu-on": ("the IOMMU translates what cards send each other over PCIe", ILUVATAR, _several),
    "corex-other": ("the CoreX tree is of another version than the driver", ILUVATAR, _always),
}
_INDEX = "the index of a device"
FAULTS: dict[str, Fault] = {
    "card-lost": Fault("lspci and /dev have it, the tool lost it", CARDS, _card_lost, NUMBER, _INDEX),
    "health-warning": Fault("Health reads Warning", NPU, _health(_WARNING, 0), NUMBER, _INDEX),
    "health-alarm": Fault("Health reads Alarm", NPU, _health(_ALARM, -1), NUMBER, _INDEX),
    "memory-held": Fault("a process holds memory of the first device", CARDS, _memory_held, NUMBER, "MiB"),
    "hot": Fault("the first device is too warm", CARDS, _hot, NUMBER, "degrees"),
    "ecc": Fault(
        "uncorrected memory errors on the first device", CARDS - {"iluvatar"}, _ecc, NUMBER, "a count", _has_ecc
    ),
    "link-down": Fault("the network port of one device is down", NPU, _link_down, NUMBER, _INDEX),
    "topology-degraded": Fault("one device lost its direct links", CARDS, _topology_degraded, NUMBER, _INDEX, _several),
    "driver-old": Fault("a driver older than any recipe wants", CARDS, _driver_old, VERSION, "a version"),
    "library-mismatch": Fault("libraries newer than the loaded driver", CARDS, _library_mismatch, VERSION, "a version"),
    "dcmi-8005": Fault(
        "npu-smi cannot initialise DCMI", NPU, lambda m, _: _tool(m, replace(m.tool, failure=npu_smi.DCMI_8005))
    ),
    "dcmi-8020": Fault(
        "npu-smi finds the device used by others",
        NPU,
        lambda m, _: _tool(m, replace(m.tool, failure=npu_smi.DCMI_8020)),
    ),
    "truncated": Fault(
        "the tool's list stops in the middle of a row", CARDS, lambda m, _: _tool(m, replace(m.tool, truncated=True))
    ),
    "tool-hang": Fault("the vendor's tool does not answer", CARDS, _hang, NUMBER, "seconds"),
    "tool-missing": Fault(
        "the vendor's tool is not there", CARDS, lambda m, _: _tool(m, replace(m.tool, missing=True))
    ),
    "docker-absent": Fault("there is no container engine", ANY, lambda m, _: replace(m, docker=None)),
    "shm-small": Fault("/dev/shm is small", ANY, _shm_small, NUMBER, "MiB"),
    **{name: Fault(summary, vendors, _amiss(name), only=only) for name, (summary, vendors, only) in AMISS.items()},
    "module-gone": Fault("the kernel was updated, and has no module for the cards", CARDS, _module_gone),
    "ghost": Fault("memory is held by a process that does not exist", CARDS, _ghost),
}
