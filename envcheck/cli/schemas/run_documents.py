"""The keys of what train on this machine and on hosts prints, and of a run's record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas import submission_documents
from envcheck.cli.schemas.check_documents import NEXT, JobValues, NumberedDocument, OutcomeDocument
from envcheck.cli.schemas.generate import Keys, key, maybe
from envcheck.cli.schemas.submission_documents import KubernetesObject, NodeRequirement, PodEnd, SlurmComponent
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Remedy, Status


class GateValues(Keys):
    name: str
    status: Status
    seen: str
    remedy: Remedy | None = maybe()
    evidence: list[str] = maybe()
    source: str = maybe()
    device: str = maybe()
    blocked_by: str = maybe()
    waived: str = maybe()


class TrainDocument(Keys, like=OutcomeDocument):
    state: Literal["planned"]
    recipe: str
    model: str
    method: str
    variant: str
    role: str
    device: str
    job: JobValues
    closed: list[GateValues] = key("gates that are closed on this machine; [] where the job is for another one")
    title: str
    caution: list[str]
    container: list[str]
    folder: str
    sourced: list[str]
    requires: list[str]
    unset: list[str]
    environment: dict[str, str]
    prepend: dict[str, str]
    missing: dict[str, str]
    files: dict[str, str]
    command: list[str]
    outputs: list[str]
    script: str | None


class TrainHost(Keys):
    rank: int
    state: str
    exit_code: int
    seen: str
    record: RunDocument | None


class TrainHostsDocument(Keys, like=OutcomeDocument):
    verb: Literal["train"]
    result: Literal["ready", "refused", "finished", "failed", "interrupted"]
    first: str | None = maybe()
    hosts: dict[str, TrainHost] = maybe()
    gates: dict[str, list[NodeRequirement]] = maybe()


class RunSlurmPart(Keys):
    node: int
    state: str
    code: int | None
    folder: str


class RunSlurm(Keys):
    job: str
    nodes: int
    components: list[SlurmComponent]
    state: str = maybe()
    reason: str = maybe()
    on: str = maybe()
    parts: list[RunSlurmPart] = maybe()


class RunPod(Keys, like=PodEnd):
    log: list[str] = maybe()
    closed: list[str] = maybe()


class RunKubernetes(Keys, like=KubernetesObject):
    plural: str = maybe()
    version: str = maybe()
    context: str = maybe()
    server: str = maybe()
    uid: str
    state: str = maybe()
    pods: list[RunPod] = maybe()
    reason: str = maybe()


class RunExit(Keys):
    code: int | None = maybe()
    status: int | None = maybe()


class RunVariables(Keys):
    stale: list[str] = maybe()
    secret: list[str] = maybe()


class RunPlan(Keys):
    nodes: int | None
    processes: int | None
    steps: dict[str, int]
    parallel: dict[str, int] = maybe()
    data: list[Any] = maybe()


class RunVersions(Keys):
    envcheck: str
    python: str
    environment: str | None
    packages: dict[str, str | None]


class RunVendorFacts(Keys, like=VendorFacts):
    vendor: str


class RunFacts(Keys, like=Facts):
    vendors: list[RunVendorFacts]
    answers: dict[str, str]


class RunMemory(Keys):
    predicted_bytes: Any = maybe()
    measured_bytes: Any = maybe()


class RunOptions(Keys):
    into: str = maybe()
    recipes: str = maybe()


class RunPeakMemory(Keys):
    host: int = maybe()
    worker: float | None = maybe()


class CardPeaks(Keys):
    memory_mib: float = maybe()
    power_w: float = maybe()
    temperature_c: float = maybe()


class RunCards(Keys):
    peaks: dict[str, CardPeaks] = maybe()
    grown_mib: float | None = maybe()
    samples: int = maybe()
    untold: int = maybe()
    seconds: float = maybe()


class TalksWith(Keys):
    run: str | None
    weights: str | None


class TalkValues(Keys):
    how: str
    question: str
    answer: str
    ready_s: float | None
    answer_s: float | None
    lines: list[str]


class RunDocument(Keys, like=NumberedDocument):
    recipe: str = maybe()
    model: str = maybe()
    method: str = maybe()
    device: str = maybe()
    slurm: RunSlurm = maybe("of a job of Slurm's: its number, its state there, its nodes' parts")
    kubernetes: RunKubernetes = maybe(
        "of a job of a cluster: its kind, name, namespace, uid, where the cluster is; at its end the pods that failed"
    )
    state: str
    started: str | None = maybe()
    exit: RunExit | None = maybe()
    gates: list[GateValues] | None = maybe()
    pid: int | None = maybe()
    pid_began: float | None = maybe()
    folder: str | None = maybe()
    container: Any = maybe()
    command: list[str] | None = maybe()
    environment: dict[str, str] | None = maybe()
    left_out: RunVariables | None = maybe()
    proxies: list[str] | None = maybe()
    plan: RunPlan | None = maybe()
    versions: RunVersions | None = maybe()
    facts: RunFacts | None = maybe()
    memory: RunMemory | None = maybe()
    waived: list[Any] | None = maybe()
    said: RunOptions | None = maybe()
    seconds: float | None = maybe()
    first_failed_worker: Any = maybe()
    launcher_lines: list[Any] | None = maybe()
    loss: list[Any] | None = maybe()
    tokens_per_s: float | None = maybe()
    peak_memory_mib: RunPeakMemory | None = maybe()
    stopped: Any = maybe()
    left: list[int] = maybe()
    cards: RunCards | None = maybe()
    ended: str | None = maybe()
    error: str | None = maybe()
    checkpoints: list[Any] | None = maybe()
    diagnoses: list[Any] | None = maybe()
    talks_with: TalksWith = maybe("of infer: the run or the weights")
    talk: TalkValues | None = maybe("of infer --ask")
    exit_code: int = maybe()
    next: str = maybe(NEXT)


class RunSummary(Keys):
    id: str
    folder: str
    state: str
    recipe: str | None
    model: str | None
    method: str | None
    device: str | None
    container: Any
    started: str | None
    ended: str | None
    seconds: float | None
    exit: RunExit | None


class RunsDocument(Keys, like=NumberedDocument):
    runs: list[RunSummary]


UNSTARTED = {"properties": {"state": {"const": "unstarted"}}}
RUN = {"anyOf": [{"required": ["recipe", "model", "method", "device"]}, UNSTARTED]}

DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "train": ("envcheck train --dry-run --json", TrainDocument, {}),
    "train-hosts": ("envcheck train --hosts --json", TrainHostsDocument, {}),
    **submission_documents.DOCUMENTS,
    "run": ("envcheck train --json, envcheck infer --json, and envcheck runs show ID --json", RunDocument, RUN),
    "runs": ("envcheck runs --json", RunsDocument, {}),
}
