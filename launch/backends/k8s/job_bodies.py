"""The specification of a job for each shape of job kinds: what an operator calls replicas, tasks or replicated jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core import errors
from launch.backends.k8s.k8s_options import K8sOptions, PodGroup
from launch.catalogue.schedulers import JobKind

Body = dict[str, Any]
RUNTIME = "TrainingRuntime"
STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}  # trainer, pkg/constants/constants.go
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"


@dataclass(frozen=True)
class JobParts:
    """What all shapes are made of; `templates` are the pod templates of the groups, `deadline_s` is None for none."""

    kind: JobKind
    options: K8sOptions
    groups: tuple[PodGroup, ...]
    templates: tuple[Body, ...]
    metadata: Mapping[str, Any]
    deadline_s: int | None = None

    @property
    def count(self) -> int:
        """The number of pods."""
        return sum(part.count for part in self.groups)

    @property
    def queue(self) -> Body:
        """The queue of Volcano, {} for the default."""
        return {"queue": self.options.queue} if self.options.queue and self.options.gang else {}

    @property
    def restart(self) -> int:
        """How often the operator may start the job again after its pods were lost."""
        return self.options.restart

    @property
    def ttl(self) -> Body:
        """How long the ended job is kept."""
        seconds = self.options.placement.ttl_s
        return {} if seconds is None else {"ttlSecondsAfterFinished": seconds}


def build_job(parts: JobParts) -> tuple[Body, ...]:
    """Return the job, and the objects without which its operator cannot run it."""
    spec, *others = SHAPES[parts.kind.shape](parts)
    head = {"apiVersion": parts.kind.version, "kind": parts.kind.kind, "metadata": dict(parts.metadata)}
    return ({**head, "spec": {**parts.kind.spec, **spec}}, *others)


def _name_role(part: PodGroup) -> str:
    return "worker" if part.first else "master"


def _build_replicas(parts: JobParts) -> tuple[Body, ...]:
    """Return the spec of kubeflow's job controller, which several operators share."""
    # Ended pods stay, for their logs.
    policy: Body = {"backoffLimit": parts.restart, "cleanPodPolicy": "Running", **parts.ttl}
    if parts.options.gang:
        priority = parts.options.placement.priority_class
        policy["schedulingPolicy"] = {
            "minAvailable": parts.count,
            **parts.queue,
            **({"priorityClass": priority} if priority else {}),
        }
    if parts.deadline_s:
        policy["activeDeadlineSeconds"] = parts.deadline_s
    # ExitCode: pods that were killed (above 127) are started again, those that failed are not.
    again = "ExitCode" if parts.restart else "Never"
    replicas = {
        _name_role(part).title(): {"replicas": part.count, "restartPolicy": again, "template": template}
        for part, template in zip(parts.groups, parts.templates, strict=True)
    }
    return ({"runPolicy": policy, parts.kind.replicas: replicas},)


FAILED = {"operator": "In", "values": sorted(errors.FAILURES)}  # not INTERRUPTED: an evicted pod ends with it


def _make_failure_policy(parts: JobParts) -> Body:
    """Return when a JobSet starts all of its pods again: after a lost or killed pod, not after one that failed."""
    if not parts.restart:
        return {"maxRestarts": 0}
    rule = {"name": "failed", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
    return {"maxRestarts": parts.restart, "rules": [rule]}


def _build_indexed_job(parts: JobParts, part: PodGroup, template: Body, labels: Mapping[str, str]) -> Body:
    """Return the template of a batch Job whose pods have an index; the job set starts all of them again, or none."""
    deadline = {"activeDeadlineSeconds": parts.deadline_s} if parts.deadline_s else {}
    spec = {"parallelism": part.count, "completions": part.count, "completionMode": "Indexed", "backoffLimit": 0}
    if parts.restart:
        spec["podFailurePolicy"] = {"rules": [{"action": "FailJob", "onExitCodes": FAILED}]}
    head = {"metadata": {"labels": dict(labels)}} if labels else {}
    return {**head, "spec": {**spec, **deadline, "template": template}}


# Names of pods resolve only after their preflight checks: place.sh waits for that of the first pod.
NETWORK = {"enableDNSHostnames": True, "publishNotReadyAddresses": False}


def _build_job_set(parts: JobParts) -> tuple[Body, ...]:
    jobs = [
        {"name": _name_role(part), "replicas": 1, "template": _build_indexed_job(parts, part, template, {})}
        for part, template in zip(parts.groups, parts.templates, strict=True)
    ]
    return ({"network": NETWORK, "failurePolicy": _make_failure_policy(parts), **parts.ttl, "replicatedJobs": jobs},)


def _build_train_job(parts: JobParts) -> tuple[Body, ...]:
    """Return the spec of a TrainJob, and its TrainingRuntime: a TrainJob itself cannot have init containers."""
    (part,), (template,) = parts.groups, parts.templates
    job = {"name": "node", "template": _build_indexed_job(parts, part, template, STEP)}
    queue = {"metadata": {"annotations": {VOLCANO_QUEUE: parts.options.queue}}} if parts.queue else {}
    policy = {"failurePolicy": _make_failure_policy(parts)} if parts.restart else {}
    runtime = {
        "apiVersion": parts.kind.version,
        "kind": RUNTIME,
        "metadata": dict(parts.metadata),
        "spec": {
            "mlPolicy": {"numNodes": part.count},
            **({"podGroupPolicy": {"volcano": {}}} if parts.options.gang else {}),
            "template": {**queue, "spec": {"network": NETWORK, **policy, "replicatedJobs": [job]}},
        },
    }
    reference = {"apiGroup": parts.kind.version.partition("/")[0], "kind": RUNTIME, "name": parts.options.name}
    return ({"runtimeRef": reference, "trainer": {"numNodes": part.count}}, runtime)


def _build_tasks(parts: JobParts) -> tuple[Body, ...]:
    """Return the spec of a Volcano Job: the first pod that fails ends it; after an eviction all may start again."""
    tasks = [
        {"name": _name_role(part), "replicas": part.count, "minAvailable": part.count, "template": template}
        for part, template in zip(parts.groups, parts.templates, strict=True)
    ]
    for template in parts.templates if parts.deadline_s else ():
        template["spec"]["activeDeadlineSeconds"] = parts.deadline_s
    priority = parts.options.placement.priority_class
    evicted = [{"event": "PodEvicted", "action": "RestartJob"}] if parts.restart else []
    return (
        {
            "schedulerName": "volcano",
            "minAvailable": parts.count,
            **parts.queue,
            **({"priorityClassName": priority} if priority else {}),
            "maxRetry": max(1, parts.restart),
            **parts.ttl,
            "plugins": {"svc": []},
            "policies": [*evicted, {"event": "PodFailed", "action": "TerminateJob"}],
            "tasks": tasks,
        },
    )


SHAPES: Mapping[str, Callable[[JobParts], tuple[Body, ...]]] = {
    "replicas": _build_replicas,
    "jobset": _build_job_set,
    "trainjob": _build_train_job,
    "tasks": _build_tasks,
}
