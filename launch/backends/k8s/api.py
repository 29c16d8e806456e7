"""Access to the cluster with the official client; every failure of a request becomes one StepError."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.messages import Message, _
from envcheck.core.secrets import redact_text
from launch.backends.k8s import cluster_terms
from launch.backends.k8s.k8s_options import K8sOptions
from launch.backends.k8s.manifests import K8sManifest

T = TypeVar("T")
TIMEOUT_S = (10.0, 60.0)  # connect, read
INSTALL = "python3 -m pip install 'envcheck-toolkit[k8s]'"
DRY_RUN_HINT = _("to show the manifests without a cluster, use --dry-run")
OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Cluster:
    """`core` and `custom` are API objects of the client; `watch` returns a new watch.

    `context` is the kubeconfig context, "" inside a pod; `server` is the URL of the API server.
    """

    namespace: str
    core: Any
    custom: Any
    watch: Callable[[], Any]
    context: str = ""
    server: str = ""


def open_cluster(options: K8sOptions) -> Cluster:
    """Load the client configuration; no request is sent yet. StepError without the client or a configuration."""
    try:
        from kubernetes import client, config, watch
        from kubernetes.config import ConfigException
        from yaml import YAMLError
    except ImportError:
        raise StepError(
            _("--on k8s requires the Python package kubernetes, which is not installed"),
            _("install it with `{command}`; {hint}", command=INSTALL, hint=DRY_RUN_HINT),
        ) from None
    try:
        settings, namespace, context = _load_client_settings(client, config, options.context)
    except (ConfigException, YAMLError, OSError, ValueError, TypeError, KeyError, AttributeError) as err:
        words = redact_text(str(err)).splitlines()[0][:200] if str(err) else type(err).__name__
        raise StepError(
            _("cannot load the Kubernetes configuration: {reason}", reason=words),
            _("check it with `kubectl config get-contexts`; {hint}", hint=DRY_RUN_HINT),
        ) from None
    settings.retries = False
    api = client.ApiClient(settings)
    core, custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
    return Cluster(options.namespace or namespace, core, custom, watch.Watch, context, redact_text(str(settings.host)))


def _load_client_settings(client: Any, config: Any, context: str) -> tuple[Any, str, str]:
    """Return client settings, default namespace and context: in a pod of its service account, else of kubeconfig."""
    settings = client.Configuration()
    if not context and OWN_NAMESPACE.is_file():
        config.load_incluster_config(client_configuration=settings)
        return settings, OWN_NAMESPACE.read_text(encoding="utf-8").strip(), ""
    config.load_kube_config(context=context or None, client_configuration=settings)
    contexts, active = config.list_kube_config_contexts()
    chosen = next((each for each in contexts if each["name"] == context), active)
    return settings, str(chosen["context"].get("namespace") or "default"), str(chosen["name"])


def call_api(call: Callable[[], T], document: K8sManifest | None = None, namespace: str = "") -> T:
    """Return the result of a request; StepError with the API's own message if it is rejected or the cluster is not
    reachable."""
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        return call()
    except ApiException as err:
        rejected = build_refusal_error(
            err.status, _read_status_message(err.body) or str(err.reason or ""), document, namespace
        )
        raise rejected from err
    except (HTTPError, OSError) as err:
        reason = getattr(err, "reason", None) or err
        words = redact_text(str(reason).rpartition(": ")[2])[:200]
        raise StepError(
            _("cannot connect to the cluster: {reason}", reason=words),
            _("check it with `kubectl cluster-info`; {hint}", hint=DRY_RUN_HINT),
        ) from err


def build_refusal_error(status: int, message: str, document: K8sManifest | None, namespace: str) -> EnvcheckError:
    """Return the error for an HTTP status of the API. `document` is what was to be created or read."""
    kind, name = (document.kind, document.name) if document else ("", "")
    group = f".{document.version.rpartition('/')[0]}" if document and "/" in document.version else ""
    resource = f"{document.plural}{group}" if document else ""
    message = redact_text(message)
    known: Mapping[int, tuple[Message, Message]] = {
        401: (
            _("the cluster rejected the credentials (Unauthorized)"),
            _("log in to the cluster again; check with `kubectl auth whoami`"),
        ),
        403: (
            _("permission denied by the cluster: {message}", message=message),
            _(
                "ask the cluster administrator for the permission; check with "
                "`kubectl auth can-i create {resource} -n {namespace}`",
                resource=resource,
                namespace=namespace,
            ),
        ),
        404: (
            _("the cluster does not support {kind}", kind=kind),
            _advise_installation(document),
        ),
        409: (
            _("{kind} {name} already exists in namespace {namespace}", kind=kind, name=name, namespace=namespace),
            _(
                "choose another --job-name, or delete it with `kubectl delete {resource} {name} -n {namespace}`",
                resource=resource,
                name=name,
                namespace=namespace,
            ),
        ),
        422: (
            _("the cluster rejected the {kind}: {message}", kind=kind, message=message),
            _("check the options; show the manifests with --dry-run"),
        ),
    }
    if status == 404 and message.startswith("namespaces "):
        known = {
            404: (
                _("namespace {namespace} not found", namespace=namespace),
                _(
                    "create it with `kubectl create namespace {namespace}`, or choose another with --namespace",
                    namespace=namespace,
                ),
            )
        }
    elif not document:
        known = {
            401: known[401],
            403: (known[403][0], _("ask the cluster administrator for the permission")),
            404: (
                _("not found in the cluster: {message}", message=message),
                _("check the cluster with `kubectl cluster-info`"),
            ),
        }
    other = (
        _("the cluster returned status {status}: {message}", status=status, message=message),
        _("check the cluster with `kubectl cluster-info`"),
    )
    return StepError(*known.get(status, other))


def _advise_installation(document: K8sManifest | None) -> Message:
    """Return what provides a kind that the cluster lacks."""
    if document and document.kind == "PodGroup":
        return _("install Volcano, or use --no-gang")
    known = document and cluster_terms.find_kind_by_object(document.version, document.plural)
    if not known:
        return _("list the supported kinds with `kubectl api-resources`")
    return _("install {software}, or use another --operator", software=known.install)


def _read_status_message(body: object) -> str:
    """Return the message of a Status object, which the API sends with an error; "" for other bodies."""
    try:
        status = json.loads(body if isinstance(body, str | bytes) else "")
    except ValueError:
        return ""
    return str(status.get("message", "")) if isinstance(status, dict) else ""
