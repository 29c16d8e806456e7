"""A machine described: what a TOML file says (`load`), and the state of each chip, which faults change."""

from __future__ import annotations

import dataclasses
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envcheck.errors import UsageError
from envcheck.simulation.reply import Reply
from envcheck.simulation.toml_data import fill, ours

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover (3.10: the training containers' Python)
    import tomli as tomllib

OWN = Path(__file__).parent / "machines"
SIZE_LIMIT = 64 << 10  # bytes; ours have 3 KB


@dataclass(frozen=True)
class Host:
    """The computer around the cards; `cpus` are what the system counts, threads included."""

    hostname: str
    address: str
    os: str
    kernel: str
    architecture: str
    cpus: int
    numa_nodes: int
    memory_gib: int
    shm_mib: int
    disk_gib: int
    interface: str = "bond0"


@dataclass(frozen=True)
class Driver:
    """`version` is the kernel module's, `library` the tool's own where the two differ, `toolkit` CANN's or CoreX's."""

    version: str
    library: str = ""
    cuda: str = ""
    cuda_capability: str = ""
    firmware: str = ""
    firmware_range: tuple[str, ...] = ()
    toolkit: str = ""
    toolkit_inner: str = ""
    open_module: bool = False

    @property
    def tool(self) -> str:
        return self.library or self.version


@dataclass(frozen=True)
class Devices:
    """What all devices have in common; a device is what the vendor's tool lists: a chip or a die.

    `power_on_chip` is the chip of each card that has the power sensor, where not all have; `phy_ids` gives the table
    its Phy-ID column; `idle_mib` is the memory that the driver itself holds.
    """

    name: str
    bus_ids: tuple[str, ...]
    pci_id: str
    pci_class: str
    pci_name: str
    pci_revision: str
    memory_mib: int
    idle_mib: int
    temperature_c: int
    power_w: float
    power_limit_w: int = 0
    product: str = ""
    brand: str = ""
    chips_per_card: int = 1
    power_on_chip: int | None = None
    phy_ids: bool = False
    ecc: bool = True
    fan_percent: int | None = None
    perf_state: str = "P0"
    clock_sm_mhz: int = 0
    clock_memory_mhz: int = 0


@dataclass(frozen=True)
class Links:
    """The words that the topology prints: on one `same_card`, `inside` one of the `groups`, else `between`."""

    inside: str
    between: str = "SYS"
    same_card: str = ""
    groups: tuple[tuple[int, ...], ...] = ()
    cpu_affinity: tuple[str, ...] = ()
    numa: tuple[int, ...] = ()
    nics: tuple[str, ...] = ()
    lost: tuple[int, ...] = ours(())


@dataclass(frozen=True)
class Instance:
    """One MIG instance; every GPU of the machine is cut alike."""

    profile: str
    gpu_instance: int
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int


@dataclass(frozen=True)
class Docker:
    version: str
    runtimes: tuple[str, ...] = ()
    default_runtime: str = "runc"


@dataclass(frozen=True)
class Holder:
    """A process that holds memory of a chip."""

    pid: int
    name: str
    memory_mib: int


@dataclass(frozen=True)
class Chip:
    """One device; `index` is its number in the order of the bus, on Ascend A3 the Phy-ID, and that of its /dev node."""

    index: int
    card: int
    die: int
    bus_id: str
    uuid: str
    serial: str
    temperature_c: int
    power_w: float | None
    memory_used_mib: int
    health: str = "OK"
    error_code: str = "NA"
    ecc_uncorrected: int = 0
    link_up: bool = True
    listed: bool = True
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True)
class Tool:
    """What is wrong with the vendor's tool: gone, hanging, failing on every query, or cut off."""

    missing: bool = False
    hang_s: int = 0
    failure: Reply | None = None
    truncated: bool = False


_WHOLE = Tool()


@dataclass(frozen=True)
class Machine:
    """Everything that the answers are made from."""

    title: str
    vendor: str
    host: Host
    driver: Driver | None = None
    devices: Devices | None = None
    links: Links | None = None
    mig: tuple[Instance, ...] = ()
    docker: Docker | None = None
    python: str = "3.10.14"
    packages: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    pci: tuple[str, ...] = ()
    name: str = ours("")
    chips: tuple[Chip, ...] = ours(())
    tool: Tool = field(default=_WHOLE, metadata={"ours": True})

    @property
    def listed(self) -> tuple[Chip, ...]:
        """The chips that the vendor's tool shows."""
        return tuple(chip for chip in self.chips if chip.listed)


def names(folder: Path | None = None) -> dict[str, Path]:
    """Machines by name; those of the user's own folder win."""
    found = {path.stem: path for path in sorted(OWN.glob("*.toml"))}
    if folder is not None:
        if not folder.is_dir():
            raise UsageError(f"{folder}: not a folder", "give --machines a folder with NAME.toml files")
        found |= {path.stem: path for path in sorted(folder.glob("*.toml"))}
    return found


def load(name: str, folder: Path | None = None) -> Machine:
    """The machine of that name; UsageError when there is none, or when its file is not one."""
    known = names(folder)
    if name not in known:
        raise UsageError(f"there is no machine {name!r:.60}", f"choose one of {', '.join(known)}")
    return parse(_text(known[name]), name, str(known[name]))


def parse(text: str, name: str, file: str) -> Machine:
    """The machine that `text` describes; `file` only names it in sentences."""
    from envcheck.simulation.machine_rules import check

    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as err:
        raise UsageError(
            f"{file}: not TOML: {str(err).splitlines()[0]:.120}", "compare with docs/simulate.md"
        ) from None
    machine = dataclasses.replace(fill(Machine, table, file), name=name)
    check(machine, file)
    return dataclasses.replace(machine, chips=tuple(_chips(machine)))


def _text(path: Path) -> str:
    if not path.is_file():
        raise UsageError(f"{path}: not a file")
    try:
        with path.open("rb") as file:
            raw = file.read(SIZE_LIMIT + 1)
        if len(raw) > SIZE_LIMIT:
            raise UsageError(f"{path}: larger than {SIZE_LIMIT >> 10} KiB: this is no machine")
        return raw.decode("utf-8")
    except OSError as err:
        raise UsageError(f"{path}: cannot be read: {(err.strerror or str(err)).lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text") from None


def _chips(machine: Machine) -> list[Chip]:
    """One chip for each bus id, warmed and powered a little differently, as no two real ones read alike."""
    if machine.devices is None:
        return []
    make = machine.devices
    return [
        Chip(
            index=n,
            card=n // make.chips_per_card,
            die=n % make.chips_per_card,
            bus_id=bus_id,
            uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{n}.{machine.name}.envcheck.invalid')}",
            serial=f"{1025 + n * 7919:08d}{n:03d}",
            temperature_c=make.temperature_c + n * 7 % 4,
            power_w=_power(make, n),
            memory_used_mib=make.idle_mib,
        )
        for n, bus_id in enumerate(make.bus_ids)
    ]


def _power(make: Devices, n: int) -> float | None:
    if make.power_on_chip is not None and n % make.chips_per_card != make.power_on_chip:
        return None
    return round(make.power_w + n * 37 % 91 / 10, 1)
