"""The options of `--on k8s`, validated, and the pod groups of a job."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.messages import _
from envcheck.core.secrets import redact_text
from envcheck.job.definition import Job
from envcheck.job.resolve import refuse_talk
from envcheck.vendors import VENDORS
from installers.recipes.manual_steps import find_reference
from installers.recipes.recipe import Recipe, RecipeJob
from launch.backends.roles import resolve_roles
from launch.catalogue.schedulers import kubernetes_names
from launch.targets.train_request import TrainRequest

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,49}[a-z0-9])?")  # "-worker-9999" is appended; a label has 63 characters at most
_CLAIM = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_IMAGE = re.compile(r"[\w][\w.:/@-]{0,400}")
_RESOURCE = re.compile(r"([a-zA-Z0-9.-]{1,200}/[\w.-]{1,63})(?::(\d{1,4}))?")
_ROLE_VALUE = re.compile(r"([a-z]+)=(.+)")
SET_BY_PODS = ("rank", "master", "host", "into")  # set in each pod, or not used there


@dataclass(frozen=True)
class K8sOptions:
    """`images` and `resources` by role, "" for all roles; `storage` is a volume claim or an absolute host path."""

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
    """`count` equal pods with ranks from `first` on; each requests `amount` of `resource`.

    `architecture` is that of the image as uname names it, "" if unknown.
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
        """The recipe of the job."""
        return self.job.recipe

    @property
    def method(self) -> RecipeJob:
        """The job's table in the recipe."""
        return self.job.method

    @property
    def role(self) -> str:
        """The role of the pods in a job over mixed devices, else ""."""
        return self.method.role


def parse_k8s_options(own: Mapping[str, Any], name: str) -> K8sOptions:
    """Return the options, with `name` as default job name; UsageError for values that Kubernetes would reject."""
    options = K8sOptions(
        name=own.get("job_name") or name,
        namespace=own.get("namespace") or "",
        context=own.get("context") or "",
        queue=own.get("queue") or "",
        storage=own.get("storage") or "",
        images=_parse_role_values(own.get("image") or (), "--image"),
        resources=_parse_role_values(own.get("resource") or (), "--resource"),
        gang=not own.get("no_gang"),
    )
    for option, text, shape, like in (
        (
            "--job-name",
            options.name,
            _NAME,
            _("use up to 51 lowercase letters, digits and hyphens, starting with a letter"),
        ),
        (
            "--namespace",
            options.namespace,
            _NAME,
            _("use lowercase letters, digits and hyphens, starting with a letter"),
        ),
        ("--queue", options.queue, _CLAIM, _("use lowercase letters, digits, dots and hyphens")),
        *(
            ("--image", text, _IMAGE, _("use REGISTRY/NAME:TAG, for example registry.example/team/train:1"))
            for text in options.images.values()
        ),
        *(
            ("--resource", text, _RESOURCE, _("use NAME or NAME:COUNT, for example huawei.com/Ascend910:16"))
            for text in options.resources.values()
        ),
    ):
        if text and not shape.fullmatch(text):
            raise UsageError(
                _("invalid value for {option}: {value!r}", option=option, value=redact_text(text)[:80]), like
            )
    _check_storage(options.storage)
    return options


def _check_storage(storage: str) -> None:
    parts = storage.split("/")
    if storage and (".." in parts if storage.startswith("/") else not _CLAIM.fullmatch(storage)):
        raise UsageError(
            _("invalid value for --storage: {storage!r}", storage=storage[:80]),
            _("use the name of a PersistentVolumeClaim, or an absolute path on the nodes such as /srv/train"),
        )


def _parse_role_values(texts: Sequence[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        roled = _ROLE_VALUE.fullmatch(text)
        role, value = (roled[1], roled[2]) if roled else ("", text)
        if role in found:
            raise UsageError(
                _("{option} was given twice for role {role}", option=option, role=role)
                if role
                else _("{option} was given twice for all roles", option=option),
                _("give it once per role: {option} ROLE=VALUE", option=option),
            )
        found[role] = value
    return found


def build_pod_groups(request: TrainRequest, options: K8sOptions) -> tuple[PodGroup, ...]:
    """Return the pod groups of a job, rank 0 first: one for rank 0 and one for the other nodes, or one per role."""
    for name in SET_BY_PODS:
        if getattr(request, name) is not None:
            raise UsageError(
                _("--{name} cannot be used with --on k8s: it is set in each pod", name=name),
                _("remove the option"),
            )
    if request.devices is not None:
        raise UsageError(
            _("--devices cannot be used with --on k8s: the device plugin selects the devices"), _("remove the option")
        )
    if request.node_role:
        raise UsageError(_("--node-role cannot be used with --on k8s: one job has all roles"), _("remove the option"))
    jobs = resolve_roles(request, Facts())
    if len(jobs) > 1:
        return tuple(_build_pod_group(job, options, job.method.rank or 0, 1) for job in jobs)
    master = _build_pod_group(jobs[0], options, 0, 1)
    nodes = master.method.nodes
    return (master,) if nodes == 1 else (master, replace(master, first=1, count=nodes - 1))


def _build_pod_group(job: Job, options: K8sOptions, first: int, count: int) -> PodGroup:
    """Return the group; its job has no container, since the pod is one, and no findings of this machine."""
    refuse_talk(job.recipe, job.method)
    image, machine = _choose_image(job.recipe, job.method, options)
    resource, amount = _choose_resource(job.method, job.device, options)
    pod_job = replace(job, image=image, architecture=machine or job.architecture, container=None, findings=())
    return PodGroup(pod_job, image, machine, resource, amount, first, count)


def _choose_image(recipe: Recipe, job: RecipeJob, options: K8sOptions) -> tuple[str, str]:
    """Return the image and its architecture ("" if unknown); UsageError if neither recipe nor options name an image."""
    images = options.images
    if own := images.get(job.role) or images.get(""):
        return own, ""
    machine = next(iter(recipe.image.references), "") if recipe.image else ""
    found = find_reference(recipe.image, machine) if recipe.image else None
    if not found:
        role = f"{job.role}=" if job.role else ""
        raise UsageError(
            _("recipe {name} has no container image, which --on k8s requires", name=recipe.name),
            _("specify one with --image {role}REGISTRY/NAME:TAG", role=role),
        )
    return found, machine


def _choose_resource(job: RecipeJob, device: str, options: K8sOptions) -> tuple[str, int]:
    """Return resource name and count. Device plugins count boards, while the vendor tool may list several chips per
    board."""
    names = options.resources
    cards, each = job.cards or job.processes, VENDORS[device].chips_per_card
    usual, amount = kubernetes_names(device), math.ceil(cards / each)
    if own := names.get(job.role) or names.get(""):
        found = _RESOURCE.fullmatch(own)
        assert found
        return found[1], int(found[2]) if found[2] else amount
    if usual is None:
        raise UsageError(
            _("the Kubernetes resource name of --device {device} is unknown", device=device),
            _("specify it with --resource NAME"),
        )
    return (usual.resource, amount) if usual.resource else ("", 0)
