"""The keys of what doctor, snapshot, explain, lint and simulate print, and those that all documents share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas.generate import Keys, key
from envcheck.core.model import Answer, Finding, Remedy, Status
from envcheck.core.version import SCHEMA_VERSION
from envcheck.explain.model import Evidence, Raised

WRONG, NEXT = "what is wrong, in one sentence", "what to do; may be empty"


class NumberedDocument(Keys):
    schema: Any = key(const=SCHEMA_VERSION)


class OutcomeDocument(Keys, like=NumberedDocument):
    """Of a command with a verdict."""

    error: str | None = key(f"{WRONG}; null where the verdict is a good one")
    exit_code: int
    next: str = key(NEXT)


class ErrorDocument(Keys, like=NumberedDocument):
    error: str = key(WRONG)
    exit_code: int
    next: str = key(NEXT)


class JobContainerValues(Keys):
    privileged: bool
    devices: list[str]
    mounts: list[str] = key("source:target, and :ro")
    network: str
    ipc: str
    runtime: str


class JobValues(Keys):
    recipe: str
    model: str
    method: str
    variant: str
    device: str
    architecture: str = key("of the host, as uname -m has it")
    nodes: int = key(minimum=1)
    cards: int = key("devices of each node; 0 on processors", minimum=0)
    devices: list[int] = key("the selected ones, by the numbers of their nodes in /dev")
    image: str | None
    container: JobContainerValues | None
    blocked_by: list[str] = key("requirements that this machine does not meet")


class FindingDetail(Keys):
    seen: str
    remedy: Remedy | None
    evidence: list[str]


class FindingValues(Keys, like=Finding, without=("accepted",)):
    name: str = key(pattern=r"^[^.]+\..+$")
    blocked_by: list[str]
    blocks: list[str]
    details: list[FindingDetail] = key("what else the check saw")


class DoctorDocument(Keys, like=OutcomeDocument):
    verdict: Status
    exit_code: Literal[0, 1, 3]
    device: list[str]
    job: JobValues | None
    findings: list[FindingValues]


class VoteValue(Keys):
    value: str
    hosts: str = key("a node set: node[01-07]")


class VoteValues(Keys):
    name: str
    subject: str
    status: Literal["OK", "WARN", "FAIL"]
    most: str | None
    values: list[VoteValue] = key(minItems=1)


class FleetHost(Keys):
    answered: bool
    verdict: Status
    named: list[str] = key("the fleet's findings that name this host")
    findings: list[FindingValues]


class FleetDocument(Keys, like=DoctorDocument, without=("device", "job")):
    hosts: dict[str, FleetHost]
    common: list[VoteValues]
    odd: list[VoteValues]
    findings: list[FindingValues] = key("of the votes")


class CheckValues(Keys):
    name: str
    area: str
    says: str
    reads: str
    rule: str
    remedy: str
    source: str
    cost: Literal["instant", "seconds", "disturbs the cards"]
    vendors: list[str] = key("empty for all")
    frameworks: list[str]
    models: list[str]
    of_job: bool
    catches: list[str] = key("failures of the field that it tells beforehand")


class ChecksDocument(Keys, like=NumberedDocument):
    checks: list[CheckValues]


class ThresholdValues(Keys):
    name: str
    value: float = key("what decides here: the file's, else the default")
    default: float
    unit: Literal["gib", "percent", "c", "count"]
    source: str


class ThresholdsDocument(Keys, like=NumberedDocument):
    file: str = key("the envcheck.toml that was read, empty for none")
    thresholds: list[ThresholdValues]


class SnapshotAnswer(Keys, like=Answer, without=("key",)):
    """By its key."""


class SnapshotDocument(Keys, like=NumberedDocument):
    envcheck: str
    device: str
    answers: dict[str, SnapshotAnswer]


class LogLine(Keys, like=Evidence, without=("time", "ours")):
    """As it stands in the log."""


class DiagnosisValues(Keys):
    name: str
    kind: str
    says: str
    why: str
    remedy: Remedy
    source: list[str]
    applies: list[str]
    follows: str | None
    count: int
    evidence: list[LogLine]


class RaisedValues(Keys, like=Raised, without=("time",)):
    raised_in: str | None
    called_from: str | None


class ReadFile(Keys):
    name: str
    lines: int
    bytes: int


class ExplainDocument(Keys, like=OutcomeDocument):
    verdict: Literal["explained", "unknown"]
    first_failed: str | None
    diagnoses: list[DiagnosisValues]
    exception: RaisedValues | None
    telling: list[LogLine]
    read: list[ReadFile]
    notes: list[str]


class EntryValues(Keys):
    name: str
    kind: str
    says: str
    codes: list[str]
    source: list[str]


class EntriesDocument(Keys, like=NumberedDocument):
    entries: list[EntryValues]


class RemarkValues(Keys):
    rule: str
    severity: str
    line: int
    column: int
    end_line: int
    end_column: int
    seen: str
    evidence: str
    remedy: str
    fix: bool
    origin: str


class LintDocument(Keys, like=OutcomeDocument):
    file: str
    device: str | None
    read: int
    shellcheck: bool
    findings: list[RemarkValues]
    waived: list[RemarkValues]
    job: JobValues | None = key("of the recipe that the script was written from")


class SimulatedMachine(Keys):
    name: str
    title: str
    vendor: str
    devices: int
    faults: list[str]


class SimulatedFault(Keys):
    name: str
    summary: str
    value: str | None
    vendors: list[str]


class SimulateDocument(Keys, like=NumberedDocument):
    machines: list[SimulatedMachine]
    faults: list[SimulatedFault]


DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "error": ("envcheck COMMAND --json, where the command is refused or fails", ErrorDocument, {}),
    "doctor": ("envcheck doctor --json", DoctorDocument, {}),
    "fleet": ("envcheck doctor --hosts --json", FleetDocument, {}),
    "doctor-checks": ("envcheck doctor --list-checks --json", ChecksDocument, {}),
    "doctor-thresholds": ("envcheck doctor --show-thresholds --json", ThresholdsDocument, {}),
    "snapshot": ("envcheck snapshot -o FILE", SnapshotDocument, {}),
    "explain": ("envcheck explain --json", ExplainDocument, {}),
    "explain-list": ("envcheck explain --list --json", EntriesDocument, {}),
    "lint": ("envcheck lint --json", LintDocument, {}),
    "simulate": ("envcheck simulate --list --json", SimulateDocument, {}),
}
