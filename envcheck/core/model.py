"""The basic data types of envcheck, frozen; this module imports only the standard library and `messages`.

None means unknown; 0 and "" are values.  Units are in the names; the vendors' "MB" columns are MiB (65536 is 64 GiB).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from envcheck.core.messages import Message, _, mark


class Status(enum.IntEnum):
    """The result of a check for one vendor's devices or for the host.  The highest status of its parts is the
    result.

    So NOT_APPLICABLE does not degrade OK, but BLOCKED does.
    """

    NOT_APPLICABLE = 0  # makes no sense on this host
    OK = 1
    BLOCKED = 2  # not checked, because the check that `blocked_by` names failed first
    UNKNOWN = 3  # tried, could not determine
    WARN = 4  # training works, at a cost
    FAIL = 5  # training will not start, or will break

    @property
    def is_problem(self) -> bool:
        """Whether the finding needs attention on its own; a BLOCKED one is listed under its cause."""
        return self >= Status.UNKNOWN


class Outcome(str, enum.Enum):
    """How a question to the host ended. The outcomes are distinct: a missing tool is not a failed one; one that the
    system refuses to start, or that is stopped for what it prints, has no exit status of its own."""

    ANSWERED = mark("answered")
    EMPTY = mark("empty")
    ABSENT = mark("absent")
    FAILED = mark("failed")
    HUNG = mark("hung")
    UNSTARTED = mark("unstarted")
    FLOODED = mark("flooded")


@dataclass(frozen=True)
class Question:
    """A question to the host: `verb` is run (an argv), read (a path), list (a glob) or ask (a collector's name)."""

    verb: str
    what: tuple[str, ...]
    timeout_s: float = 20.0

    @cached_property
    def key(self) -> str:
        """The stable key of the answer in a snapshot."""
        return f"{self.verb} {' '.join(self.what)}"


@dataclass(frozen=True)
class Answer:
    """The answer to a question: its text, outcome and source.  `list` answers have one path per line, `ask` answers
    JSON."""

    key: str
    outcome: Outcome
    out: str = ""
    err: str = ""
    status: int | None = None
    elapsed_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the question was answered with text."""
        return self.outcome is Outcome.ANSWERED

    @property
    def text(self) -> str:
        """Both streams, because vendor tools print errors on either."""
        return self.out if not self.err else f"{self.out}\n{self.err}" if self.out else self.err


@dataclass(frozen=True)
class Device:
    """One accelerator as the vendor tool lists it: a chip or die, not a board. Keys as in `envcheck parse`."""

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


def build_device(values: Mapping[str, Any]) -> Device:
    """Return the device with these values: `__init__` of a frozen class takes three times as long."""
    own = _NO_VALUES.copy()  # shares the keys of all devices, as attributes do
    own.update(values)
    device = object.__new__(Device)
    object.__setattr__(device, "__dict__", own)
    return device


_NO_VALUES: dict[str, Any] = vars(Device())


@dataclass(frozen=True)
class Process:
    """A process that uses device memory; `device` is the NPU id, else the index."""

    device: int | None = None
    chip: int | None = None
    pid: int | None = None
    name: str | None = None
    memory_mib: int | None = None
    container_pid: int | None = None


@dataclass(frozen=True)
class Topology:
    """The interconnect: `matrix[row][column]` is the relation as printed (HCCS, NV12, PIX, SYS, X for self).

    `devices` are names from npu-smi; from nvidia-smi and ixsmi {"index": 0, "label": "GPU0"}. An affinity is None if
    the tool prints no such column.
    """

    devices: tuple[Any, ...] = ()
    nics: tuple[str, ...] = ()
    matrix: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    cpu_affinity: Mapping[str, str | None] | None = field(default_factory=dict)
    numa_affinity: Mapping[str, str | None] | None = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The device names, which are the keys of `matrix` and of the affinities."""
        return tuple(device if isinstance(device, str) else str(device["label"]) for device in self.devices)


@dataclass(frozen=True)
class ToolError:
    """An error message of a vendor tool, classified: `code` is the number after "ret is"."""

    category: str
    code: int | None = None
    message: str = ""
    meaning: str = ""
    fix: str = ""


@dataclass(frozen=True)
class CellRemark:
    """A cell that could not be read, whose value is None: `line` counts from 1 in the output, `text` is as printed."""

    line: int
    field: str
    text: str


@dataclass(frozen=True)
class Document:
    """The output of `envcheck parse`: everything found in one text of one tool.

    `runtime_version` is that of the vendor's runtime library, if the tool shows it beside the driver's.  A text with
    several outputs is a `session`: `parts` are their documents in order, `devices` those of the last complete listing
    of each host and tool.  `command` and `host` are "" where the text does not show them.
    """

    tool: str
    kind: str
    tool_version: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    runtime_version: str | None = None
    truncated: bool = False
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] = ()
    topology: Topology | None = None
    error: ToolError | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    host: str = ""
    remarks: tuple[CellRemark, ...] = ()
    parts: tuple[Document, ...] = ()


def replace_values(document: Document, **values: Any) -> Document:
    """Return the document with other values, like `dataclasses.replace` in a fifth of the time."""
    changed = object.__new__(Document)
    object.__setattr__(changed, "__dict__", {**vars(document), **values})
    return changed


class RemedyKind(str, enum.Enum):
    """What a remedy's commands do: fix the cause, or show more about it. MANUAL has no commands."""

    FIX = "fix"
    DIAGNOSE = "diagnose"
    MANUAL = "manual"


@dataclass(frozen=True)
class Remedy:
    """What to do: one or two short imperative sentences, and commands to copy.

    The first command of a fix repairs the cause; later ones may verify it.  A manual remedy has no command.
    """

    kind: RemedyKind
    words: Message
    commands: tuple[str, ...] = ()

    @property
    def label(self) -> Message:
        """The label of the remedy in a text report."""
        return _("fix: ") if self.kind is RemedyKind.FIX else _("next: ")


def fix(words: Message, *commands: str) -> Remedy:
    """Return a remedy whose commands repair the cause, envcheck's own command first; without commands it is manual."""
    return Remedy(RemedyKind.FIX if commands else RemedyKind.MANUAL, words, commands)


def diagnose(words: Message, *commands: str) -> Remedy:
    """Return a remedy whose commands only show more about the cause; without commands it is manual."""
    return Remedy(RemedyKind.DIAGNOSE if commands else RemedyKind.MANUAL, words, commands)


def manual(words: Message) -> Remedy:
    """Return a remedy that no command can carry out."""
    return Remedy(RemedyKind.MANUAL, words)


@dataclass(frozen=True)
class AcceptedWaiver:
    """A waiver in force: `until` is its last day, as in 2027-01-31."""

    reason: str
    until: str


@dataclass(frozen=True)
class Finding:
    """The result of a check: `name` is area.property, `source` the origin of the rule, `device` the vendor.

    `blocked_by` names the check that failed first, so that this one could not run or would only repeat it.  `details`
    are further findings of the same check; their status is included in this one's.  `waived` is the text of the waiver
    that applies, `accepted` its data: a waived finding does not affect the exit code.
    """

    name: str
    status: Status
    seen: Message
    remedy: Remedy | None = None
    evidence: tuple[str, ...] = ()
    source: str = ""
    device: str = ""
    blocked_by: str = ""
    waived: str = ""
    accepted: AcceptedWaiver | None = None
    details: tuple[Finding, ...] = ()
