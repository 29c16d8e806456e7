"""`envcheck train --on k8s` where no cluster answers, and where a pod's gate is closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.launch.backends.k8s import api_small, k8s_parts
from tests.launch.backends.k8s.api_parts import EVERY, JOBS, SWIFT, Api, done, ended

pytestmark = pytest.mark.slow

pytest.importorskip("kubernetes", reason="the official client is in the extra `k8s`")


def test_a_closed_gate_is_shown_with_its_report(tmp_path: Path) -> None:
    """Of a job whose init container ended badly, the pod is named, its report is shown, and the code is 1."""
    with api_small.small_api(tmp_path) as (api, kept):
        api.has_kinds(*EVERY)
        over = {
            "state": {"terminated": {"exitCode": 1}},
            "name": "envcheck",
            "ready": False,
            "image": "i",
            "imageID": "i",
        }
        pod = {"metadata": {"name": "shut-master-0", "labels": {"training.kubeflow.org/job-name": "shut"}}}
        pod |= {"status": {"initContainerStatuses": [{**over, "restartCount": 0}]}}
        kept.put("/api/v1/namespaces/default/pods", pod, "ADDED")
        report = "gate.devices: 3 devices, 4 wanted \x1b[31m\nHF_TOKEN=hf_0123456789abcdefghijklmn"
        kept.objects["logs"] = {"shut-master-0": {"text": report}}
        code, out, err = ended(api, "shut", "Failed", "--json")

    assert code == 1, err
    assert "shut-master-0, envcheck, status 1:\n  gate.devices: 3 devices, 4 wanted" in err
    assert "\x1b" not in err and "hf_0123456789" not in err
    assert json.loads(out)["pods"] == [{"pod": "shut-master-0", "container": "envcheck", "status": 1}]


def test_a_way_that_is_cut_is_taken_again(tmp_path: Path) -> None:
    """A watch that breaks off in the middle is opened again; the job's end is told all the same."""
    with api_small.small_api(tmp_path) as (api, kept):
        api.has_kinds(*EVERY)
        kept.cuts = 2
        code, _, err = ended(api, "cut", "Succeeded")

    assert (code, kept.cuts, "succeeded: cut is Succeeded." in err) == (0, 0, True), err


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("{{{", "no cluster is configured"),
        ("apiVersion: v1\nkind: Config\n", "no cluster is configured"),
        (None, "no cluster"),
    ],
)
def test_no_cluster_is_one_sentence(tmp_path: Path, config: str | None, told: str) -> None:
    """A kubeconfig that is absent, empty or no YAML is told in a sentence with what shows the documents without one."""
    path = tmp_path / "config"
    if config is not None:
        path.write_text(config)
    code, _, err = done(str(path), *SWIFT, "--detach")

    assert (code, told in err, "--dry-run" in err) == (4, True, True), err


def test_an_absent_server_is_one_sentence(tmp_path: Path) -> None:
    """Nobody listens: code 4 and a sentence."""
    config = Api("http://127.0.0.1:9", tmp_path, False).kubeconfig()
    code, _, err = done(config, *SWIFT, "--detach")

    assert (code, "does not answer" in err, len(err.splitlines())) == (4, True, 2), err


def test_an_absent_library_is_one_sentence(tmp_path: Path) -> None:
    """Without the extra the sentence says how to install it; the documents need no library."""
    (tmp_path / "kubernetes.py").write_text("raise ImportError('none')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "envcheck", "train", "--on", "k8s", *SWIFT]
    absent = subprocess.run(command, env=env, text=True, capture_output=True, timeout=120, check=False)
    shown = subprocess.run([*command, "--dry-run"], env=env, text=True, capture_output=True, timeout=120, check=False)

    assert (absent.returncode, "envcheck-toolkit[k8s]" in absent.stderr) == (4, True), absent.stderr
    assert shown.returncode == 0, shown.stderr


def test_the_small_server_refuses_what_the_schemas_refuse(tmp_path: Path) -> None:
    """A job with a misspelt field is not taken: what the tests' server takes, the published schemas take."""
    body: dict[str, Any] = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "x"}}
    body |= {"spec": {"pytorchReplicaSpecs": {"Master": {"replica": 1}}}}
    with api_small.small_api(tmp_path) as (api, _):
        api.has_kinds(*EVERY)
        with pytest.raises(AssertionError, match="422"):
            api.ask("POST", JOBS, body)

    assert k8s_parts.wrong(body)
