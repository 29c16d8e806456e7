"""The words of envcheck as frozen data; imports the standard library alone.

None is "not said", 0 is an answer.  Units stand in the names; the vendors' "MB" columns count MiB (65536 is 64 GiB).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


class Severity(enum.IntEnum):
    """Worst last, so that max() is the verdict."""

    OK = 0
    SKIP = 1
    UNKNOWN = 2
    WARN = 3
    FAIL = 4


class Outcome(str, enum.Enum):
    """How a question to the machine ended; five different answers, none of which stands for another."""

    ANSWERED = "answered"
    EMPTY = "empty"
    ABSENT = "absent"
    FAILED = "failed"
    HUNG = "hung"


@dataclass(frozen=True)
class Question:
    """Something to ask the machine: `verb` is run (argv), read (a path), list (a glob) or ask (a collector's name)."""

    verb: str
    what: tuple[str, ...]
    timeout_s: float = 20.0

    @cached_property
    def key(self) -> str:
        """The stable name under which a snapshot keeps the answer."""
        return f"{self.verb} {' '.join(self.what)}"


@dataclass(frozen=True)
class Answer:
    """What came back: text, how it ended, and where it came from.  `list` answers hold one path a line, `ask` JSON."""

    key: str
    outcome: Outcome
    out: str = ""
    err: str = ""
    status: int | None = None
    elapsed_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.ANSWERED

    @property
    def text(self) -> str:
        """Both streams: the vendors print their errors on either."""
        return self.out if not self.err else f"{self.out}\n{self.err}" if self.out else self.err


@dataclass(frozen=True)
class Device:
    """One accelerator as its tool shows it: a chip or die, not a card.  Keys as in `envcheck parse`."""

    index: int | None = None
    npu: int | None = None
    chip: int | None = None
    phy_id: int | None = None
    logic_id: int | None = None
    name: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    health: str | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    fan_percent: float | None = None
    utilization_percent: float | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    ddr_used_mib: int | None = None
    ddr_total_mib: int | None = None
    hugepages_used: int | None = None
    hugepages_total: int | None = None
    clock_sm_mhz: int | None = None
    clock_memory_mhz: int | None = None
    perf_state: str | None = None
    ecc_uncorrected: int | None = None
    mig_mode: str | None = None
    persistence: bool | None = None


@dataclass(frozen=True)
class Process:
    """A process that holds device memory; `device` is the NPU id, else the index."""

    device: int | None = None
    chip: int | None = None
    pid: int | None = None
    name: str | None = None
    memory_mib: int | None = None
    container_pid: int | None = None


@dataclass(frozen=True)
class Topology:
    """`matrix[row][column]` is the relation as printed (HCCS, NV12, PIX, SYS, X for self).

    `devices`: names of npu-smi; of nvidia-smi and ixsmi {"index": 0, "label": "GPU0"}.  An affinity is None where the
    tool prints no such column.
    """

    devices: tuple[Any, ...] = ()
    nics: tuple[str, ...] = ()
    matrix: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    cpu_affinity: Mapping[str, str | None] | None = field(default_factory=dict)
    numa_affinity: Mapping[str, str | None] | None = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The devices' names, which are the keys of `matrix` and of the affinities."""
        return tuple(device if isinstance(device, str) else str(device["label"]) for device in self.devices)


@dataclass(frozen=True)
class ToolError:
    """A tool's own complaint, understood: `code` is the number after "ret is"."""

    category: str
    code: int | None = None
    message: str = ""
    meaning: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Document:
    """What `envcheck parse` prints: everything that one text of one tool says."""

    tool: str
    kind: str
    tool_version: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    truncated: bool = False
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] = ()
    topology: Topology | None = None
    error: ToolError | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Remedy:
    """What to do: words for a person, and commands ready to paste."""

    words: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Accepted:
    """A waiver that holds: `until` is its last day, as 2027-01-31."""

    reason: str
    until: str


@dataclass(frozen=True)
class Finding:
    """What a check saw: `name` is area.property; `source` says where the rule comes from, `device` which vendor's.

    `follows` names the check that tells the cause: this one could judge nothing, or nothing that is not told there.
    `waived` says until when and why a person has accepted it, `accepted` the same for programs: it counts for no
    verdict.
    """

    name: str
    severity: Severity
    seen: str
    remedy: Remedy | None = None
    evidence: tuple[str, ...] = ()
    source: str = ""
    device: str = ""
    follows: str = ""
    waived: str = ""
    accepted: Accepted | None = None


@dataclass(frozen=True)
class Fit:
    """What the planner says of a job on this machine's cards, its memory or degrees: `fits` is None for cannot tell."""

    fits: bool | None
    reason: str
    remedy: Remedy | None = None
    predicted_bytes: int | None = None


@dataclass(frozen=True)
class Wanted:
    """What a recipe's job asks of one machine, flat, so that checks need know neither recipes nor the planner.

    `cards` counts devices as the tool lists them (chips on Iluvatar, dies on A3); `packages` are (name, specifier).
    """

    recipe: str
    method: str
    device: str
    nodes: int = 1
    cards: int | None = None
    memory_gib: float | None = None
    architectures: tuple[str, ...] = ()
    driver_minimum: str | None = None
    toolkit_minimum: str | None = None
    firmware_minimum: str | None = None
    host_memory_gib: float | None = None
    shm_gib: float | None = None
    disk_gib: float | None = None
    image: str | None = None
    packages: tuple[tuple[str, str], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
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
    """What `docker info` says; `error` is the engine's own sentence when it could not be reached."""

    version: str | None = None
    runtimes: tuple[str, ...] = ()
    root_dir: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class VendorFacts:
    """What is known of one vendor's accelerators.

    `tool` is the answer that `document` was parsed from: the first of Vendor.devices that lists devices, else the first
    that says anything.  `processes`, `pci` and `nodes` are None where they could not be told.  `documents` holds the
    parsed details by question key; `per_device[id][kind]` the follow-ups: board, usages, health, ecc by NPU id; link,
    ip, net_health by the die's physical id.
    """

    name: str
    tool: Answer | None = None
    document: Document | None = None
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] | None = None
    topology: Topology | None = None
    pci: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None
    documents: Mapping[str, Document] = field(default_factory=dict)
    per_device: Mapping[int, Mapping[str, Document]] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """Everything that a check may read.  None: the question was not answered; `answers` says how, and is the evidence.

    `device` is what was asked for; `vendors` are those found (none: the machine is examined as cpu).
    `environments` are the virtual environments that provision made, by recipe; `thresholds` what envcheck.toml sets.
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
    engine: Engine | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    wanted: Wanted | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
