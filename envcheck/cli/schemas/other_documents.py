"""The keys of what the commands print that have no document of a machine or a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas.check_documents import NumberedDocument, OutcomeDocument
from envcheck.cli.schemas.generate import Keys, key
from envcheck.cli.schemas.run_documents import TrainDocument
from envcheck.core.model import Status


class InferDocument(Keys, like=TrainDocument, without=("role", "job", "closed")):
    weights: str | None = key("a checkpoint or adapter; null for the model as published")


class CompletionDocument(Keys, like=NumberedDocument):
    shell: str
    script: str


class SchemaTitle(Keys):
    name: str
    title: str


class SchemasDocument(Keys, like=NumberedDocument):
    documents: list[SchemaTitle]


class LintRuleValues(Keys):
    name: str
    severity: str
    says: str


class LintRulesDocument(Keys, like=NumberedDocument):
    rules: list[LintRuleValues]


class RecordedDocument(Keys, like=NumberedDocument):
    file: str
    answers: int


class RecordedHost(Keys):
    status: Status
    seen: str


class RecordedHostsDocument(Keys, like=OutcomeDocument):
    folder: str
    hosts: dict[str, RecordedHost]


class SimulatedFolderDocument(Keys, like=NumberedDocument):
    folder: str


class PrologDocument(Keys, like=OutcomeDocument):
    node: str
    verdict: Literal["fit", "unfit", "unknown"]
    reason: str


class ScriptDocument(Keys, like=NumberedDocument):
    script: str


class ClosedGateValues(Keys):
    gate: str
    seen: str
    next_step: str
    evidence: list[str]


class VerdictDocument(Keys, like=OutcomeDocument):
    nodes: list[str]
    closed: dict[str, list[ClosedGateValues]]
    bad: list[str] = key("those of the closed that other nodes could replace")


DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "completion": ("envcheck completion SHELL --json", CompletionDocument, {}),
    "schemas": ("envcheck schema --json", SchemasDocument, {}),
    "lint-rules": ("envcheck lint --list-rules --json", LintRulesDocument, {}),
    "snapshot-file": ("envcheck snapshot -o FILE --json", RecordedDocument, {}),
    "snapshot-hosts": ("envcheck snapshot --hosts --json", RecordedHostsDocument, {}),
    "simulate-folder": ("envcheck simulate MACHINE --keep DIR --json", SimulatedFolderDocument, {}),
    "slurm-prolog": ("envcheck slurm prolog --json", PrologDocument, {}),
    "slurm-script": ("envcheck slurm prolog --as-script --json", ScriptDocument, {}),
    "slurm-verdict": ("envcheck slurm verdict --json", VerdictDocument, {}),
    "infer": ("envcheck infer --dry-run --json", InferDocument, {}),
}
