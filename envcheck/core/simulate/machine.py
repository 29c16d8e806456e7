"""A machine described, as frozen data: what its TOML file says, and the state of each chip, which faults change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envcheck.core.simulate.reply import Reply
from envcheck.core.toml_file import Given


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
    lost: Given[tuple[int, ...]] = ()


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
    name: Given[str] = ""
    chips: Given[tuple[Chip, ...]] = ()
    tool: Tool = field(default=_WHOLE, metadata={"ours": True})
    amiss: Given[frozenset[str]] = frozenset()

    def is_amiss(self, fault: str) -> bool:
        """Whether that fault, which is no state of a chip or of the tool, was asked for."""
        return fault in self.amiss

    @property
    def listed(self) -> tuple[Chip, ...]:
        """The chips that the vendor's tool shows."""
        return tuple(chip for chip in self.chips if chip.listed)
