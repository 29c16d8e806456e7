"""The cluster as the official client opens it; every way in which it does not answer is one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.secrets import redact
from launch.backends.k8s.documents import K8sManifest
from launch.backends.k8s.k8s_options import K8sOptions

T = TypeVar("T")
TIMEOUT_S = (10.0, 60.0)  # to connect, to answer
INSTALL = "python3 -m pip install 'envcheck-toolkit[k8s]'"
WITHOUT = "--dry-run shows the documents without a cluster"
OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
LACKING = {  # what a cluster needs for a kind that is not one of Kubernetes' own
    "PodGroup": "install Volcano, or say --no-gang",
    "PaddleJob": "install Kubeflow's training operator, 1.9 or an older one of its v1",
    "PyTorchJob": "install Kubeflow's training operator, 1.9 or an older one of its v1",
}


@dataclass(frozen=True)
class Cluster:
    """`core` and `custom` are the client's own; `watch` makes one of its watches.

    `context` is what the kubeconfig calls the way to it, "" from within; `server` is its address.
    """

    namespace: str
    core: Any
    custom: Any
    watch: Callable[[], Any]
    context: str = ""
    server: str = ""


def opened(said: K8sOptions) -> Cluster:
    """Nothing is sent yet."""
    try:
        from kubernetes import client, config, watch
        from kubernetes.config import ConfigException
        from yaml import YAMLError
    except ImportError:
        raise StepError(
            "--on k8s wants the library kubernetes, which is not installed", f"{INSTALL}; {WITHOUT}"
        ) from None
    try:
        settings, namespace, context = _settings(client, config, said.context)
    except (ConfigException, YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError) as err:
        words = redact(str(err)).splitlines()[0][:200] if str(err) else type(err).__name__
        raise StepError(f"no cluster is configured: {words}", f"kubectl config get-contexts; {WITHOUT}") from None
    settings.retries = False
    api = client.ApiClient(settings)
    core, custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
    return Cluster(said.namespace or namespace, core, custom, watch.Watch, context, redact(str(settings.host)))


def _settings(client: Any, config: Any, context: str) -> tuple[Any, str, str]:
    """Of the kubeconfig, else of the pod that this runs in; the namespace that is meant without a word, the context."""
    settings = client.Configuration()
    if not context and OWN_NAMESPACE.is_file():
        config.load_incluster_config(client_configuration=settings)
        return settings, OWN_NAMESPACE.read_text(encoding="utf-8").strip(), ""
    config.load_kube_config(context=context or None, client_configuration=settings)
    contexts, active = config.list_kube_config_contexts()
    chosen = next((each for each in contexts if each["name"] == context), active)
    return settings, str(chosen["context"].get("namespace") or "default"), str(chosen["name"])


def asked(call: Callable[[], T], document: K8sManifest | None = None, namespace: str = "") -> T:
    """The answer; StepError in one sentence for every refusal.  Of a refusal only its own message is told."""
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        return call()
    except ApiException as err:
        refused = refusal(err.status, _message(err.body) or str(err.reason or ""), document, namespace)
        raise refused from err
    except (HTTPError, OSError) as err:
        reason = getattr(err, "reason", None) or err
        words = redact(str(reason).rpartition(": ")[2])[:200]
        raise StepError(f"the cluster does not answer: {words}", f"kubectl cluster-info; {WITHOUT}") from err


def refusal(status: int, message: str, document: K8sManifest | None, namespace: str) -> EnvcheckError:
    """What the API's status means to a person."""
    kind, name = (document.kind, document.name) if document else ("object", "")
    group = f".{document.version.rpartition('/')[0]}" if document and "/" in document.version else ""
    what = f"{document.plural}{group}" if document else "it"
    known: Mapping[int, tuple[str, str]] = {
        401: ("the cluster does not know who asks", "log in again: kubectl auth whoami"),
        403: (
            f"the cluster forbids it: {message}",
            f"ask for the right: kubectl auth can-i create {what} -n {namespace}",
        ),
        404: (f"the cluster has no {kind}", LACKING.get(kind, "kubectl api-resources")),
        409: (
            f"there is a {kind} named {name} already",
            f"choose another --job-name, or kubectl delete {what} {name} -n {namespace}",
        ),
        422: (
            f"the cluster does not take the {kind}: {message}",
            "a fault of the options or of envcheck: --dry-run shows it",
        ),
    }
    if status == 404 and message.startswith("namespaces "):
        known = {
            404: (f"there is no namespace {namespace}", f"kubectl create namespace {namespace}, or --namespace NAME")
        }
    words, next_step = known.get(status, (f"the cluster answers {status}: {message}", "kubectl cluster-info"))
    return StepError(redact(words)[:400], next_step)


def _message(body: object) -> str:
    """Of a Status, the API's own form for refusals."""
    try:
        said = json.loads(body if isinstance(body, str | bytes) else "")
    except ValueError:
        return ""
    return str(said.get("message", "")) if isinstance(said, dict) else ""
