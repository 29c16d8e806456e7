"""API servers for the tests of `--on k8s`, and envcheck as a process that uses them.

By default the tests use the small server of api_small. If ENVCHECK_KUBE_APISERVER is the path of a real kube-apiserver,
with etcd in its folder or in PATH, the same tests run on both. CONTRIBUTING.md describes how to build one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.installers.images.engine_parts import find_free_port
from tests.launch.backends.k8s import k8s_parts

ADMIN, TENANT, STRANGER = "admin-token", "tenant-token", "stranger-token"
USERS = {f"Bearer {ADMIN}": "admin", f"Bearer {TENANT}": "tenant", f"Bearer {STRANGER}": "stranger"}
READY_S = 180.0
ANY = {"x-kubernetes-preserve-unknown-fields": True}
Object = dict[str, Any]
SWIFT = ("--recipe", "qwen-7b-npu-swift", "--method", "lora", "--variant", "zero3", "--storage", "train-data")
EVERY = ("PaddleJob", "PyTorchJob", "PodGroup")
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"


@dataclass
class ApiServer:
    """A running API server; `folder` has the kubeconfigs."""

    url: str
    folder: Path
    real: bool

    def write_kubeconfig(self, token: str = ADMIN, namespace: str = "default") -> str:
        """Write a kubeconfig with the token and return its path."""
        cluster = {"server": self.url, **({"insecure-skip-tls-verify": True} if self.real else {})}
        said = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
            "current-context": "x",
        }
        path = self.folder / f"{token}-{namespace}.json"
        path.write_text(json.dumps(said))
        return str(path)

    def send_request(self, method: str, path: str, body: Object | None = None) -> Any:
        """Send a request as administrator; return the response, None for 404."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=_make_trusting_context()) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as err:
            if err.code == 404:
                return None
            raise AssertionError(f"{method} {path}: {err.code} {err.read()[:500]!r}") from None

    def set_kinds(self, *kinds: str) -> None:
        """Install exactly these custom kinds of tests/data/crds."""
        for kind, crd in k8s_parts.load_crds().items():
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['plural']}.{crd['group']}"
            if kind not in kinds:
                self.send_request("DELETE", path)
            elif self.send_request("GET", path) is None:
                self.send_request("POST", path.rpartition("/")[0], make_definition(crd))
        until = time.monotonic() + READY_S
        for kind, crd in k8s_parts.load_crds().items():  # a real one serves a kind some time after it took it
            while (self.send_request("GET", make_path(crd)) is None) == (kind in kinds):
                assert time.monotonic() < until, f"{kind} is not as it should be"
                time.sleep(0.1)


def make_path(crd: Mapping[str, Any]) -> str:
    namespace = "" if crd.get("scope") == "Cluster" else "namespaces/default/"
    return f"/apis/{crd['group']}/{crd['served']}/{namespace}{crd['plural']}"


def make_definition(crd: Mapping[str, Any]) -> Object:
    """Return the CustomResourceDefinition; fields with Kubernetes schemas are not validated."""
    names = {
        "kind": crd["kind"],
        "listKind": f"{crd['kind']}List",
        "plural": crd["plural"],
        "singular": crd["kind"].lower(),
    }
    version = {
        "name": crd["served"],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": make_structural(crd["schema"])},
    }
    if "kubeflow" in crd["group"]:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{crd['plural']}.{crd['group']}",
            "annotations": {"api-approved.kubernetes.io": "https://example.org, a copy for tests"},
        },
        "spec": {"group": crd["group"], "names": names, "scope": crd.get("scope", "Namespaced"), "versions": [version]},
    }


