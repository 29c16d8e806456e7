"""The keys of what train prints of a job for Slurm or Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from envcheck.cli.schemas.check_documents import NEXT, WRONG, JobValues, NumberedDocument
from envcheck.cli.schemas.generate import Keys, key, maybe
from envcheck.core.model import Status


class ExitCode(Keys):
    code: int


class NodeRequirement(Keys):
    name: str
    status: Status
    seen: str
    evidence: list[str]
    next: str


class SlurmComponent(Keys):
    device: str
    role: str
    nodes: int
    gres: str | None
    partition: str | None


class PlannedComponent(Keys, like=SlurmComponent):
    gres: str
    partition: str
    job: JobValues


class TrainSlurmDocument(Keys, like=NumberedDocument):
    state: Literal["planned", "refused"]
    folder: str = maybe()
    components: list[PlannedComponent] = maybe(minItems=1)
    script: str = maybe()
    name: str = key("of the job, for people")
    blocked_by: list[str] = maybe("the requirements that too few nodes meet")
    nodes: dict[str, list[NodeRequirement]] = maybe(
        "by node, or by partition that is too small: the requirements that it does not meet"
    )
    exit: ExitCode = maybe()
    job: JobValues = maybe()
    error: str | None = maybe(WRONG)
    exit_code: int = maybe()
    next: str = maybe(NEXT)


class ManifestMetadata(Keys):
    name: str
    namespace: str = maybe()
    labels: dict[str, str] = maybe()
    annotations: dict[str, str] = maybe()
    ownerReferences: list[Any] = maybe()  # noqa: N815  as Kubernetes spells it


class ManifestValues(Keys):
    apiVersion: str  # noqa: N815
    kind: str
    metadata: ManifestMetadata = key("as Kubernetes has it")
    spec: Any = maybe("as the kind of document has it in Kubernetes' own schemas")
    data: dict[str, str] = maybe()
    binaryData: dict[str, str] = maybe()  # noqa: N815
    immutable: bool = maybe()


class PodEnd(Keys):
    pod: str
    container: str
    status: int


class KubernetesObject(Keys):
    kind: str
    name: str
    namespace: str


class TrainKubernetesDocument(Keys, like=NumberedDocument):
    state: Literal["planned", "made", "finished", "refused", "failed", "deleted"]
    needs: list[str] = maybe("the ConfigMaps that hold envcheck for the gates")
    documents: list[ManifestValues] = maybe(minItems=2)
    folder: str = maybe()
    exit: ExitCode = maybe()
    pods: list[PodEnd] = maybe("those that ended badly")
    name: str = maybe("of the job, for people")
    blocked_by: list[str] = maybe("the requirements that too few nodes meet")
    nodes: dict[str, list[NodeRequirement]] = maybe(
        "by node, or `cluster` where it is too small: the requirements that it does not meet"
    )
    object: KubernetesObject = maybe("the job as the cluster has it")
    job: JobValues = maybe()
    error: str | None = maybe(WRONG)
    exit_code: int = maybe()
    next: str = maybe(NEXT)


def _planned(planned: str, *others: str) -> Mapping[str, Any]:
    """Which keys a document has whose `state` is planned; any of `others` that of one in another state."""
    otherwise = [{"required": keys.split()} for keys in others]
    return {
        "if": {"properties": {"state": {"const": "planned"}}},
        "then": {"required": planned.split()},
        "else": {"anyOf": otherwise},
    }


SLURM = {
    "description": "With --dry-run the script; or that nothing was submitted, since the nodes do not meet the job's "
    "requirements.  A submitted job has the document `run`.",
    **_planned("job folder components script", "exit blocked_by nodes"),
}
KUBERNETES = {
    "description": "With --dry-run the documents; else how the job ended, that it was made (--detach), or that nothing "
    "was submitted, since the nodes do not meet its requirements.",
    **_planned("job needs documents", "object folder exit pods", "name exit blocked_by nodes"),
}
DOCUMENTS: dict[str, tuple[str, type, Mapping[str, Any]]] = {
    "train-slurm": ("envcheck train --on slurm --json", TrainSlurmDocument, SLURM),
    "train-k8s": ("envcheck train --on k8s --json", TrainKubernetesDocument, KUBERNETES),
}
