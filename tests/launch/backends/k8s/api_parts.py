"""An API server for `--on k8s`, and envcheck as a process that asks it.

The tests' own small one is api_small.  ENVCHECK_KUBE_APISERVER names a real kube-apiserver, beside which or on the
PATH stands `etcd`; then the same tests ask both.  docs/kubernetes.md tells how to build one.
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

from tests.installers.images.engine_parts import free_port
from tests.launch.backends.k8s import k8s_parts

ADMIN, TENANT, STRANGER = "admin-token", "tenant-token", "stranger-token"
USERS = {f"Bearer {ADMIN}": "admin", f"Bearer {TENANT}": "tenant", f"Bearer {STRANGER}": "stranger"}
READY_S = 180.0
Object = dict[str, Any]
SWIFT = ("--recipe", "qwen-7b-npu-swift", "--method", "lora", "--variant", "zero3", "--storage", "train-data")
EVERY = ("PaddleJob", "PyTorchJob", "PodGroup")
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"


@dataclass
class Api:
    """`kinds` are the custom ones that the cluster has; `folder` holds the kubeconfigs."""

    url: str
    folder: Path
    real: bool

    def kubeconfig(self, token: str = ADMIN, namespace: str = "default") -> str:
        """The path of one; the token is in it and nowhere else."""
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

    def ask(self, method: str, path: str, body: Object | None = None) -> Any:
        """As an administrator; the answer, or None for 404."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=_trusting()) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as err:
            if err.code == 404:
                return None
            raise AssertionError(f"{method} {path}: {err.code} {err.read()[:500]!r}") from None

    def has_kinds(self, *kinds: str) -> None:
        """The custom resources of tests/data/crds by these kinds, and no others."""
        for kind, crd in k8s_parts.crds().items():
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['plural']}.{crd['group']}"
            if kind not in kinds:
                self.ask("DELETE", path)
            elif self.ask("GET", path) is None:
                self.ask("POST", path.rpartition("/")[0], definition(crd))
        until = time.monotonic() + READY_S
        for kind, crd in k8s_parts.crds().items():  # a real one serves a kind some time after it took it
            while (self.ask("GET", place(crd)) is None) == (kind in kinds):
                assert time.monotonic() < until, f"{kind} is not as it should be"
                time.sleep(0.1)


def place(crd: Mapping[str, Any]) -> str:
    return f"/apis/{crd['group']}/{crd['served']}/namespaces/default/{crd['plural']}"


def definition(crd: Mapping[str, Any]) -> Object:
    """The CustomResourceDefinition; what Kubernetes' own schema has is taken as it comes."""

    def open_(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return {
                    "type": "object",
                    **({} if "Meta" in node["$ref"] else {"x-kubernetes-preserve-unknown-fields": True}),
                }
            kept = {
                key: open_(value) for key, value in node.items() if key != "additionalProperties" or value is not False
            }
            whole = kept.get("anyOf") == [{"type": "integer"}, {"type": "string"}]
            return {**kept, "x-kubernetes-int-or-string": True} if whole else kept
        return [open_(each) for each in node] if isinstance(node, list) else node

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
        "schema": {"openAPIV3Schema": open_(crd["schema"])},
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
        "spec": {"group": crd["group"], "names": names, "scope": "Namespaced", "versions": [version]},
    }


def _trusting() -> ssl.SSLContext:
    """The real one makes its certificate itself."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def real_binaries() -> tuple[str, str] | None:
    """(kube-apiserver, etcd), where they are to be had: ENVCHECK_KUBE_APISERVER names the first, no registry has it."""
    server = os.environ.get("ENVCHECK_KUBE_APISERVER") or shutil.which("kube-apiserver")
    etcd = server and (shutil.which("etcd") or shutil.which("etcd", path=str(Path(server).parent)))
    return (server, etcd) if server and etcd else None


@contextlib.contextmanager
def real_api(folder: Path) -> Iterator[Api]:
    """kube-apiserver over etcd, both on loopback, as processes of this test; nothing runs the pods."""
    found = real_binaries()
    assert found
    server, etcd = found
    store, peer, port = free_port(), free_port(), free_port()
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
            *(f"--cert-dir={folder}/certs", f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC"),
            *(f"{key}={folder}/sa.key" for key in keys),
            *("--service-account-issuer=https://example.org", "--disable-admission-plugins=ServiceAccount"),
        ],
    )
    api = Api(f"https://127.0.0.1:{port}", folder, True)
    with contextlib.ExitStack() as stack:
        for words in commands:
            log = stack.enter_context((folder / f"{Path(words[0]).name}.log").open("wb"))
            child = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
            stack.callback(_ended, child)
        _ready(api)
        yield api


def _ready(api: Api) -> None:
    until = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(AssertionError, OSError, ValueError):
            if api.ask("GET", "/api/v1/namespaces/default") is not None:
                return
        assert time.monotonic() < until, (api.folder / "kube-apiserver.log").read_text()[-2000:]
        time.sleep(0.3)


def _ended(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def started(kubeconfig: str, *words: str) -> subprocess.Popen[str]:
    """A process of its own, as a user has it; nothing of the tests' environment leads to another cluster."""
    command = [sys.executable, "-W", "ignore", "-m", "envcheck", "train", "--on", "k8s", *words]
    env, home = variables(kubeconfig), Path(kubeconfig).parent
    return subprocess.Popen(command, env=env, cwd=home, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def variables(kubeconfig: str) -> dict[str, str]:
    """Runs are kept below the kubeconfig's folder, and known there alone."""
    own = {"ENVCHECK_HOME": str(Path(kubeconfig).parent / "home"), "HF_TOKEN": "hf_0123456789abcdefghijklmn"}
    return {**os.environ, "KUBECONFIG": kubeconfig, **own}


def done(kubeconfig: str, *words: str) -> tuple[int, str, str]:
    child = started(kubeconfig, *words)
    out, err = child.communicate(timeout=120)
    return child.returncode, out, err


def ended(api: Api, name: str, kind: str, *words: str) -> tuple[int, str, str]:
    """The job's process, once the operator (the test) has said how it ended."""
    child = started(api.kubeconfig(), *SWIFT, "--job-name", name, *words)
    until = time.monotonic() + 100
    while api.ask("GET", f"{JOBS}/{name}") is None:
        assert child.poll() is None and time.monotonic() < until, child.communicate()
        time.sleep(0.2)
    for each in ("Running", kind):
        becomes(api, name, each)
    out, err = child.communicate(timeout=120)
    return child.returncode, out, err


def becomes(api: Api, name: str, kind: str) -> None:
    """What the operator would write into the job's status."""
    now = "2026-01-01T00:00:00Z"
    said = {"type": kind, "status": "True", "reason": kind, "message": f"{name} is {kind}.", "lastUpdateTime": now}
    body = {"status": {"conditions": [{**said, "lastTransitionTime": now}], "replicaStatuses": {}}}
    api.ask("PATCH", f"{JOBS}/{name}/status", body)
