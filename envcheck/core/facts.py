"""What is known of a machine, as frozen data.

None is "not said", 0 is an answer.  Units stand in the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envcheck.core.model import Answer, Device, Document, Process, Remedy, Topology
from envcheck.core.vendor import Vendor


@dataclass(frozen=True)
class CardFit:
    """What the planner says of one device, by its `place` in the tool's list: as it is now, and did nobody else hold
    memory of it; None for cannot tell."""

    place: int
    fits: bool | None
    fits_idle: bool | None


@dataclass(frozen=True)
class Fit:
    """What the planner says of a job on this machine's cards, its memory or degrees: `fits` is None for cannot tell."""

    fits: bool | None
    reason: str
    remedy: Remedy | None = None
    predicted_bytes: int | None = None
    cards: tuple[CardFit, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """What a recipe's job asks of one machine, flat, so that checks need know neither recipes nor the planner.

    `cards` counts devices as the tool lists them (chips on Iluvatar, dies on A3), `processes` those that it starts on
    one node; `devices` are the places in the tool's list of those that were selected, None: any of them.  `memory_gib`
    is the size of a device, `free_gib` what the job itself takes of one, where the recipe says that.  `disk_reason`
    is how the disk space was counted; `packages` are (name, specifier).
    """

    recipe: str
    method: str
    device: str
    nodes: int = 1
    processes: int = 1
    cards: int | None = None
    devices: tuple[int, ...] | None = None
    memory_gib: float | None = None
    free_gib: float | None = None
    architectures: tuple[str, ...] = ()
    driver_minimum: str | None = None
    toolkit_minimum: str | None = None
    firmware_minimum: str | None = None
    host_memory_gib: float | None = None
    shm_gib: float | None = None
    disk_gib: float | None = None
    disk_reason: str = ""
    image: str | None = None
    packages: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    fit: Fit | None = None
    degrees: Fit | None = None


@dataclass(frozen=True)
class Host:
    """The machine as the system tells it; `in_container` is a guess from the usual marks."""

    hostname: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    os: str | None = None
    cpu_count: int | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_used_bytes: int | None = None
    hugepages_total: int | None = None
    hugepages_free: int | None = None
    hugepage_bytes: int | None = None
    numa_nodes: int | None = None
    euid: int | None = None
    in_container: bool | None = None


@dataclass(frozen=True)
class Disk:
    total_bytes: int | None = None
    free_bytes: int | None = None


@dataclass(frozen=True)
class Limits:
    """-1 is unlimited."""

    open_files_soft: int | None = None
    open_files_hard: int | None = None
    memlock_soft_bytes: int | None = None
    memlock_hard_bytes: int | None = None


@dataclass(frozen=True)
class Interface:
    addresses: tuple[str, ...] = ()
    mtu: int | None = None
    up: bool | None = None


@dataclass(frozen=True)
class Network:
    """`resolves_to` are the addresses of the own name; None where it resolves to nothing."""

    resolves_to: tuple[str, ...] | None = None
    interfaces: Mapping[str, Interface] = field(default_factory=dict)


@dataclass(frozen=True)
class Packages:
    """A Python and what is installed in it, by normalised name; `unmet`: which of these lack what they ask for."""

    python: str | None = None
    executable: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    unmet: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Engine:
    """What `docker info` says; `cdi` are names of devices (iluvatar.com/gpu=0) that its CDI files offer.

    `error` is the engine's own sentence when it could not be reached.
    """

    version: str | None = None
    runtimes: tuple[str, ...] = ()
    root_dir: str | None = None
    error: str | None = None
    cdi: tuple[str, ...] = ()


@dataclass(frozen=True)
class VendorFacts:
    """What is known of one vendor's accelerators; `vendor` is its record.

    `tool` is the answer that `document` was parsed from: the first of Vendor.devices that lists devices, else the first
    that says anything.  `processes`, `pci` and `nodes` are None where they could not be told.  `documents` holds the
    parsed details by question key; `per_device[id][kind]` the follow-ups: board, usages, health, ecc by NPU id; link,
    ip, net_health by the die's physical id.
    """

    vendor: Vendor
    tool: Answer | None = None
    document: Document | None = None
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] | None = None
    topology: Topology | None = None
    pci: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None
    documents: Mapping[str, Document] = field(default_factory=dict)
    per_device: Mapping[int, Mapping[str, Document]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.vendor.name


@dataclass(frozen=True)
class Facts:
    """Everything that a check may read.  None: the question was not answered; `answers` says how, and is the evidence.

    `device` is what was asked for; `vendors` are those found (none: the machine is examined as cpu).
    `environments` are the virtual environments that provision made, by recipe; `proofs` the digests of the recipes that
    it proved to work here; `published_containers` the recipes whose
    container it made with the published document's own options; `thresholds` what envcheck.toml sets.
    """

    device: str = "auto"
    vendors: tuple[VendorFacts, ...] = ()
    host: Host | None = None
    disks: Mapping[str, Disk] | None = None
    limits: Limits | None = None
    environment: Mapping[str, str] | None = None
    network: Network | None = None
    clock_synchronised: bool | None = None
    packages: Packages | None = None
    environments: Mapping[str, Packages] = field(default_factory=dict)
    proofs: Mapping[str, str] = field(default_factory=dict)
    engine: Engine | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    wanted: Wanted | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    published_containers: tuple[str, ...] = ()
