"""The documents of doctor, snapshot, explain, lint and simulate, and the objects that several documents share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas.generate import Keys, key, optional_key
from envcheck.core.lint.own_job import ValueState
from envcheck.core.messages import mark
from envcheck.core.model import Answer, Finding, Remedy, Status
from envcheck.core.version import SCHEMA_VERSION
from envcheck.explain.diagnosis import Evidence, RaisedException

WRONG, NEXT = "What is wrong, in one sentence", "What to do next; may be empty."


class NumberedDocument(Keys):
    schema: Any = key("Schema number of all documents.", const=SCHEMA_VERSION)


class OutcomeDocument(Keys, like=NumberedDocument):
    """A document that ends with the outcome of the command."""

    error: str | None = key(f"{WRONG}; null if nothing is.")
    exit_code: int = key("Exit code of the command.")
    next: str = key(NEXT)


class ErrorDocument(Keys, like=NumberedDocument):
    error: str = key(f"{WRONG}.")
    exit_code: int = key("Exit code of the command.")
    next: str = key(NEXT)


class JobContainerValues(Keys):
    privileged: bool = key("Whether the container is privileged.")
    devices: list[str] = key("Device nodes and CDI names; empty if the runtime adds the devices.")
    mounts: list[str] = key("Bind mounts as source:target, with :ro for read-only.")
    network: str = key("Network mode.")
    ipc: str = key("IPC mode.")
    runtime: str = key("Container runtime; empty for the default of the engine.")


class OwnJobValue(Keys):
    value: str | None = key("The value as text; null if unknown.")
    state: ValueState = key("How the value is known: read, assumed or unknown.")
    where: str = key("File and line where it was read, or why it is assumed; may be empty.")
    option: str = key("Option of the job that sets it; empty for none.")


class OwnJobValues(Keys):
    source: str = key("File that describes the job; command for a command line.")
    command: list[str] = key("Command that starts the training.")
    values: dict[str, OwnJobValue] = key("Values of the job by name, such as model or micro_batch.")
    notes: list[str] = key("Remarks about the job; may be empty.")


class JobValues(Keys):
    recipe: str
    model: str
    method: str
    variant: str
    device: str
    architecture: str
    nodes: int = key("Number of nodes.", minimum=1)
    cards: int = key("Devices on each node; 0 on a CPU.", minimum=0)
    devices: list[int] = key("Numbers of the selected devices on each node, as the vendor's tool counts them.")
    devices_reason: str | None = key("Why these devices; null for the first ones.")
    image: str | None = key("Container image; null for none.")
    image_versions: dict[str, str] | None = key("Documented versions in the image, by component; null if unknown.")
    container: JobContainerValues | None = key("The container; null for none.")
    blocked_by: list[str] = key("Requirements that this machine does not meet; may be empty.")
    own: OwnJobValues | None = key("The user's own job; null for a job of a recipe.")


class MessageValues(Keys):
    template: str = key("English text with the names of the values in braces.")
    plural: str = optional_key("Template to use if the value `count` is not 1.")
    values: dict[str, str | int | float | bool | MessageValues | None] = key(
        "Values by name: strings, numbers, and nested messages."
    )


class FindingDetail(Keys):
    seen: str
    message: MessageValues
    remedy: Remedy | None
    evidence: list[str] = key("Output or configuration lines that support the result; may be empty.")


class FindingValues(Keys, like=Finding, without=("accepted",)):
    name: str = key("Check name, area.property.", pattern=r"^[^.]+\..+$")
    message: MessageValues
    blocked_by: list[str] = key("Checks that failed first, so that this one did not run; may be empty.")
    blocks: list[str] = key("Checks that did not run because this one failed; may be empty.")
    details: list[FindingDetail] = key("Further results of the same check; may be empty.")


class DoctorDocument(Keys, like=OutcomeDocument):
    verdict: Status = key("Worst status of all findings.")
    exit_code: Literal[0, 1, 3] = key("Exit code of the command.")
    device: list[str] = key('Vendors whose devices were found; ["cpu"] for none.')
    job: JobValues | None = key("The job that the machine was checked for; null for none.")
    findings: list[FindingValues] = key("Result of each check.")


class VoteValue(Keys):
    value: str = key("The value.")
    hosts: str = key("Hosts with this value, in folded form: node[01-07].")


class VoteValues(Keys):
    name: str = key("Name of the comparison, area.property.")
    subject: str = key("What is compared, such as a package name; may be empty.")
    status: Literal["OK", "WARN", "FAIL"] = key(
        "OK if all hosts have the same value, else the severity of the difference."
    )
    majority: str | None = key("Most common value; null if no value has a majority.")
    values: list[VoteValue] = key("Each value with its hosts.", minItems=1)


class FleetHost(Keys):
    answered: bool = key("Whether the host was reached and answered.")
    verdict: Status = key("Worst status of the findings of this host.")
    outlier_findings: list[str] = key("Findings of the host comparison that name this host.")
    findings: list[FindingValues] = key("Result of each check on this host.")


class FleetDocument(Keys, like=DoctorDocument, without=("device", "job")):
    hosts: dict[str, FleetHost] = key("Results by host.")
    common: list[VoteValues] = key("Values that are the same on all hosts.")
    outliers: list[VoteValues] = key("Values that differ between hosts.")
    findings: list[FindingValues] = key("Result of each comparison between hosts.")


class CheckValues(Keys):
    name: str = key("Check name, area.property.")
    area: str = key("Part of the name before the dot.")
    description: str = key("The property that the check verifies.")
    reads: str = key("Commands and files that the check reads.")
    rule: str = key("Which condition gives which status.")
    remedy: str = key("General remedy; a finding has the one for the host.")
    source: str
    cost: Literal["instant", "seconds", "disturbs the cards"] = key("Cost of running the check.")
    vendors: list[str] = key("Vendors that the check applies to; empty for the host.")
    frameworks: list[str] = key("Training frameworks that the check applies to; empty for all.")
    models: list[str] = key("Models that the check applies to; empty for all.")
    requires_job: bool = key("Whether the check needs a job.")
    known_failures: list[str] = key("Known failures that the check predicts; may be empty.")


class ChecksDocument(Keys, like=NumberedDocument):
    checks: list[CheckValues] = key("All checks, in the order in which they run.")


class ThresholdValues(Keys):
    name: str = key("Name in envcheck.toml.")
    value: float = key("Effective value: that of the file, else the default.")
    default: float = key("Built-in value.")
    unit: Literal["gib", "percent", "c", "count"] = key("Unit of both values; c is degrees Celsius.")
    source: str


class ThresholdsDocument(Keys, like=NumberedDocument):
    file: str = key("The envcheck.toml that was read; empty for none.")
    thresholds: list[ThresholdValues] = key("All thresholds.")


class SnapshotAnswer(Keys, like=Answer, without=("key",)):
    """An answer without its key, under which the document has it."""


class SnapshotDocument(Keys, like=NumberedDocument):
    envcheck: str = key("Version of envcheck that wrote the snapshot.")
    device: str = key("Requested vendor; auto for any.")
    answers: dict[str, SnapshotAnswer] = key("Answers of the machine by question, such as `run npu-smi info`.")


class LogLine(Keys, like=Evidence, without=("time", "ours", "about")):
    """A line of a log."""


class DiagnosisRemedy(Keys, like=Remedy, without=("kind",)):
    """A remedy of the error catalogue, which has no kinds."""


class DiagnosisValues(Keys):
    name: str = key("Name of the entry in the error catalogue.")
    kind: str = key(
        "cause: ended the run; symptom: a cause or a consequence; summary: exit report; warning: did not end the run."
    )
    description: str = key("What went wrong.")
    why: str = key("Why it happens.")
    installed: list[str] = key("Versions of the packages in question that the log prints, each as `torch 2.6.0`.")
    remedy: DiagnosisRemedy = key("What to do.")
    source: list[str] = key("Documents that describe it; may be empty.")
    applies_to: list[str] = key("Products and versions that it applies to; empty for all.")
    caused_by: str | None = key("Entry that caused this one; null if it is a cause itself.")
    count: int = key("Number of matching lines.")
    evidence: list[LogLine] = key("First matching lines.")


# Of an exception, what only its own explanation uses.
INNER_KEYS = (
    "time",
    "own_time",
    "is_reported",
    "in_handler",
    "in_thread",
    "frames",
    "sources",
    "rank",
    "unit",
    "end",
    "is_cut",
    "details",
    "continuation",
    "last",
    "is_handled",
)


class RaisedExceptionValues(Keys, like=RaisedException, without=INNER_KEYS):
    raised_in: str | None = key("Innermost frame of the traceback; null if unknown.")
    called_from: str | None = key("Outermost frame of the traceback; null if unknown.")


class ReadFile(Keys):
    name: str = key("File name; `standard input` or `command line` for other text.")
    lines: int = key("Number of lines.")
    bytes: int = key("Size, bytes.")


class ProcessEndValues(Keys):
    """How a process ended."""

    log: str = key("Log of the process.")
    rank: int | None = key("Rank; null if unknown.")
    host: str | None = key("Host in the name of the log or its folder; null if unknown.")
    end: Literal["exception", "signal", "error", "waited", "stopped", "finished", "running"] = key(
        "exception, signal, error: it failed; waited: timed out waiting for other ranks; stopped: others ended it."
    )
    reason: str | None = key("Line that tells the end; null without one.")
    line: int | None = key("Line number of the reason; null without one.")
    place: str | None = key("File and line in the source that raised the exception; null if unknown.")
    clock: str | None = key("Time of day of the end, as in the log; null without one.")
    last_step: int | None = key("Last step in the log; null if unknown.")
    waits_in: str | None = key("Collective operation in which it timed out; null if unknown.")
    names_ranks: list[int] = key("Ranks that it waited for; may be empty.")


class ExplainDocument(Keys, like=OutcomeDocument):
    verdict: Literal["finished", "failed", "running", "no_failure", "unknown", "explained"] = key(
        "Of logs: any but explained; running: no end found; no_failure: no error found. Of texts: explained, unknown."
    )
    summary: str | None = key("Which process failed first, and what it did to the others; null for a single process.")
    processes: list[ProcessEndValues] = key("How each process ended; may be empty.")
    first_failed: str | None = key("Log of the process that failed first; null if unknown.")
    diagnoses: list[DiagnosisValues] = key("Matching entries, causes first.")
    exception: RaisedExceptionValues | None = key("Last Python exception; null for none.")
    relevant_lines: list[LogLine] = key("Most relevant lines, if no entry explains the exit; may be empty.")
    files: list[ReadFile] = key("Files that were read.")
    notes: list[str] = key("Notes from the record of the run; may be empty.")


class EntryValues(Keys):
    name: str = key("Name of the entry.")
    kind: str = key("cause, symptom, summary or warning.")
    description: str = key("What went wrong.")
    codes: list[str] = key("Error codes that the entry explains; may be empty.")
    source: list[str] = key("Documents that describe it; may be empty.")


class EntriesDocument(Keys, like=NumberedDocument):
    entries: list[EntryValues] = key("All entries of the error catalogue.")


class RemarkValues(Keys):
    rule: str = key("Name of the rule.")
    severity: str = key("Severity of the issue.")
    line: int = key("First line, from 1.")
    column: int = key("First column, from 1, in characters.")
    end_line: int = key("Last line, from 1.")
    end_column: int = key("Column after the last character, from 1.")
    seen: str = key("The issue, in English.")
    evidence: str = key("The source line.")
    remedy: str = key("How to fix it; may be empty.")
    fix: bool = key("Whether `--write-fixed` fixes it.")
    origin: str = key("Tool that found it: envcheck or shellcheck.")
    page: str = key("Documentation of the rule: a URL, or a file of the source tree.")


class ReadingValues(Keys):
    kind: str = key("Language of the part: bash, yaml, json or dockerfile.")
    program: str | None = key("Program that reads it; null if unknown, or if it starts no training.")
    versions: str | None = key("Versions of the program whose options were compared; null for none.")
    parser: str | None = key("How the program parses its options; null if unknown.")
    not_checked: list[str] = key("Parts that were not checked, in English; may be empty.")


class LintDocument(Keys, like=OutcomeDocument):
    file: str = key("File that was checked.")
    readings: list[ReadingValues] = key("What the parts of the file were read as.")
    used_files: list[str] = key("Configurations that the file uses and that were not checked with it; may be empty.")
    device: str | None = key("Vendor that the file is for; null if unknown.")
    read: int = key("Scripts and configurations that were checked; 0 if the file contains none.")
    shellcheck: bool = key("Whether shellcheck ran.")
    findings: list[RemarkValues] = key("Issues, in the order of the file.")
    waived: list[RemarkValues] = key("Issues that a comment in the file waives.")
    job: JobValues | None = key("The job of the recipe that the script was generated from; null for none.")


class FileLintValues(Keys, like=LintDocument, without=("schema",)):
    """The result of one of several files."""


class UnreadableFile(Keys, like=OutcomeDocument, without=("schema",)):
    file: str = key("File that cannot be read.")


class LintFilesDocument(Keys, like=OutcomeDocument):
    files: list[FileLintValues] = key("Results of the files, in the order of the command line.")
    unreadable: list[UnreadableFile] = key("Files that cannot be read; may be empty.")
    skipped: int = key("Files of the folders that belong to no known program.")


class SimulatedMachine(Keys):
    name: str = key("Machine name.")
    title: str = key("Product name.")
    vendor: str = key("Vendor of the devices.")
    devices: int = key("Number of devices.")
    faults: list[str] = key("Faults that can be simulated on it.")


class SimulatedFault(Keys):
    name: str = key("Fault name.")
    summary: str = key("What is wrong with the machine.")
    value: str | None = key("What the value after `=` means; null if the fault takes none.")
    vendors: list[str] = key("Vendors whose machines can have the fault.")


class SimulateDocument(Keys, like=NumberedDocument):
    machines: list[SimulatedMachine] = key("Machines that can be simulated.")
    faults: list[SimulatedFault] = key("Faults that can be simulated.")


DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "error": (mark("envcheck COMMAND --json, if the command fails or rejects its arguments"), ErrorDocument, {}),
    "doctor": ("envcheck doctor --json", DoctorDocument, {}),
    "fleet": ("envcheck doctor --hosts --json", FleetDocument, {}),
    "doctor-checks": ("envcheck doctor --list-checks --json", ChecksDocument, {}),
    "doctor-thresholds": ("envcheck doctor --show-thresholds --json", ThresholdsDocument, {}),
    "snapshot": ("envcheck snapshot -o FILE", SnapshotDocument, {}),
    "explain": ("envcheck explain --json", ExplainDocument, {}),
    "explain-list": ("envcheck explain --list --json", EntriesDocument, {}),
    "lint": ("envcheck lint --json", LintDocument, {}),
    "lint-files": ("envcheck lint FILE FILE --json", LintFilesDocument, {}),
    "simulate": ("envcheck simulate --list --json", SimulateDocument, {}),
}
