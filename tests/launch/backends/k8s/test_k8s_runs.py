"""`envcheck runs` with Kubernetes jobs, on the small API server of the tests and on a real one if available."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envcheck.cli import main, schemas
from launch.backends.k8s import status as job_status
from tests.launch.backends.k8s import api_parts, api_small
from tests.launch.backends.k8s.api_parts import EVERY, JOBS, SWIFT, ApiServer, set_job_status

pytestmark = pytest.mark.slow

kube_config = pytest.importorskip("kubernetes.config.kube_config", reason="the client is in the extra `k8s`")
PODS = "/api/v1/namespaces/default/pods"
STEPS = "".join(f"{{'loss': '{4 - n}.5', 'global_step': '{n}'}}\n" for n in (1, 2, 3))


@dataclass
class SubmitDesk:
    """A user who submits jobs; `kept` is the state of the small server, None for a real one."""

    api: ApiServer
    kept: Any

    def run_envcheck(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run envcheck in this process with empty caches: loading the client in a new process takes a second."""
        for cache in (job_status._query_job_status, job_status._connect_cached):
            cache.cache_clear()
        job_status._unreachable.clear()
        out, err = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patch.chdir(self.api.folder)
            patch.setattr(
                kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", self.api.write_kubeconfig()
            )  # read once, at import
            for name, value in api_parts.make_variables(self.api.write_kubeconfig()).items():
                patch.setenv(name, value)
            code = main._run_command(list(words))
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def submit_job(self, name: str) -> dict[str, Any]:
        done = self.run_envcheck("train", "--on", "k8s", *SWIFT, "--job-name", name, "--detach", "--json")
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        jsonschema.validate(document, json.loads(schemas.render_schema("train-k8s")))
        return document

    def read_record(self) -> dict[str, Any]:
        """Return the record of the newest run."""
        newest = sorted(self.api.folder.glob("runs/*/run.json"))[-1]
        document: dict[str, Any] = json.loads(newest.read_text())
        jsonschema.validate(document, json.loads(schemas.render_schema("run")))
        return document

    def add_pod(self, name: str, text: str, **status: Any) -> None:
        """Add a pod as the operator would, with the text of its log."""
        labels = {"training.kubeflow.org/job-name": name.rpartition("-master-")[0]}
        self.kept.put_object(PODS, {"metadata": {"name": name, "labels": labels}, "status": status}, "ADDED")
        self.kept.objects.setdefault("logs", {})[name] = {"text": text}


