"""The documents of train on this machine and on hosts, and the record of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas import submission_documents
from envcheck.cli.schemas.check_documents import (
    NEXT,
    DiagnosisValues,
    JobValues,
    LogLine,
    MessageValues,
    NumberedDocument,
    OutcomeDocument,
    OwnJobValues,
)
from envcheck.cli.schemas.generate import Keys, key, optional_key
from envcheck.cli.schemas.submission_documents import KubernetesObject, NodeRequirement, PodEnd, SlurmComponent
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.messages import mark
from envcheck.core.model import Remedy, Status
from installers.recipes.published_differences import PublishedDifference


class GateValues(Keys):
    name: str = key("Name of the preflight check.")
    status: Status = key("Result of the check.")
    seen: str
    message: MessageValues = optional_key()
    remedy: Remedy | None = optional_key()
    evidence: list[str] = optional_key()
    checks: list[str] = optional_key("Checks of doctor that failed, with a line of evidence each.")
    source: str = optional_key()
    device: str = optional_key("Vendor that the check ran for; empty for a check of the host.")
    blocked_by: str = optional_key("Check that failed first, so that this one did not run; empty for none.")
    waived: str = optional_key("The waiver that applies, with its reason; empty for none.")


class TrainDocument(Keys, like=OutcomeDocument):
    state: Literal["planned"] = key("Always planned: nothing was started.")
    recipe: str
    model: str
    method: str
    variant: str
    role: str
    device: str
    job: JobValues
    failed_checks: list[GateValues] = key("Failed preflight checks; empty if the job is for another machine.")
    title: str = key("What the job does.")
    caution: list[str]
    container: list[str] = key("Command that starts the container; empty for none.")
    folder: str = key("Working directory of the job; empty for the start folder.")
    sourced: list[str] = key("Scripts that are sourced before the start.")
    requires: list[str]
    unset: list[str]
    environment: dict[str, str]
    prepend: dict[str, str]
    missing: dict[str, str] = key("Values that the user must set: variable of the script and meaning, by placeholder.")
    files: dict[str, str] = key("Files that are written before the start: their text by path.")
    command: list[str] = key("Command that starts the training.")
    outputs: list[str]
    differences: list[PublishedDifference] = key("Differences from the published document; empty for none.")
    option_changes: list[str] = key("Options that the installed version has otherwise; empty for none.")
    assumed: list[str] = key("What the memory plan assumes; may be empty.")
    script: str | None = key("The shell script; null if it was not requested.")


class TrainHost(Keys):
    rank: int = key("Node rank.")
    state: str = key("State of the run on this host; lost, unreached or not-started if it sent no record.")
    exit_code: int = key("Exit code of the command on the host.")
    seen: str = key("Why, in one sentence; may be empty.")
    record: RunDocument | None = key("Record of the run on this host; null if it sent none.")


class HostRestart(Keys):
    host: str = key("Host that failed first.")
    fault: str = key("Fault of the infrastructure that ended the run.")


class TrainHostsDocument(Keys, like=OutcomeDocument):
    verb: Literal["train"] = key("The command.")
    result: Literal["ready", "refused", "succeeded", "failed", "stopped"] = key("How the command ended.")
    first: str | None = optional_key("Host that failed first; null for none.")
    restarts: list[HostRestart] = optional_key("Faults after which `--restart` started the run again.")
    hosts: dict[str, TrainHost] = optional_key("How the run ended on each host.")
    gates: dict[str, list[NodeRequirement]] = optional_key("Preflight checks by host.")


class RunSlurmPart(Keys):
    node: int = key("Node number in the job, from 0.")
    state: str = key("State of the run on this node.")
    code: int | None = key("Exit code of envcheck on this node; null if unknown.")
    folder: str = key("Folder of this node's record.")


class RunSlurm(Keys):
    job: str = key("Slurm job id.")
    nodes: int = key("Number of nodes.")
    components: list[SlurmComponent] = key("Components of the job: nodes with the same devices.")
    state: str = optional_key("Slurm's state of the job.")
    reason: str = optional_key("Slurm's reason for the state; empty for none.")
    node_list: str = optional_key("Nodes that the job runs on, in folded form; empty for none.")
    parts: list[RunSlurmPart] = optional_key("How the run ended on each node.")


class RunKubernetes(Keys, like=KubernetesObject):
    plural: str = optional_key("Plural of the kind, as in URLs of the API.")
    version: str = optional_key("API version of the kind, such as batch/v1.")
    context: str = optional_key("Context of the kubeconfig; empty in a pod.")
    server: str = optional_key("URL of the API server.")
    uid: str = key("Uid of the object; empty before it exists.")
    state: str = optional_key("State of the job in the cluster.")
    pods: list[PodEnd] = optional_key("Pods that failed.")
    reason: str = optional_key("Reason that the cluster gives for the state; may be empty.")


class RunExit(Keys):
    code: int | None = optional_key("Exit code of envcheck; null if unknown.")
    status: int | None = optional_key(
        "Exit status of the launcher, minus the signal number if a signal ended it; null if it did not end by itself."
    )


class RunVariables(Keys):
    stale: list[str] = optional_key("Left by earlier jobs.")
    secret: list[str] = optional_key("They contain secrets.")


class RunPlan(Keys):
    nodes: int | None = key("Number of nodes; null if unknown.")
    processes: int | None = key("Processes on each node; null if unknown.")
    steps: dict[str, int] = key("Training steps: max, warmup, save, eval.")
    parallel: dict[str, int] = optional_key("Parallel degrees: tensor, pipeline, sharding, data.")
    data: list[str] = optional_key("Paths of the data sets.")
    devices: list[int] = optional_key("Numbers of the devices on this node, as the vendor's tool counts them.")


class RunVersions(Keys):
    envcheck: str = key("Version of envcheck.")
    python: str = key("Python version of envcheck.")
    environment: str | None = key("Python version of the training; null if unknown.")
    packages: dict[str, str | None] = key("Versions of the training packages by name; a missing one is null.")


class RunVendorFacts(Keys, like=VendorFacts):
    vendor: str = key("Name of the vendor.")


class RunFacts(Keys, like=Facts):
    vendors: list[RunVendorFacts] = key("Vendors whose devices were found; empty: checked as a CPU-only machine.")
    answers: dict[str, str] = key("Outcome of each question to the host, such as answered or absent, by question.")


class RunMemory(Keys):
    predicted_bytes: int | None = optional_key("Predicted peak memory of the fullest device, bytes; null if unknown.")
    measured_bytes: int | None = optional_key("Measured peak memory of the fullest device, bytes; null if unknown.")


class RunOptions(Keys):
    into: str = optional_key("Folder of `--into`.")
    recipes: str = optional_key("Folder of `--recipes`.")


class RunPeakMemory(Keys):
    host: int = optional_key("Peak host memory of all processes, MiB.")
    worker: float | None = optional_key("Peak device memory that a worker reported, MiB; null if none did.")


class CardPeaks(Keys):
    memory_mib: float = optional_key("Highest used memory, MiB.")
    power_w: float = optional_key("Highest power draw, watts.")
    temperature_c: float = optional_key("Highest temperature, degrees Celsius.")


class RunCards(Keys):
    peaks: dict[str, CardPeaks] = optional_key("Highest values of each device, by its name.")
    increase_mib: float | None = optional_key(
        "Largest increase of used memory on one device since the start, MiB; null if unknown."
    )
    samples: int = optional_key("Times that the vendor tool was run.")
    failed_samples: int = optional_key("Runs of the vendor tool without a usable answer.")
    seconds: float = optional_key("Total run time of the vendor tool, seconds.")


class ChatSource(Keys):
    run: str | None = key("Run id of the trained model; null for none.")
    weights: str | None = key("Checkpoint or adapter; null for the model as published.")


class ChatValues(Keys):
    outcome: str = key("How the dialogue ended: answered, empty, traceback, silent, unready, ended or flood.")
    question: str = key("The question.")
    answer: str = key("The answer; empty for none.")
    ready_s: float | None = key("Time to the first prompt, seconds; null if none came.")
    answer_s: float | None = key("Time from the question to the answer, seconds; null if none came.")
    lines: list[str] = key("Last lines of output; may be empty.")


class RunWorker(Keys):
    rank: int = key("Rank of the worker on its node.")
    code: int | None = key("Exit status, minus the signal number if a signal ended it; null if unknown.")
    lines: list[str] = key("Last lines of its log; may be empty.")
    follows: bool = key("Whether no worker failed by itself; this one lost its connection first.")
    log: str = key("Path of its log below the folder `log` of the run; empty for none.")
    shared: bool = key("Whether the lines come from a log that all workers share.")


class RunEvidence(Keys, like=LogLine):
    time: float | None = key("Time of the line, seconds since the epoch; null if it has none.")
    ours: str = key("The end of the line that envcheck added to explain a code; empty for none.")
    about: str = key("The pod or other Kubernetes object that the line is about; empty for none.")


class RunDiagnosis(Keys, like=DiagnosisValues, without=("remedy",)):
    do: str = key("What to do, in one or two sentences.")
    commands: list[str]
    caused_by: str = key("Entry that caused this one; empty if it is a cause itself.")
    evidence: list[RunEvidence] = key("First matching lines.")
    named: list[tuple[str, str]] = key("Values from the line that its texts use, as [name, value].")
    installed: list[str] = optional_key("Versions of the packages in question that the log prints.")


RunState = Literal[
    "starting", "running", "queued", "orphaned", "lost", "refused", "ready", "succeeded", "failed", "stopped",
    "unstarted", "unknown",
]  # fmt: skip


class RunLauncher(Keys):
    pid: int = optional_key("Process id of the process above the launcher, which keeps its exit status.")
    pid_started: float = optional_key("Start time of that process, seconds since the epoch.")
    mark: str = optional_key("Value of ENVCHECK_RUN of the training's processes in its container.")


class RunTracker(Keys):
    kind: Literal["tensorboard", "visualdl", "wandb", "swanlab"] = key("Name of the tracker.")
    path: str = optional_key("Folder that its viewer opens.")
    link: str = optional_key("Its page of the run.")


class RunResumed(Keys):
    run: str = key("Id of the run.")
    checkpoint: str = key("Folder of the checkpoint.")


class RunWatchOptions(Keys):
    no_stop: list[str] = key("Disabled stop rules.")
    stop: list[str] = optional_key("Warnings that end the run.")
    limits: list[str] = key("Changed limits of stop rules, as RULE.NAME=VALUE.")
    deadline_s: float | None = key("Time limit in seconds; null for none.")


class RunDocument(Keys, like=NumberedDocument):
    recipe: str = optional_key()
    model: str = optional_key()
    method: str = optional_key()
    device: str = optional_key()
    own: OwnJobValues = optional_key("The user's own job; missing for a job of a recipe.")
    slurm: RunSlurm = optional_key("The Slurm job; only with `--on slurm`.")
    kubernetes: RunKubernetes = optional_key("The Kubernetes job; only with `--on k8s`.")
    state: RunState = key("State of the run; ready: with `--gates`, all preflight checks passed.")
    stop_reason: Literal["user", "rule", "deadline"] | None = optional_key(
        "Why a stopped run was stopped: by a user, by a stop rule or at its time limit; null for any other end."
    )
    started: str | None = optional_key()
    exit: RunExit | None = optional_key()
    gates: list[GateValues] = optional_key("Results of the preflight checks.")
    pid: int = optional_key("Process id of the envcheck that supervises the run.")
    pid_started: float = optional_key("Start time of that process, seconds since the epoch.")
    host: str = optional_key("Name of the host that the run was started on.")
    launcher: RunLauncher = optional_key("How the training's processes are found without the supervisor.")
    cards_used: list[str] = optional_key("Devices of the job, as the vendor tool numbers them; empty if unknown.")
    watch: RunWatchOptions = optional_key("Options of the supervision.")
    request: list[str] = optional_key("Options of `envcheck train` that repeat the run; secrets are redacted.")
    resumed_from: RunResumed | None = optional_key("What the run continues; null if it starts from the beginning.")
    trackers: list[RunTracker] = optional_key("Where experiment trackers keep the curves of the run.")
    restarted_as: str = optional_key("Id of the run that `--restart` started after this one.")
    adopted: list[str] = optional_key("Times at which `envcheck runs adopt` took over the run.")
    folder: str = optional_key("Folder of the run.")
    container: str | None = optional_key()
    command: list[str] = optional_key("Command that started the training; secrets are redacted.")
    environment: dict[str, str] = optional_key()
    dropped_variables: RunVariables = optional_key("Names of the environment variables that were not passed on.")
    proxies: list[str] = optional_key("Names of the proxy variables that were passed on.")
    plan: RunPlan = optional_key("Size of the job.")
    versions: RunVersions = optional_key("Versions of Python and of the packages.")
    facts: RunFacts = optional_key("Facts about the host.")
    memory: RunMemory = optional_key("Predicted and measured peak memory of one device.")
    waived: list[str] = optional_key("Names of the preflight checks that were waived.")
    options: RunOptions = optional_key("Options that are needed to repeat the run.")
    seconds: float | None = optional_key()
    first_failed_worker: RunWorker | None = optional_key("The worker that failed first; null for none.")
    launcher_lines: list[str] = optional_key("Last lines of the launcher; empty if the run succeeded.")
    loss: list[tuple[int | None, float | Literal["inf", "-inf"] | None]] = optional_key(
        "Loss as [step, loss]; an unknown step and a loss that is no number are null."
    )
    tokens_per_s: float | None = optional_key("Median throughput of the job, tokens per second; null if unknown.")
    peak_memory_mib: RunPeakMemory = optional_key("Highest memory use.")
    stopped: GateValues | None = optional_key("Finding of the stop rule that ended the run; null for none.")
    warnings: list[GateValues] = optional_key("Warnings about the training; empty for none.")
    leftover_pids: list[int] = optional_key(
        "Process ids that are still alive after the run, such as those that hang in a driver."
    )
    cards: RunCards = optional_key("Highest values that the vendor tool showed.")
    ended: str | None = optional_key()
    error: str | None = optional_key("What is wrong, in one sentence; null if nothing is.")
    error_message: MessageValues = optional_key("Template and values of `error`.")
    checkpoints: list[str] = optional_key("Paths of the checkpoints, the oldest first.")
    diagnoses: list[RunDiagnosis] = optional_key("Entries of the error catalogue that match the logs.")
    chat_source: ChatSource = optional_key("With `envcheck infer`: the model.")
    chat: ChatValues | None = optional_key("With `envcheck infer --ask`: the dialogue; null if it did not start.")
    exit_code: int = optional_key("Exit code of the command.")
    next: str = optional_key(NEXT)


class RunSummary(Keys):
    id: str = key("Run id, as in `envcheck runs show ID`.")
    folder: str = key("Folder of the run.")
    state: str = key("State of the run, as in the document `run`.")
    recipe: str | None = key("Recipe name; null if unknown.")
    model: str | None = key("Model name; null if unknown.")
    method: str | None = key("Training method; null if unknown.")
    device: str | None = key("Vendor of the devices; null if unknown.")
    container: str | None
    started: str | None
    ended: str | None
    seconds: float | None
    exit: RunExit | None


class RunsDocument(Keys, like=NumberedDocument):
    runs: list[RunSummary] = key("Runs, the newest first.")


class ComparedRun(Keys):
    id: str = key("Run id.")
    folder: str = key("Folder of the run.")
    state: str = key("State of the run, as in the document `run`.")


class ComparedValue(Keys):
    area: str = key("What differs: job, option, environment, plan, package or version.")
    name: str = key("Name of the value.")
    first: str | None = key("Value of the first run; null if not set.")
    second: str | None = key("Value of the second run; null if not set.")


class ComparedResult(Keys):
    name: str = key("Name of the measured value.")
    first: float | Literal["inf", "-inf"] | None = key("Value of the first run; null if unknown.")
    second: float | Literal["inf", "-inf"] | None = key("Value of the second run; null if unknown.")
    change: float | None = key("Relative difference of the second run; null if unknown.")


class RunComparisonDocument(Keys, like=NumberedDocument):
    runs: list[ComparedRun] = key("The two runs.")
    differences: list[ComparedValue] = key("Values of the configuration that differ.")
    results: list[ComparedResult] = key("Measured values of both runs.")


UNSTARTED = {"properties": {"state": {"const": "unstarted"}}}
RUN = {"anyOf": [{"required": ["recipe", "model", "method", "device"]}, UNSTARTED]}

DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "train": ("envcheck train --dry-run --json", TrainDocument, {}),
    "train-hosts": ("envcheck train --hosts --json", TrainHostsDocument, {}),
    **submission_documents.DOCUMENTS,
    "run": (mark("envcheck train --json, envcheck infer --json, and envcheck runs show ID --json"), RunDocument, RUN),
    "runs": ("envcheck runs --json", RunsDocument, {}),
    "runs-compare": ("envcheck runs compare A B --json", RunComparisonDocument, {}),
}
