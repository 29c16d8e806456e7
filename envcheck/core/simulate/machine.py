"""The description of a simulated host as frozen data: the contents of its TOML file, and the state of each chip, which
faults change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envcheck.core.simulate.reply import ProgramReply
from envcheck.core.toml_file import Given


@dataclass(frozen=True)
class SimulatedHost:
    """The computer without its cards; `cpus` counts hardware threads."""

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
class SimulatedDriver:
    """`version` is the kernel module's, `library` the tool's if it differs, `toolkit` that of CANN or CoreX."""

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
    def tool_version(self) -> str:
        """The version that the vendor's tool reports of itself."""
        return self.library or self.version


@dataclass(frozen=True)
class SimulatedDevices:
    """The properties that all devices share; a device is what the vendor's tool lists: a chip or a die.

    `power_on_chip` is the chip of each card with the power sensor, if not all have one; `phy_ids` adds the Phy-ID
    column; `pci_vendor` is the PCI vendor id where it is not the maker's usual one; `idle_mib` is the memory that the
    driver itself uses.
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
    pci_vendor: str = ""
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
class SimulatedLinks:
    """The words in the topology: `same_card` on one card, `inside` one of the `groups`, otherwise `between`.

    `nic_devices` are the devices on the switch of each of `nics`; without it, one network card for each device.
    """

    inside: str
    between: str = "SYS"
    same_card: str = ""
    groups: tuple[tuple[int, ...], ...] = ()
    cpu_affinity: tuple[str, ...] = ()
    numa: tuple[int, ...] = ()
    nics: tuple[str, ...] = ()
    nic_devices: tuple[tuple[int, ...], ...] = ()
    lost: Given[tuple[int, ...]] = ()


@dataclass(frozen=True)
class MigInstance:
    """One MIG instance; all GPUs of the host have the same instances."""

    profile: str
    gpu_instance: int
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int


@dataclass(frozen=True)
class SimulatedDocker:
    """The container engine."""

    version: str
    runtimes: tuple[str, ...] = ()
    default_runtime: str = "runc"


@dataclass(frozen=True)
class SimulatedProcess:
    """A process that uses memory of a chip."""

    pid: int
    name: str
    memory_mib: int


@dataclass(frozen=True)
class SimulatedChip:
    """One device; `index` is its position on the bus, on Ascend A3 the Phy-ID, and the number of its /dev node."""

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
    holders: tuple[SimulatedProcess, ...] = ()


@dataclass(frozen=True)
class ToolCondition:
    """The condition of the vendor's tool: missing, hanging, failing on every query, or truncated output."""

    missing: bool = False
    hang_s: int = 0
    failure: ProgramReply | None = None
    truncated: bool = False


_WHOLE = ToolCondition()


@dataclass(frozen=True)
class SimulatedSystem:
    """All data that the answers are generated from."""

    title: str
    vendor: str
    host: SimulatedHost
    driver: SimulatedDriver | None = None
    devices: SimulatedDevices | None = None
    links: SimulatedLinks | None = None
    mig: tuple[MigInstance, ...] = ()
    docker: SimulatedDocker | None = None
    python: str = "3.10.14"
    packages: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    pci: tuple[str, ...] = ()
    name: Given[str] = ""
    chips: Given[tuple[SimulatedChip, ...]] = ()
    tool: ToolCondition = field(default=_WHOLE, metadata={"ours": True})
    amiss: Given[frozenset[str]] = frozenset()

    def has_fault(self, fault: str) -> bool:
        """Return whether the fault was requested that is not a state of a chip or the tool."""
        return fault in self.amiss

    @property
    def listed_chips(self) -> tuple[SimulatedChip, ...]:
        """The chips that the vendor's tool lists."""
        return tuple(chip for chip in self.chips if chip.listed)
