"""The options of `--on k8s`, validated, and the pod groups of a job."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.messages import _, join
from envcheck.core.secrets import redact_text
from envcheck.job.definition import Job
from envcheck.job.resolve import refuse_talk
from envcheck.vendors import VENDORS
from installers.images import reference
from installers.recipes.recipe import Recipe, RecipeJob
from launch.backends.k8s import cluster_terms, image_choice, placement_options
from launch.backends.k8s.image_choice import PodImage
from launch.backends.k8s.placement_options import PodPlacement
from launch.backends.roles import resolve_roles
from launch.catalogue.schedulers import JobKind, kubernetes_names
from launch.targets.train_request import TrainRequest

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,49}[a-z0-9])?")  # "-worker-9999" is appended; a label has 63 characters at most
_CLAIM = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_RESOURCE = re.compile(r"([a-zA-Z0-9.-]{1,200}/[\w.-]{1,63})(?::([1-9]\d{0,3}))?", re.ASCII)
_ARCHITECTURE = re.compile(r"[a-z0-9_]{1,20}")
_ROLE_VALUE = re.compile(r"([a-z]+)=(.+)")
ONE_GROUP = "trainjob"  # the shape of job kinds whose pods are all equal
KUEUE = "kueue:"  # before the name of a queue
SET_BY_PODS = ("rank", "master", "host", "into")  # set in each pod, or not used there


@dataclass(frozen=True)
class K8sOptions:
    """`images` and `resources` by role, "" for all roles; `storage` is a volume claim or an absolute host path.

    `architecture` is that of the nodes as uname names it, "" for any. `queue` is Volcano's, `kueue` Kueue's.
    """

    name: str
    operator: str = ""
    architecture: str = ""
    has_pinned_images: bool = False
    kueue: str = ""
    placement: PodPlacement = field(default_factory=PodPlacement)
    namespace: str = ""
    context: str = ""
    queue: str = ""
    storage: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    gang: bool = True
    restart: int = 0


@dataclass(frozen=True)
class PodGroup:
    """`count` equal pods with ranks from `first` on; each requests `amount` of `resource`.

    `architecture` is the only one of the image, as uname names it, "" for several or if unknown; `machines` are all
    that it may have.
    """

    job: Job
    kind: JobKind
    image: str
    architecture: str
    resource: str
    amount: int
    first: int
    count: int
    machines: tuple[str, ...] = ()

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
    queue = own.get("queue") or ""
    options = K8sOptions(
        name=own.get("job_name") or name,
        operator=own.get("operator") or cluster_terms.list_operators()[0],
        architecture=image_choice.parse_architecture(own.get("arch") or ""),
        has_pinned_images=bool(own.get("pin_images")),
        namespace=own.get("namespace") or "",
        context=own.get("context") or "",
        queue="" if queue.startswith(KUEUE) else queue,
        kueue=queue.removeprefix(KUEUE) if queue.startswith(KUEUE) else "",
        placement=placement_options.parse_placement(own),
        storage=own.get("storage") or "",
        images=_parse_role_values(own.get("image") or (), "--image"),
        resources=_parse_role_values(own.get("resource") or (), "--resource"),
        gang=not own.get("no_gang") and not queue.startswith(KUEUE),
    )
    _check_operator(options, queue)
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
        ("--queue", options.queue or options.kueue, _CLAIM, placement_options.NAME_FORM),
        ("--arch", options.architecture, _ARCHITECTURE, _("use amd64 or arm64")),
        *(
            ("--resource", text, _RESOURCE, _("use NAME or NAME:COUNT, for example huawei.com/Ascend910:16"))
            for text in options.resources.values()
        ),
    ):
        if text and not shape.fullmatch(text):
            raise UsageError(
                _("invalid value for {option}: {value!r}", option=option, value=redact_text(text)[:80]), like
            )
    _check_images(options.images.values())
    _check_storage(options.storage)
    return options


def _check_images(names: Iterable[str]) -> None:
    for name in names:
        try:
            reference.parse_reference(name)
        except UsageError:
            raise UsageError(
                _("invalid value for {option}: {value!r}", option="--image", value=redact_text(name)[:80]),
                _("use REGISTRY/NAME:TAG in lowercase, for example registry.example/team/train:1"),
            ) from None


def _check_operator(options: K8sOptions, queue: str) -> None:
    known = cluster_terms.list_operators()
    if options.operator not in known:
        raise UsageError(
            _("invalid value for {option}: {value!r}", option="--operator", value=options.operator[:80]),
            _("use one of: {known}", known=", ".join(known)),
        )
    kinds = [kind for kind in cluster_terms.list_job_kinds() if kind.operator == options.operator]
    if queue.startswith(KUEUE) and not (options.kueue and kinds[0].has_kueue):
        raise UsageError(
            _("--operator {operator} cannot be used with {value}", operator=options.operator, value="--queue kueue:")
            if options.kueue
            else _("invalid value for {option}: {value!r}", option="--queue", value=queue),
            _("use a queue of Volcano: --queue NAME") if options.kueue else _("use kueue:NAME"),
        )
    if queue and not options.kueue and not options.gang:
        raise UsageError(
            _("--no-gang cannot be used with {value}: Volcano alone has queues", value="--queue"),
            _("use only one of them"),
        )
    if options.placement.ttl_s is not None and not kinds[0].has_ttl:
        raise UsageError(
            _("--operator {operator} cannot be used with {value}", operator=options.operator, value="--ttl"),
            _("remove the option"),
        )


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
    _check_roles(jobs, options)
    if len(jobs) > 1:
        if find_kind(jobs[0].recipe, options).shape == ONE_GROUP:
            raise UsageError(
                _("--operator {operator} cannot run a job over mixed devices", operator=options.operator),
                _("use another --operator, such as jobset"),
            )
        return tuple(_build_pod_group(job, options, job.method.rank or 0, 1) for job in jobs)
    master = _build_pod_group(jobs[0], options, 0, 1)
    nodes = master.method.nodes
    if master.kind.shape == ONE_GROUP:
        return (replace(master, count=nodes),)
    return (master,) if nodes == 1 else (master, replace(master, first=1, count=nodes - 1))


def _check_roles(jobs: Sequence[Job], options: K8sOptions) -> None:
    """Raise UsageError for a value of --image or --resource for a role that the job does not have."""
    roles = [job.method.role for job in jobs if job.method.role]
    for option, values in (("--image", options.images), ("--resource", options.resources)):
        for role in values:
            if role and role not in roles:
                raise UsageError(
                    _(
                        "{option}: recipe {name} has no role {role!r}",
                        option=option,
                        name=jobs[0].recipe.name,
                        role=role,
                    ),
                    _("use one of its roles: {roles}", roles=join(", ", roles))
                    if roles
                    else _("remove {role}= before the value", role=role),
                )


def find_kind(recipe: Recipe, options: K8sOptions) -> JobKind:
    """Return the job kind; UsageError if the operator does not support the recipe's framework."""
    return cluster_terms.find_job_kind(recipe.framework, options.operator)


def _build_pod_group(job: Job, options: K8sOptions, first: int, count: int) -> PodGroup:
    """Return the group; its job has no container, since the pod is one, and no findings of this machine."""
    refuse_talk(job.recipe, job.method)
    kind = find_kind(job.recipe, options)
    image = _choose_image(job, options)
    resource, amount = _choose_resource(job.method, job.device, options)
    machine = image.architecture or job.architecture
    pod_job = replace(job, image=image.name, architecture=machine, container=None, findings=())
    return PodGroup(pod_job, kind, image.name, image.architecture, resource, amount, first, count, image.machines)


def _choose_image(job: Job, options: K8sOptions) -> PodImage:
    image = image_choice.choose_image(job.recipe, job.method, options.images, options.architecture)
    return image_choice.pin_image(image, options.architecture) if options.has_pinned_images else image


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
