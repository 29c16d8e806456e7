"""What `--on k8s` was asked for, and the parts of a job: what one pod of each role runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.secrets import redact
from envcheck.job.job import Job
from envcheck.job.resolve import refuse_talk
from envcheck.vendors import VENDORS
from installers.recipes.by_hand import reference
from installers.recipes.recipe import Recipe, RecipeJob
from launch.backends.roles import resolve_roles
from launch.catalogue.schedulers import kubernetes_names
from launch.targets.request import TrainRequest

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,49}[a-z0-9])?")  # -worker-9999 comes behind it, and a label has 63 at most
_CLAIM = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_IMAGE = re.compile(r"[\w][\w.:/@-]{0,400}")
_RESOURCE = re.compile(r"([a-zA-Z0-9.-]{1,200}/[\w.-]{1,63})(?::(\d{1,4}))?")
_ROLED = re.compile(r"([a-z]+)=(.+)")
FILLED = ("rank", "master", "host", "into")  # the pods know these, or have no use for them


@dataclass(frozen=True)
class K8sOptions:
    """`images` and `resources` by role, "" is every role; `storage` is a claim, or a folder of every node from /."""

    name: str
    namespace: str = ""
    context: str = ""
    queue: str = ""
    storage: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    gang: bool = True


@dataclass(frozen=True)
class PodGroup:
    """`count` pods that run the same, the first of them being node `first`; each asks for `amount` of `resource`.

    `architecture` is the image's, "" where nobody knows.
    """

    job: Job
    image: str
    architecture: str
    resource: str
    amount: int
    first: int
    count: int

    @property
    def recipe(self) -> Recipe:
        return self.job.recipe

    @property
    def method(self) -> RecipeJob:
        return self.job.method

    @property
    def role(self) -> str:
        return self.method.role


def wish(own: Mapping[str, Any], name: str) -> K8sOptions:
    """From the options; UsageError for what no cluster would take."""
    said = K8sOptions(
        name=own.get("job_name") or name,
        namespace=own.get("namespace") or "",
        context=own.get("context") or "",
        queue=own.get("queue") or "",
        storage=own.get("storage") or "",
        images=_by_role(own.get("image") or (), "--image"),
        resources=_by_role(own.get("resource") or (), "--resource"),
        gang=not own.get("no_gang"),
    )
    for option, text, shape, like in (
        ("--job-name", said.name, _NAME, "small letters, digits and -, at most 51, a letter first"),
        ("--namespace", said.namespace, _NAME, "small letters, digits and -"),
        ("--queue", said.queue, _CLAIM, "small letters, digits, . and -"),
        *(("--image", text, _IMAGE, "for instance registry.example/team/train:1") for text in said.images.values()),
        *(
            ("--resource", text, _RESOURCE, "NAME or NAME:N, such as huawei.com/Ascend910:16")
            for text in said.resources.values()
        ),
    ):
        if text and not shape.fullmatch(text):
            raise UsageError(f"{option}: {redact(text)[:80]!r} is none", like)
    _place(said.storage)
    return said


def _place(storage: str) -> None:
    parts = storage.split("/")
    if storage and (".." in parts if storage.startswith("/") else not _CLAIM.fullmatch(storage)):
        raise UsageError(
            f"--storage: {storage[:80]!r} is neither a claim nor a folder", "CLAIM, or /FOLDER from the root"
        )


def _by_role(texts: Sequence[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        roled = _ROLED.fullmatch(text)
        role, value = (roled[1], roled[2]) if roled else ("", text)
        if role in found:
            raise UsageError(f"{option} is said twice for {role or 'every role'}", f"{option} ROLE=... says for which")
        found[role] = value
    return found


def parts(request: TrainRequest, said: K8sOptions) -> tuple[PodGroup, ...]:
    """The job of all its nodes, node 0 first: a part for it and one for the others, or one for each role."""
    for name in FILLED:
        if getattr(request, name) is not None:
            raise UsageError(f"--{name} is for one machine; with --on k8s the pods know it", f"leave --{name} out")
    if request.node_role:
        raise UsageError("--node-role is for one machine; with --on k8s all roles are one job", "leave it out")
    jobs = resolve_roles(request, Facts())
    if len(jobs) > 1:
        return tuple(_part(job, said, job.method.rank or 0, 1) for job in jobs)
    alone = _part(jobs[0], said, 0, 1)
    nodes = alone.method.nodes
    return (alone,) if nodes == 1 else (alone, replace(alone, first=1, count=nodes - 1))


def _part(job: Job, said: K8sOptions, first: int, count: int) -> PodGroup:
    """The pod is the container of the job, and the nodes are not this machine."""
    refuse_talk(job.recipe, job.method)
    image, machine = _image(job.recipe, job.method, said)
    resource, amount = _resource(job.method, job.device, said)
    made = replace(job, image=image, architecture=machine or job.architecture, container=None, findings=())
    return PodGroup(made, image, machine, resource, amount, first, count)


def _image(recipe: Recipe, job: RecipeJob, said: K8sOptions) -> tuple[str, str]:
    """The image, and the architecture that it is of, "" where nobody knows."""
    images = said.images
    if own := images.get(job.role) or images.get(""):
        return own, ""
    machine = next(iter(recipe.image.references), "") if recipe.image else ""
    found = reference(recipe.image, machine) if recipe.image else None
    if not found:
        role = f"{job.role}=" if job.role else ""
        raise UsageError(
            f"{recipe.name} runs in an environment of the host and names no image",
            f"say --image {role}REGISTRY/NAME:TAG",
        )
    return found, machine


def _resource(job: RecipeJob, device: str, said: K8sOptions) -> tuple[str, int]:
    """The tool lists chips; where a card that is bought has several, the device plugin counts those cards."""
    names = said.resources
    cards, each = job.cards or job.processes, VENDORS[device].chips_per_card
    usual, amount = kubernetes_names(device), math.ceil(cards / each)
    if own := names.get(job.role) or names.get(""):
        found = _RESOURCE.fullmatch(own)
        assert found
        return found[1], int(found[2]) if found[2] else amount
    if usual is None:
        raise UsageError(f"no Kubernetes resource is known for --device {device}", "name it: --resource NAME")
    return (usual.resource, amount) if usual.resource else ("", 0)
