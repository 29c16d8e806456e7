"""The documents of the commands that describe neither a machine nor a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas.check_documents import MessageValues, NumberedDocument, OutcomeDocument
from envcheck.cli.schemas.generate import Keys, key, optional_key
from envcheck.cli.schemas.run_documents import TrainDocument
from envcheck.core.model import Status

OF_DRY_RUN = ("differences", "option_changes", "assumed")


class InferDocument(Keys, like=TrainDocument, without=("role", "job", "failed_checks", *OF_DRY_RUN)):
    weights: str | None = key("Checkpoint or adapter; null for the model as published.")


class InitJob(Keys):
    model: str = key("Name of the model.")
    method: str = key("Name of the method.")
    device: str = key("Type of the devices.")


class InitDocument(Keys, like=NumberedDocument):
    file: str = key("Path of the file that was written.")
    job: InitJob = key("Its table [job].")
    commands: list[str] = key("The commands to run next.")


class CompletionDocument(Keys, like=NumberedDocument):
    shell: str = key("Shell: bash, zsh or fish.")
    script: str = key("The completion script.")


class SchemaTitle(Keys):
    name: str = key("Name of the document, as in `envcheck schema NAME`.")
    title: str = key("Command that prints the document.")


class SchemasDocument(Keys, like=NumberedDocument):
    documents: list[SchemaTitle] = key("All documents.")


class LintRuleValues(Keys):
    name: str = key("Name of the rule.")
    severity: str = key("Severity of the issue.")
    description: str = key("The issue that the rule finds.")


class LintRulesDocument(Keys, like=NumberedDocument):
    rules: list[LintRuleValues] = key("All rules.")


class RecordedDocument(Keys, like=NumberedDocument):
    file: str = key("Path of the snapshot.")
    answers: int = key("Number of answers in it.")


class RecordedHost(Keys):
    status: Status = key("Whether the host was recorded.")
    seen: str = key("What was recorded, or why it was not.")


class RecordedHostsDocument(Keys, like=OutcomeDocument):
    folder: str = key("Folder of the snapshots.")
    hosts: dict[str, RecordedHost] = key("Result by host.")


class SimulatedFolderDocument(Keys, like=NumberedDocument):
    folder: str = key("Folder of the simulated tools and files.")


class PrologDocument(Keys, like=OutcomeDocument):
    node: str = key("Name of the node.")
    verdict: Literal["healthy", "unhealthy", "unknown"] = key("Whether the node can run jobs.")
    reason: str = key("Why, in one line; empty if it can.")


class ScriptDocument(Keys, like=NumberedDocument):
    script: str = key("The prolog script.")


class FailedCheckValues(Keys):
    name: str = key("Name of the preflight check.")
    seen: str
    message: MessageValues = optional_key()
    next: str = key("What to do; may be empty.")
    evidence: list[str]
    checks: list[str] = key("Checks of doctor that failed, with a line of evidence each.")


class VerdictDocument(Keys, like=OutcomeDocument):
    nodes: list[str] = key("All nodes of the job.")
    failed_checks: dict[str, list[FailedCheckValues]] = key(
        "Failed preflight checks by node; nodes without are left out."
    )
    bad_nodes: list[str] = key("Nodes with failed checks that other nodes could replace.")


class CreatedRecipeDocument(Keys, like=NumberedDocument):
    name: str = key("Name of the recipe, as in `--recipe`.")
    file: str | None = key("File that was written; null if none was.")
    text: str = key("The recipe, as TOML.")


DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "completion": ("envcheck completion SHELL --json", CompletionDocument, {}),
    "recipe-file": ("envcheck recipes create --json", CreatedRecipeDocument, {}),
    "schemas": ("envcheck schema --json", SchemasDocument, {}),
    "lint-rules": ("envcheck lint --list-rules --json", LintRulesDocument, {}),
    "snapshot-file": ("envcheck snapshot -o FILE --json", RecordedDocument, {}),
    "snapshot-hosts": ("envcheck snapshot --hosts --json", RecordedHostsDocument, {}),
    "simulate-folder": ("envcheck simulate MACHINE --keep DIR --json", SimulatedFolderDocument, {}),
    "slurm-prolog": ("envcheck slurm prolog --json", PrologDocument, {}),
    "slurm-script": ("envcheck slurm prolog --as-script --json", ScriptDocument, {}),
    "slurm-verdict": ("envcheck slurm verdict --json", VerdictDocument, {}),
    "init": ("envcheck init --json", InitDocument, {}),
    "infer": ("envcheck infer --dry-run --json", InferDocument, {}),
}
