"""`envcheck train --on k8s` without a cluster, and with a failed preflight check in a pod."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.launch.backends.k8s import api_small, k8s_parts
from tests.launch.backends.k8s.api_parts import EVERY, JOBS, SWIFT, ApiServer, run_envcheck, run_to_end

pytestmark = pytest.mark.slow

pytest.importorskip("kubernetes", reason="the official client is in the extra `k8s`")


def test_a_failed_check_is_shown_with_its_report(tmp_path: Path) -> None:
    """If an init container fails, the pod is named, its report is shown, and the exit code is 1."""
    with api_small.start_small_api(tmp_path) as (api, kept):
        api.set_kinds(*EVERY)
        over = {
            "state": {"terminated": {"exitCode": 1}},
            "name": "envcheck",
            "ready": False,
            "image": "i",
            "imageID": "i",
        }
        pod: dict[str, Any] = {
            "metadata": {"name": "shut-master-0", "labels": {"training.kubeflow.org/job-name": "shut"}}
        }
        pod |= {"status": {"initContainerStatuses": [{**over, "restartCount": 0}]}}
        kept.put_object("/api/v1/namespaces/default/pods", pod, "ADDED")
        report = "gate.devices: 3 devices, 4 wanted \x1b[31m\nHF_TOKEN=hf_0123456789abcdefghijklmn"
        kept.objects["logs"] = {"shut-master-0": {"text": report}}
        code, out, err = run_to_end(api, "shut", "Failed", "--json")

    assert code == 1, err
    assert "pod shut-master-0, container envcheck: exit code 1; log:\n  gate.devices: 3 devices, 4 wanted" in err
    assert "\x1b" not in err and "hf_0123456789" not in err
    assert json.loads(out)["pods"] == [{"pod": "shut-master-0", "container": "envcheck", "status": 1}]


def test_a_disconnected_watch_is_renewed(tmp_path: Path) -> None:
    """A watch that is disconnected is renewed, and the end of the job is reported."""
    with api_small.start_small_api(tmp_path) as (api, kept):
        api.set_kinds(*EVERY)
        kept.cuts = 2
        code, _, err = run_to_end(api, "cut", "Succeeded")

    assert (code, kept.cuts, "succeeded: cut is Succeeded." in err) == (0, 0, True), err


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("{{{", "cannot load the Kubernetes configuration"),
        ("apiVersion: v1\nkind: Config\n", "cannot load the Kubernetes configuration"),
        (None, "cannot load the Kubernetes configuration"),
    ],
)
def test_no_cluster_is_one_sentence(tmp_path: Path, config: str | None, expected: str) -> None:
    """A missing, empty or invalid kubeconfig is an error that mentions --dry-run."""
    path = tmp_path / "config"
    if config is not None:
        path.write_text(config)
    code, _, err = run_envcheck(str(path), *SWIFT, "--detach")

    assert (code, expected in err, "--dry-run" in err) == (4, True, True), err


def test_an_absent_server_is_one_sentence(tmp_path: Path) -> None:
    """A connection error ends with exit code 4 and one message."""
    config = ApiServer("http://127.0.0.1:9", tmp_path, False).write_kubeconfig()
    code, _, err = run_envcheck(config, *SWIFT, "--detach")

    assert (code, "cannot connect to the cluster" in err, len(err.splitlines())) == (4, True, 2), err


def test_an_absent_library_is_one_sentence(tmp_path: Path) -> None:
    """Without the client the error shows how to install it; --dry-run works without it."""
    (tmp_path / "kubernetes.py").write_text("raise ImportError('none')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "envcheck", "train", "--on", "k8s", *SWIFT]
    absent = subprocess.run(command, env=env, text=True, capture_output=True, timeout=120, check=False)
    shown = subprocess.run([*command, "--dry-run"], env=env, text=True, capture_output=True, timeout=120, check=False)

    assert (absent.returncode, "envcheck-toolkit[k8s]" in absent.stderr) == (4, True), absent.stderr
    assert shown.returncode == 0, shown.stderr


def test_the_small_server_refuses_what_the_schemas_refuse(tmp_path: Path) -> None:
    """The test server rejects a misspelt field, like the published schemas."""
    body: dict[str, Any] = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "x"}}
    body |= {"spec": {"pytorchReplicaSpecs": {"Master": {"replica": 1}}}}
    with api_small.start_small_api(tmp_path) as (api, _):
        api.set_kinds(*EVERY)
        with pytest.raises(AssertionError, match="422"):
            api.send_request("POST", JOBS, body)

    assert k8s_parts.list_errors(body)
