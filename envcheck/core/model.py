"""The words of envcheck as frozen data; imports the standard library alone.

None is "not said", 0 is an answer.  Units stand in the names; the vendors' "MB" columns count MiB (65536 is 64 GiB).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


class Status(enum.IntEnum):
    """What a check says of one vendor's devices or of the machine; the parts of a check together say the highest.

    A part that does not apply takes nothing from one that is fine; a part that was not checked does.
    """

    NOT_APPLICABLE = 0  # makes no sense here
    OK = 1
    BLOCKED = 2  # not checked, because the check that `blocked_by` names failed first
    UNKNOWN = 3  # tried, could not determine
    WARN = 4  # works, but will cost you
    FAIL = 5  # training will not start, or will break

    @property
    def is_problem(self) -> bool:
        """Whether a person has to look at it here; what is blocked is shown under its cause."""
        return self >= Status.UNKNOWN


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
    """What a check found: `name` is area.property; `source` says where the rule comes from, `device` which vendor's.

    `blocked_by` names the check that failed first: this one could judge nothing, or nothing that is not told there.
    `details` are the other things that the check saw of the same vendor's devices, or of the machine; they have no
    status but this one.  `waived` says until when and why a person has accepted it, `accepted` the same for programs:
    it counts for no verdict.
    """

    name: str
    status: Status
    seen: str
    remedy: Remedy | None = None
    evidence: tuple[str, ...] = ()
    source: str = ""
    device: str = ""
    blocked_by: str = ""
    waived: str = ""
    accepted: Accepted | None = None
    details: tuple[Finding, ...] = ()
