"""The keys of what plan, provision and bundle print, and of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas.check_documents import JobValues, NumberedDocument, OutcomeDocument
from envcheck.cli.schemas.generate import Keys, key, maybe
from installers.bundle.make import Part
from installers.plan.requirement import Obstacle
from installers.recipes.by_hand import ByHand
from installers.recipes.container_spec import Spec
from installers.recipes.recipe import DriverFile


class PlanLayout(Keys):
    tp: int
    pp: int
    vpp: int
    ep: int
    cp: int
    cards: int


class PlanDeciding(Keys):
    phase: str
    stage: int


class PlanNeed(Keys):
    least: int
    expected: int
    most: int


class PlanPhase(Keys):
    phase: str
    stage: int
    bytes: dict[str, int]


class PlanRoom(Keys):
    seq_len: int
    micro_batch: int
    least_cards: int
    least_cards_options: str


class PlanChange(Keys):
    options: str
    what: str
    need_bytes: int
    slower: float


class PlanHost(Keys):
    cards: int
    device: str
    memory_gib: float
    free_gib: float
    decides: bool


class PlanDocument(Keys, like=OutcomeDocument):
    verdict: str
    reason: str
    model: str = maybe()
    parameters: int = maybe()
    framework: str = maybe()
    device: str = maybe()
    layout: PlanLayout = maybe()
    deciding: PlanDeciding = maybe()
    need_bytes: PlanNeed = maybe()
    usable_bytes: int = maybe()
    beside_bytes: dict[str, int] = maybe()
    reading_bytes: int = maybe()
    host_bytes_per_node: int = maybe()
    disk_bytes_per_node: int = maybe()
    cards: list[Any] = maybe()
    assumed: list[str] = maybe()
    phases: list[PlanPhase] = maybe()
    room: PlanRoom = maybe()
    changes: list[PlanChange] = maybe()
    hosts: dict[str, PlanHost] = maybe()
    left_out: dict[str, str] = maybe()
    job: JobValues | None = key("the recipe's job on this machine")


PLANNED = [
    "model", "parameters", "framework", "device", "layout", "deciding", "need_bytes", "usable_bytes", "beside_bytes",
    "reading_bytes", "host_bytes_per_node", "disk_bytes_per_node", "cards", "assumed", "phases",
]  # fmt: skip


class LayoutValues(Keys):
    options: str
    verdict: str
    need_bytes: int
    step_s: float
    tokens_per_second: int
    asked: bool
    front: bool


class LayoutsDocument(Keys, like=OutcomeDocument):
    step_samples: int
    links: Any
    layouts: list[LayoutValues]


class PointValues(Keys):
    value: float | str
    verdict: str = maybe()
    need_bytes: int = maybe()
    refused: str = maybe()


class PointsDocument(Keys, like=OutcomeDocument):
    points: list[PointValues]


class ModelValues(Keys):
    name: str
    hub_id: str
    parameters: int
    short: str | None


class ModelsDocument(Keys, like=NumberedDocument):
    models: list[ModelValues]


class ProvisionContainer(Keys, like=Spec):
    cards: str
    as_published: bool
    verified: bool
    makes_folders: list[str]


class ProvisionStep(Keys):
    name: str
    title: str
    why: str
    changes: str
    undo: str
    size_mib: float | None = maybe()
    seconds: float | None = maybe()
    root: bool
    root_why: str = maybe()
    packages: list[str] = maybe()
    container: ProvisionContainer = maybe()


class UnfitRecipe(Keys):
    recipe: str
    why: str


class PerformedStep(Keys):
    step: str
    did: str


class DriverValues(Keys):
    title: str
    file: str
    size_bytes: int
    version: str | None
    installed: str | None
    minimum: str | None
    sha256: str
    sha256_from: str
    argv: list[str]
    licence: str
    reboot: bool
    undo: list[str]
    caution: list[str]
    log: str


class FetchedDriver(Keys):
    title: str
    file: DriverFile
    minimum: str | None
    installed: str | None
    already: bool


class ProvisionDocument(Keys, like=OutcomeDocument):
    verb: Literal["provision"]
    result: Literal["ready", "planned", "done", "declined", "by-hand", "removed", "absent", "failed"]
    recipe: str | None = key("null where no recipe fits this machine")
    folder: str | None
    boxed: str = maybe()
    job: JobValues | None = maybe()
    assumed_host: str = maybe("the host for which the job is resolved; empty for this machine")
    reason: str = maybe("why this recipe, where nobody named it")
    satisfied: list[str]
    steps: list[ProvisionStep]
    by_hand: list[ByHand]
    left_out: list[str] = maybe()
    mind: list[str] = maybe()
    unfit: list[UnfitRecipe] = maybe("where no recipe fits this machine: each, and what this machine lacks for it")
    obstacle: Obstacle | None
    obstacles: list[Obstacle]
    performed: list[PerformedStep]
    doubts: list[str] = maybe()
    driver: DriverValues | None = maybe()
    removes: list[str] = maybe()
    kept: list[str] = maybe()
    fetch: FetchedDriver = maybe()


class ProvisionHost(Keys):
    state: Literal[
        "planned", "ready", "by-hand", "blocked", "unreached", "refused", "declined", "done", "failed", "lost",
        "interrupted", "not-begun", "removed", "absent",
    ]  # fmt: skip
    exit_code: int
    seen: str
    at: str
    journal: str
    document: ProvisionDocument | None


class ProvisionHostsDocument(Keys, like=OutcomeDocument):
    verb: Literal["provision"]
    result: Literal["ready", "planned", "declined", "done", "failed", "interrupted"]
    exit_code: int
    hosts: dict[str, ProvisionHost]


class BundleDocument(Keys, like=NumberedDocument):
    verb: Literal["bundle"]
    result: Literal["planned", "done"]
    recipe: str
    file: str
    architecture: str
    python: str | None
    size_mib: float | None
    size_bytes: int | None
    parts: list[Part]


class PyzDocument(Keys, like=NumberedDocument):
    verb: Literal["pyz"]
    result: Literal["done"]
    file: str
    version: str = key("of envcheck")
    size_bytes: int
    sha256: str
    machines: list[str] = key("types of machines for which the file has psutil")
    missing: list[str] = key("types of machines for which it has none")


JOB = "envcheck train --dry-run --json, key job; the same in doctor, plan, provision and recipes show"
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