def make_structural(node: Any) -> Any:
    """Return the schema as a server takes it: parts that tests/data/crds leaves out take any value."""
    if isinstance(node, list):
        return [make_structural(each) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return {"type": "object", **({} if "Meta" in node["$ref"] else ANY)}
    kept = {k: make_structural(v) for k, v in node.items() if k != "additionalProperties" or v is not False}
    if kept.get("anyOf") == [{"type": "integer"}, {"type": "string"}]:
        return {**kept, "x-kubernetes-int-or-string": True}
    if kept.get("type") == "array":
        return {"items": ANY, **kept}
    is_open = kept.get("type") == "object" and not {"properties", "additionalProperties"} & kept.keys()
    return {**kept, **ANY} if is_open else kept


def _make_trusting_context() -> ssl.SSLContext:
    """Return a TLS context that accepts the self-signed certificate of the real server."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def find_real_binaries() -> tuple[str, str] | None:
    """Return the paths of kube-apiserver (from ENVCHECK_KUBE_APISERVER) and etcd, None if one is missing."""
    server = os.environ.get("ENVCHECK_KUBE_APISERVER") or shutil.which("kube-apiserver")
    etcd = server and (shutil.which("etcd") or shutil.which("etcd", path=str(Path(server).parent)))
    return (server, etcd) if server and etcd else None


@contextlib.contextmanager
def start_real_api(folder: Path) -> Iterator[ApiServer]:
    """Start kube-apiserver and etcd on loopback; no kubelet runs the pods."""
    found = find_real_binaries()
    assert found
    server, etcd = found
    store, peer, port = find_free_port(), find_free_port(), find_free_port()
    (folder / "tokens.csv").write_text(f"{ADMIN},admin,1,system:masters\n{STRANGER},stranger,2,\n")
    subprocess.run(["openssl", "genrsa", "-out", folder / "sa.key", "2048"], check=True, capture_output=True)
    urls = {name: f"http://127.0.0.1:{number}" for name, number in (("store", store), ("peer", peer))}
    keys = ("--service-account-key-file", "--service-account-signing-key-file")
    commands = (
        [
            *(etcd, f"--data-dir={folder}/etcd", "--log-outputs=stderr"),
            *(f"--listen-client-urls={urls['store']}", f"--advertise-client-urls={urls['store']}"),
            *(f"--listen-peer-urls={urls['peer']}", f"--initial-advertise-peer-urls={urls['peer']}"),
            f"--initial-cluster=default={urls['peer']}",
        ],
        [
            *(server, f"--etcd-servers={urls['store']}", f"--secure-port={port}", "--bind-address=127.0.0.1"),
            "--allow-privileged",  # as clusters do whose nodes have device plugins
            *(f"--cert-dir={folder}/certs", f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC"),
            *(f"{key}={folder}/sa.key" for key in keys),
            *("--service-account-issuer=https://example.org", "--disable-admission-plugins=ServiceAccount"),
        ],
    )
    api = ApiServer(f"https://127.0.0.1:{port}", folder, True)
    with contextlib.ExitStack() as stack:
        for words in commands:
            log = stack.enter_context((folder / f"{Path(words[0]).name}.log").open("wb"))
            child = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
            stack.callback(_end_process, child)
        _wait_until_ready(api)
        yield api


def _wait_until_ready(api: ApiServer) -> None:
    until = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(AssertionError, OSError, ValueError):
            if api.send_request("GET", "/api/v1/namespaces/default") is not None:
                return
        assert time.monotonic() < until, (api.folder / "kube-apiserver.log").read_text()[-2000:]
        time.sleep(0.3)


def _end_process(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def start_envcheck(kubeconfig: str, *words: str) -> subprocess.Popen[str]:
    """Return the environment of a separate process; no variable points to another cluster."""
    command = [sys.executable, "-W", "ignore", "-m", "envcheck", "train", "--on", "k8s", *words]
    env, home = make_variables(kubeconfig), Path(kubeconfig).parent
    return subprocess.Popen(command, env=env, cwd=home, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def make_variables(kubeconfig: str) -> dict[str, str]:
    """Run envcheck with runs and index in the folder of the kubeconfig; return exit code, stdout and stderr."""
    own = {"ENVCHECK_HOME": str(Path(kubeconfig).parent / "home"), "HF_TOKEN": "hf_0123456789abcdefghijklmn"}
    return {**os.environ, "KUBECONFIG": kubeconfig, **own}


def run_envcheck(kubeconfig: str, *words: str) -> tuple[int, str, str]:
    child = start_envcheck(kubeconfig, *words)
    out, err = child.communicate(timeout=120)
    return child.returncode, out, err


def run_to_end(api: ApiServer, name: str, kind: str, *words: str) -> tuple[int, str, str]:
    """Submit and follow a job that the test ends with this condition; return exit code, stdout and stderr."""
    child = start_envcheck(api.write_kubeconfig(), *SWIFT, "--job-name", name, *words)
    until = time.monotonic() + 100
    while api.send_request("GET", f"{JOBS}/{name}") is None:
        assert child.poll() is None and time.monotonic() < until, child.communicate()
        time.sleep(0.2)
    for each in ("Running", kind):
        set_job_status(api, name, each)
    out, err = child.communicate(timeout=120)
    return child.returncode, out, err


def set_job_status(api: ApiServer, name: str, kind: str) -> None:
    """Set the condition of a job as the operator would."""
    now = "2026-01-01T00:00:00Z"
    said = {"type": kind, "status": "True", "reason": kind, "message": f"{name} is {kind}.", "lastUpdateTime": now}
    body = {"status": {"conditions": [{**said, "lastTransitionTime": now}], "replicaStatuses": {}}}
    api.send_request("PATCH", f"{JOBS}/{name}/status", body)
