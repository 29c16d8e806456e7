"""The Pod Security level that the pods of a job need, by the rules of the Pod Security Standards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envcheck.core.messages import Message, _, join
from launch.backends.k8s import patches

PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
# Kubernetes, Pod Security Standards, baseline: the capabilities that may be added.
ADDABLE = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
    *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)


@dataclass(frozen=True)
class SecurityLevel:
    """`level` is what the label pod-security.kubernetes.io/enforce of the namespace may be at most; `reasons`: the
    settings for which no stricter level suffices."""

    level: str
    reasons: tuple[str, ...] = ()

    def describe_need(self) -> Message:
        """Return the level and the reasons as a sentence."""
        return _("Pod Security level {level}: {reasons}", level=self.level, reasons=join(", ", self.reasons))


def judge_security(bodies: Sequence[Mapping[str, Any]]) -> SecurityLevel:
    """Return the strictest level that admits all pods of the objects."""
    pods = [template["spec"] for body in bodies for template in patches.find_pod_templates(body)]
    privileged = tuple(dict.fromkeys(reason for pod in pods for reason in _list_baseline_breaches(pod)))
    if privileged:
        return SecurityLevel(PRIVILEGED, privileged)
    loose = tuple(dict.fromkeys(reason for pod in pods for reason in _list_restricted_breaches(pod)))
    return SecurityLevel(BASELINE, loose) if loose else SecurityLevel(RESTRICTED)


def _list_containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in ("initContainers", "containers"):
        yield from pod.get(key) or ()


def _list_baseline_breaches(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings that level baseline forbids."""
    yield from (name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name))
    for volume in pod.get("volumes") or ():
        if "hostPath" in volume:
            yield f"hostPath {volume['hostPath'].get('path')}"
    for container in _list_containers(pod):
        context = container.get("securityContext") or {}
        if context.get("privileged"):
            yield "privileged"
        for name in (context.get("capabilities") or {}).get("add") or ():
            if name.removeprefix("CAP_") not in ADDABLE:
                yield f"capability {name}"
        yield from (f"hostPort {port['hostPort']}" for port in container.get("ports") or () if port.get("hostPort"))


def _list_restricted_breaches(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings that level restricted requires and a container lacks."""
    of_pod = pod.get("securityContext") or {}
    for container in _list_containers(pod):
        context = {**of_pod, **(container.get("securityContext") or {})}
        if not context.get("runAsNonRoot"):
            yield "runAsNonRoot"
        if context.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if "ALL" not in ((context.get("capabilities") or {}).get("drop") or ()):
            yield "capabilities"
        if (context.get("seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield "seccompProfile"