@pytest.fixture(scope="module", params=["small", "real"] if api_parts.find_real_binaries() else ["small"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SubmitDesk]:
    folder = tmp_path_factory.mktemp("desk")
    if request.param == "real":
        with api_parts.start_real_api(folder) as api:
            api.set_kinds(*EVERY)
            yield SubmitDesk(api, None)
    else:
        with api_small.start_small_api(folder) as (api, kept):
            api.set_kinds(*EVERY)
            yield SubmitDesk(api, kept)


@pytest.fixture
def desk(running: SubmitDesk) -> SubmitDesk:
    """Without any run."""
    shutil.rmtree(running.api.folder / "runs", ignore_errors=True)
    return running


def test_a_job_from_the_queue_to_its_end(desk: SubmitDesk) -> None:
    """A job is listed while pending and running; its steps are followed to the end, and stay known after its
    deletion."""
    desk.submit_job("whole")
    waits = json.loads(desk.run_envcheck("runs", "--json").stdout)["runs"]
    set_job_status(desk.api, "whole", "Running")
    if desk.kept:
        desk.add_pod("whole-master-0", STEPS)
    page = desk.run_envcheck("runs", "show", "latest").stdout
    set_job_status(desk.api, "whole", "Succeeded")
    followed = desk.run_envcheck("runs", "follow")
    desk.api.send_request("DELETE", f"{JOBS}/whole")
    later = desk.run_envcheck("runs", "show", "latest", "--json")

    assert [run["state"] for run in waits] == ["queued"]
    assert "job whole is running in namespace default" in page
    assert followed.returncode == 0, followed.stderr
    assert json.loads(later.stdout)["state"] == desk.read_record()["state"] == "succeeded"
    if desk.kept:
        assert "progress    step 3, loss 1.5000" in page
        assert "step 3" in followed.stdout + followed.stderr
        assert [loss for _, loss in desk.read_record()["loss"]] == [3.5, 2.5, 1.5]


def test_a_job_is_stopped(desk: SubmitDesk) -> None:
    """`runs stop` deletes the job and records it as interrupted; a second stop has nothing to do."""
    desk.submit_job("halt")
    set_job_status(desk.api, "halt", "Running")
    stopped = desk.run_envcheck("runs", "stop", "latest", "--yes")
    again = desk.run_envcheck("runs", "stop", "latest", "--yes")

    assert stopped.returncode == 0, stopped.stderr
    assert "stopped (exit code 130)" in stopped.stdout
    assert desk.api.send_request("GET", f"{JOBS}/halt") is None
    assert (again.returncode, "is not running (state: stopped)" in again.stderr) == (2, True)
    assert desk.read_record()["kubernetes"]["state"] == "stopped"


def test_another_job_of_the_name_is_left_alone(desk: SubmitDesk) -> None:
    """If the job was deleted and another one with its name created, the run is lost and the other job is not
    touched."""
    desk.submit_job("twin")
    body = desk.api.send_request("GET", f"{JOBS}/twin")
    desk.api.send_request("DELETE", f"{JOBS}/twin")
    until = time.monotonic() + 60
    while desk.api.send_request("GET", f"{JOBS}/twin") is not None and time.monotonic() < until:
        time.sleep(0.2)
    kept = {key: body["metadata"][key] for key in ("name", "labels")}
    desk.api.send_request(
        "POST", JOBS, {**{key: body[key] for key in ("apiVersion", "kind", "spec")}, "metadata": kept}
    )
    stopped = desk.run_envcheck("runs", "stop", "latest", "--yes")

    assert (stopped.returncode, "is not running (state: lost)" in stopped.stderr) == (2, True), stopped
    assert desk.api.send_request("GET", f"{JOBS}/twin") is not None
    assert "the job no longer exists in the cluster" in desk.read_record()["error"]


def test_a_closed_gate_is_a_refused_run(desk: SubmitDesk) -> None:
    """A job with a failed preflight check in a pod is refused; the report of the check is saved, and shown by
    explain."""
    if not desk.kept:
        pytest.skip("nothing runs pods on this server")
    desk.submit_job("shut")
    over = {"name": "envcheck", "ready": False, "image": "i", "imageID": "i", "restartCount": 0}
    desk.add_pod(
        "shut-master-0",
        "[✗] gate.devices: 3 devices, 4 wanted\n",
        initContainerStatuses=[{**over, "state": {"terminated": {"exitCode": 1}}}],
    )
    set_job_status(desk.api, "shut", "Failed")
    page = desk.run_envcheck("runs", "show", "latest").stdout
    explained = desk.run_envcheck("explain", desk.read_record()["folder"]).stdout

    assert "refused (exit code 1)" in page
    assert "pod shut-master-0, container envcheck: exit code 1" in page
    assert "the training was not started" in explained and "docs/how-to/kubernetes.md" in explained, explained
    (kept,) = Path(desk.read_record()["folder"]).glob("log/shut-master-0.envcheck.log")
    assert "3 devices, 4 wanted" in kept.read_text()


def test_a_cluster_that_does_not_answer(desk: SubmitDesk, tmp_path: Path) -> None:
    """If the cluster is not reachable, a run keeps its last state, the reason is shown, and its record is not
    changed."""
    desk.submit_job("far")
    before = desk.read_record()
    other = SubmitDesk(ApiServer("http://127.0.0.1:9", tmp_path, False), None)
    shutil.copytree(desk.api.folder / "runs", tmp_path / "runs")
    page = other.run_envcheck("runs", "show", "latest").stdout
    followed = other.run_envcheck("runs", "follow")

    assert "state       running" in page
    assert "the state of job far in namespace default is unknown: " in page and "is another cluster" in page
    assert (followed.returncode, "cannot determine the state of job far" in followed.stderr) == (3, True)
    assert json.loads(next(tmp_path.glob("runs/*/run.json")).read_text()) == before
