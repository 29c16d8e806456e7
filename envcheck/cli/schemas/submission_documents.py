"""The documents of train for a job of Slurm or Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas.check_documents import NEXT, WRONG, JobValues, NumberedDocument
from envcheck.cli.schemas.generate import Keys, key, optional_key
from envcheck.core.model import Status


class ExitCode(Keys):
    code: int = key("Exit code of envcheck.")


class NodeRequirement(Keys):
    name: str = key("Name of the preflight check.")
    status: Status = key("Result of the check.")
    seen: str
    evidence: list[str]
    next: str = key("What to do; may be empty.")


class SlurmComponent(Keys):
    device: str
    role: str
    nodes: int = key("Number of nodes.")
    gres: str | None = key("Generic resources of each node, as in `--gres`; null for none.")
    partition: str | None = key("Partition; null for the default of the cluster.")


class PlannedComponent(Keys, like=SlurmComponent):
    gres: str = key("Generic resources of each node, as in `--gres`; empty for none.")
    partition: str = key("Partition; empty for the default of the cluster.")
    job: JobValues = key("The job of this component.")


class TrainSlurmDocument(Keys, like=NumberedDocument):
    state: Literal["planned", "refused"] = key(
        "planned: with `--dry-run`; refused: the nodes do not meet the requirements."
    )
    folder: str = optional_key("Folder of the run.")
    components: list[PlannedComponent] = optional_key("Components of the job: nodes with the same devices.", minItems=1)
    script: str = optional_key("The batch script.")
    name: str = key("Job name.")
    blocked_by: list[str] = optional_key("Requirements that too few nodes meet.")
    nodes: dict[str, list[NodeRequirement]] = optional_key(
        "Requirements that are not met, by node, or by partition if it is too small."
    )
    exit: ExitCode = optional_key("Exit code.")
    job: JobValues = optional_key()
    error: str | None = optional_key(f"{WRONG}; null if nothing is.")
    exit_code: int = optional_key("Exit code of the command.")
    next: str = optional_key(NEXT)


class ManifestMetadata(Keys):
    name: str = key("Name of the object.")
    namespace: str = optional_key("Namespace of the object.")
    labels: dict[str, str] = optional_key("Labels.")
    annotations: dict[str, str] = optional_key("Annotations.")
    ownerReferences: list[Any] = optional_key("Owner references.")  # noqa: N815  as Kubernetes spells it


class ManifestValues(Keys):
    apiVersion: str = key("API version of the kind, such as batch/v1.")  # noqa: N815
    kind: str = key("Kind of the object.")
    metadata: ManifestMetadata = key("Metadata, as Kubernetes defines them.")
    spec: Any = optional_key("Specification, as Kubernetes defines it for the kind.")
    data: dict[str, str] = optional_key("Text data of a ConfigMap.")
    binaryData: dict[str, str] = optional_key("Base64 data of a ConfigMap.")  # noqa: N815
    immutable: bool = optional_key("Whether the data cannot be changed.")


class PodEnd(Keys):
    pod: str = key("Pod name.")
    container: str = key("Container name.")
    status: int = key("Exit status of the container.")


class KubernetesObject(Keys):
    kind: str = key("Kind of the object.")
    name: str = key("Name of the object.")
    namespace: str = key("Namespace of the object.")


class PodSecurity(Keys):
    level: Literal["privileged", "baseline", "restricted"] = key("Strictest Pod Security level that admits the pods.")
    reasons: list[str] = key("Settings of the pods that a stricter level forbids.")


class TrainKubernetesDocument(Keys, like=NumberedDocument):
    state: Literal["planned", "created", "succeeded", "refused", "failed", "deleted"] = key(
        "planned: with `--dry-run`; refused: the nodes do not meet the requirements; else the state of the job."
    )
    needs: list[str] = optional_key("ConfigMaps with envcheck itself that the job needs.")
    pod_security: PodSecurity = optional_key("Pod Security level that the namespace has to allow.")
    documents: list[ManifestValues] = optional_key("Manifests of the job.", minItems=2)
    folder: str = optional_key("Folder of the run.")
    exit: ExitCode = optional_key("Exit code.")
    pods: list[PodEnd] = optional_key("Pods that failed.")
    name: str = optional_key("Job name.")
    blocked_by: list[str] = optional_key("Requirements that too few nodes meet.")
    nodes: dict[str, list[NodeRequirement]] = optional_key(
        "Requirements that are not met, by node, or under `cluster` if it is too small."
    )
    object: KubernetesObject = optional_key("The job in the cluster.")
    job: JobValues = optional_key()
    error: str | None = optional_key(f"{WRONG}; null if nothing is.")
    exit_code: int = optional_key("Exit code of the command.")
    next: str = optional_key(NEXT)


def _require_planned_keys(planned: str, *others: str) -> Mapping[str, Any]:
    """Return the rule that state planned requires the keys `planned`, and any other state one of the sets `others`."""
    otherwise = [{"required": keys.split()} for keys in others]
    return {
        "if": {"properties": {"state": {"const": "planned"}}},
        "then": {"required": planned.split()},
        "else": {"anyOf": otherwise},
    }


SLURM = {
    "description": "The script of --dry-run, or the reason why the job was not submitted.  A submitted job has the "
    "document `run`.",
    **_require_planned_keys("job folder components script", "exit blocked_by nodes"),
}
KUBERNETES = {
    "description": "The manifests of --dry-run, the result of the job, the job that --detach created, or the reason "
    "why it was not submitted.",
    **_require_planned_keys(
        "job needs pod_security documents", "object folder exit pods", "name exit blocked_by nodes"
    ),
}
DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "train-slurm": ("envcheck train --on slurm --json", TrainSlurmDocument, SLURM),
    "train-k8s": ("envcheck train --on k8s --json", TrainKubernetesDocument, KUBERNETES),
}
