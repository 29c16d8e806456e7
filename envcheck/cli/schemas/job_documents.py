"""The documents of plan, provision, bundle and pyz, and the job in other documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas.check_documents import JobValues, MessageValues, NumberedDocument, OutcomeDocument
from envcheck.cli.schemas.generate import Keys, key, optional_key
from envcheck.core.messages import mark
from installers.bundle.assembly import BundlePart
from installers.plan.requirement import Obstacle
from installers.recipes.container_spec import ContainerSpec
from installers.recipes.manual_steps import ManualStep
from installers.recipes.recipe import PublishedDriverFile


class PlanLayout(Keys):
    tp: int = key("Tensor parallel degree.")
    pp: int = key("Pipeline stages.")
    vpp: int = key("Virtual pipeline stages of each device.")
    ep: int = key("Expert parallel degree.")
    cp: int = key("Context parallel degree.")
    cards: int = key("Devices of the whole job.")


class PlanPeak(Keys):
    phase: str = key("Phase of a training step, such as backward.")
    stage: int = key("Pipeline stage, from 0.")


class PlanNeed(Keys):
    minimum: int = key("Lower bound, bytes.")
    expected: int = key("Expected value, bytes.")
    maximum: int = key("Upper bound, bytes; this must fit.")


class PlanPhase(Keys):
    phase: str = key("Phase of a training step, such as backward.")
    stage: int = key("Pipeline stage, from 0.")
    bytes: dict[str, int] = key("Bytes by kind of tensor, such as weights or gradients.")


class PlanHeadroom(Keys):
    seq_len: int = key("Longest sequence that fits, tokens.")
    micro_batch: int = key("Largest micro batch that fits, samples.")
    min_cards: int = key("Fewest devices that are enough.")
    min_cards_options: str = key("Options for that number of devices; empty if it is the current one.")


class PlanInterval(Keys):
    low: int = key("Lower end, bytes.")
    high: int = key("Upper end, bytes.")


class PlanOpenInput(Keys):
    name: str = key("The input that was not given.")
    settings: str = key("Options and keys that settle it.")
    low_bytes: int = key("Smallest peak of one device over its values, bytes.")
    high_bytes: int = key("Largest peak of one device over its values, bytes.")


class PlanChange(Keys):
    options: str = key("Options to add to the command.")
    description: str = key("What changes.")
    framework_options: list[str] = key("Settings of the framework with the same effect; empty if unknown.")
    need_bytes: int = key("Peak memory of one device with this change, bytes.")
    step_time_ratio: float = key(
        "Step time relative to the current one, for the same number of tokens; 1.2 is 20 % slower."
    )


class PlanHost(Keys):
    cards: int = key("Devices on the host.")
    device: str = key("Device type, as in the planner's catalogue.")
    memory_gib: float = key("Memory of one device, GiB.")
    free_gib: float = key("Free memory of the fullest device, GiB.")
    limiting: bool = key("Whether this host has the least free memory.")


class PlanCard(Keys):
    card: int = key("Device index in the vendor tool's list.")
    memory_gib: float = key("Memory of one device, GiB.")
    free_gib: float = key("Free memory of the device, GiB.")
    used_by_job: bool = key("Whether the job uses the device.")
    limiting: bool = key("Whether this device has the least free memory of those that the job uses.")
    verdict: str = key("Verdict if all devices of the job had as much free memory as this one.")


class PlanDocument(Keys, like=OutcomeDocument):
    verdict: str = key("fits, does-not-fit or unknown.")
    reason: str = key("Why, in one sentence.")
    model: str = optional_key()
    parameters: int = optional_key("Parameters of the model.")
    framework: str = optional_key()
    device: str = optional_key("Device type, as in the planner's catalogue.")
    layout: PlanLayout = optional_key("Parallel layout of the job.")
    peak: PlanPeak = optional_key("Phase and pipeline stage with the highest peak.")
    need_bytes: PlanNeed = optional_key("Peak memory of one device.")
    interval_bytes: PlanInterval = optional_key("Bounds within which about 9 of 10 published readings lie.")
    usable_bytes: int = optional_key("Memory of one device that tensors can use, bytes.")
    other_bytes: dict[str, int] = optional_key("Other memory of one device by use, such as context, bytes.")
    meter_bytes: int = optional_key("Peak that the memory meter of the job shows on one device, bytes.")
    host_bytes_per_node: int = optional_key("Host memory on each node, bytes.")
    disk_bytes_per_node: int = optional_key("Disk space on each node, bytes.")
    cards: list[PlanCard] = optional_key("Each device of this machine; empty for described hardware.")
    assumed: list[str] = optional_key("Assumptions that the options do not state.")
    open_inputs: list[PlanOpenInput] = optional_key("Inputs that were not given and change the peak.")
    phases: list[PlanPhase] = optional_key("Memory of one device in each phase and pipeline stage.")
    headroom: PlanHeadroom = optional_key("Limits within which the job still fits; only if it fits.")
    changes: list[PlanChange] = optional_key(
        "Changes after which the job fits, those with the same cards and model first; only if it does not fit."
    )
    published: list[str] = optional_key("Published recipes of this model for such devices.")
    hosts: dict[str, PlanHost] = optional_key("With `--hosts`: the devices by host.")
    excluded_hosts: dict[str, str] = optional_key("With `--hosts`: hosts that were excluded, and why.")
    job: JobValues | None = key("The recipe's job on this machine; null without a recipe.")


PLANNED = [
    "model", "parameters", "framework", "device", "layout", "peak", "need_bytes", "usable_bytes", "other_bytes",
    "meter_bytes", "host_bytes_per_node", "disk_bytes_per_node", "cards", "assumed", "phases",
]  # fmt: skip


class LayoutValues(Keys):
    options: str = key("The layout as options of `envcheck plan`.")
    verdict: str = key("fits, does-not-fit or unknown.")
    need_bytes: int = key("Peak memory of one device, bytes.")
    step_s: float = key("Predicted step time, seconds.")
    tokens_per_second: int = key("Predicted throughput of the whole job.")
    requested: bool = key("Whether this is the layout of the command.")
    pareto_optimal: bool = key("Whether no other layout is both faster and smaller.")


class CardGroup(Keys):
    ranks: int = key("Number of devices.")
    apart: int = key("Distance between two neighbours in the list of devices.")
    gbs: float = key("Bandwidth from one device to the others, GB/s.")
    kind: str = key("Kind of link.")


class LayoutsDocument(Keys, like=OutcomeDocument):
    step_samples: int = key("Samples of one step.")
    links: list[CardGroup] | None = key("Bandwidth between the devices of this machine; null if unknown.")
    layouts: list[LayoutValues] = key("Layouts, the fastest first.")


class PointValues(Keys):
    value: float | str = key("Value of the option.")
    verdict: str = optional_key("fits, does-not-fit or unknown.")
    need_bytes: int = optional_key("Peak memory of one device, bytes.")
    framework: str = optional_key("Framework, given or assumed.")
    options: str = optional_key("The layout as options of `envcheck plan`.")
    error: str = optional_key("Why this value is invalid; only if it is.")


class PointsDocument(Keys, like=OutcomeDocument):
    points: list[PointValues] = key("Result for each value of the option.")


class ModelValues(Keys):
    name: str = key("Model name, as in `--model`.")
    hub_id: str = key("Name of the repository on the hub.")
    parameters: int = key("Parameters of the model.")
    alias: str | None = key("Short name; null for none.")


class ModelsDocument(Keys, like=NumberedDocument):
    models: list[ModelValues] = key("All models of the planner's catalogue.")


class ProvisionContainer(Keys, like=ContainerSpec):
    cards: str = key("How the container gets access to the devices.")
    as_published: bool = key("Whether the options of the published document are used unchanged.")
    verified: bool = key("Whether these options were verified on this host.")
    creates_directories: list[str] = key("Folders that are created for the mounts; may be empty.")


class ProvisionStep(Keys):
    name: str = key("Kind of step, such as packages.")
    title: str = key("What the step does.")
    why: str = key("Why it is necessary.")
    changes: str = key("What it changes on the machine.")
    undo: str = key("How to undo it.")
    size_mib: float | None = optional_key("Approximate download, MiB; null if unknown.")
    seconds: float | None = optional_key("Approximate duration, seconds; null if unknown.")
    root: bool = key("Whether it must run as root.")
    root_why: str = optional_key("Why it must run as root; empty if it need not.")
    packages: list[str] = optional_key("Packages that are installed; may be empty.")
    container: ProvisionContainer = optional_key("The container that is created.")


class RejectedRecipe(Keys):
    recipe: str
    why: str = key("What this machine lacks for it.")


class PerformedStep(Keys):
    step: str = key("Kind of step, such as packages.")
    summary: str = key("What was done.")


class DriverValues(Keys):
    title: str = key("What the file installs.")
    file: str = key("Path of the installer.")
    size_bytes: int = key("Size of the file, bytes.")
    version: str | None = key("Version in the file; null if unknown.")
    installed: str | None = key("Installed version; null for none.")
    minimum: str | None = key("Oldest version that the recipe accepts; null for any.")
    sha256: str
    sha256_source: str = key("Source of the trusted checksum: locked, given or published; empty for none.")
    argv: list[str] = key("Command that runs the installer.")
    licence: str = key("Licence that the user must accept; empty for none.")
    reboot: bool = key("Whether a reboot may be required.")
    undo: list[str] = key("Command that removes the driver.")
    caution: list[str]
    log: str = key("Log file of the installer; empty for none.")


class FetchedDriver(Keys):
    title: str = key("What the file installs.")
    file: PublishedDriverFile = key("The file that the vendor publishes.")
    minimum: str | None = key("Oldest version that the recipe accepts; null for any.")
    installed: str | None = key("Installed version; null for none.")
    up_to_date: bool = key("Whether the installed version suffices, so that nothing is downloaded.")


ProvisionResult = Literal["ready", "planned", "done", "declined", "manual", "removed", "absent", "failed"]


class ProvisionDocument(Keys, like=OutcomeDocument):
    verb: Literal["provision"] = key("The command.")
    result: ProvisionResult = key("How the command ended.")
    recipe: str | None = key("Recipe name; null if no recipe fits this machine.")
    folder: str | None = key("Folder of the environment; null if no recipe fits this machine.")
    container: str = optional_key("Name of the recipe's container; empty for none.")
    job: JobValues | None = optional_key("The job that the environment is for; null for none.")
    assumed_host: str = optional_key("Host that the job is resolved for; empty for this machine.")
    reason: str = optional_key("Why this recipe was selected; empty if it was named.")
    site: dict[str, str] = optional_key("Effective settings of the site, by key of envcheck.toml; secrets are `***`.")
    satisfied: list[str] = key("Requirements that are met already.")
    steps: list[ProvisionStep] = key("Steps to carry out, in order.")
    manual_steps: list[ManualStep] = key("Steps that the user must do.")
    skipped: list[str] = optional_key("Optional parts that were not requested.")
    notes: list[str] = optional_key("Notes that block nothing.")
    rejected_recipes: list[RejectedRecipe] = optional_key(
        "If no recipe fits this machine: what it lacks for each recipe."
    )
    obstacle: Obstacle | None = key("First obstacle; null for none.")
    obstacles: list[Obstacle] = key("Everything that blocks the installation.")
    performed: list[PerformedStep] = key("Steps that were carried out.")
    undetermined: list[str] = optional_key("Requirements of the driver that could not be checked.")
    driver: DriverValues | None = optional_key("The driver installer; null if the file was not read.")
    removes: list[str] = optional_key("With `--undo`: what is removed.")
    kept: list[str] = optional_key("With `--undo`: what is kept, and why.")
    fetch: FetchedDriver = optional_key("With `--install-driver fetch`: the file to download.")
    messages: dict[str, MessageValues] = optional_key("Template and values of the texts in this document, by text.")


HostState = Literal[
    "planned", "ready", "manual", "blocked", "unreached", "refused", "declined", "done", "failed", "lost",
    "interrupted", "not-started", "removed", "absent",
]  # fmt: skip


class ProvisionHost(Keys):
    state: HostState = key("How the command ended on the host.")
    exit_code: int = key("Exit code of the command on the host.")
    seen: str = key("Why, in one sentence; may be empty.")
    step: str = key("Step that started last; empty for none.")
    journal: str = key("Path of the journal on the host; empty for none.")
    document: ProvisionDocument | None = key("The host's own document; null if it sent none.")


class ProvisionHostsDocument(Keys, like=OutcomeDocument):
    verb: Literal["provision"] = key("The command.")
    result: Literal["ready", "planned", "declined", "done", "failed", "interrupted"] = key("How the command ended.")
    exit_code: int = key("Exit code of the command.")
    hosts: dict[str, ProvisionHost] = key("How each host ended.")


class BundleDocument(Keys, like=NumberedDocument):
    verb: Literal["bundle"] = key("The command.")
    result: Literal["planned", "done"] = key("How the command ended.")
    recipe: str
    file: str = key("Path of the bundle.")
    architecture: str = key("CPU architecture of the target hosts.")
    python: str | None = key("Python version of the target hosts; null for that of the image.")
    size_mib: float = key("Approximate size, MiB.")
    size_bytes: int | None = key("Size, bytes; null if it was not written.")
    parts: list[BundlePart] = key("What the bundle contains.")


class PyzDocument(Keys, like=NumberedDocument):
    verb: Literal["pyz"] = key("The command.")
    result: Literal["done"] = key("How the command ended.")
    file: str = key("Path of the file.")
    version: str = key("Version of envcheck.")
    size_bytes: int = key("Size, bytes.")
    sha256: str = key("SHA-256 of the file, hexadecimal.")
    machines: list[str] = key("CPU architectures for which the file contains psutil.")
    missing: list[str] = key("CPU architectures for which psutil is missing.")


JOB = mark("envcheck train --dry-run --json, as the key job; also in doctor, plan, provision and recipes show")
DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "job": (JOB, JobValues, {}),
    "plan": ("envcheck plan --json", PlanDocument, {"anyOf": [{"required": PLANNED}, {"required": ["error"]}]}),
    "plan-layouts": ("envcheck plan --search --json", LayoutsDocument, {}),
    "plan-points": ("envcheck plan --sweep NAME=A..B --json", PointsDocument, {}),
    "plan-models": ("envcheck plan --list-models --json", ModelsDocument, {}),
    "provision": ("envcheck provision --json", ProvisionDocument, {}),
    "provision-hosts": ("envcheck provision --hosts --json", ProvisionHostsDocument, {}),
    "bundle": ("envcheck bundle --json", BundleDocument, {}),
    "pyz": ("envcheck pyz --json", PyzDocument, {}),
}
