"""`envcheck runs` and a job of a cluster: the tests' small API server stands for it, and a real one if there is."""

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
from launch.backends.k8s import status as standing
from tests.launch.backends.k8s import api_parts, api_small
from tests.launch.backends.k8s.api_parts import EVERY, JOBS, SWIFT, Api, becomes

pytestmark = pytest.mark.slow

kube_config = pytest.importorskip("kubernetes.config.kube_config", reason="the client is in the extra `k8s`")
PODS = "/api/v1/namespaces/default/pods"
STEPS = "".join(f"{{'loss': '{4 - n}.5', 'global_step': '{n}'}}\n" for n in (1, 2, 3))


@dataclass
class Desk:
    """Where somebody sits who gives jobs to the cluster; `kept` is what the small server holds, None for a real one."""

    api: Api
    kept: Any

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """In this process, which knows nothing yet: to load the client takes a second each time."""
        for cache in (standing._asked, standing._opened):
            cache.cache_clear()
        standing._dead.clear()
        out, err = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patch.chdir(self.api.folder)
            patch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", self.api.kubeconfig())  # read once, at import
            for name, value in api_parts.variables(self.api.kubeconfig()).items():
                patch.setenv(name, value)
            code = main._code(list(words))
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def submit(self, name: str) -> dict[str, Any]:
        done = self.call("train", "--on", "k8s", *SWIFT, "--job-name", name, "--detach", "--json")
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        jsonschema.validate(said, json.loads(schemas.text("train-k8s")))
        return said

    def record(self) -> dict[str, Any]:
        """Of the newest run."""
        newest = sorted(self.api.folder.glob("runs/*/run.json"))[-1]
        said: dict[str, Any] = json.loads(newest.read_text())
        jsonschema.validate(said, json.loads(schemas.text("run")))
        return said

    def pod(self, name: str, text: str, **status: Any) -> None:
        """One that the operator made, and what it has said."""
        labels = {"training.kubeflow.org/job-name": name.rpartition("-master-")[0]}
        self.kept.put(PODS, {"metadata": {"name": name, "labels": labels}, "status": status}, "ADDED")
        self.kept.objects.setdefault("logs", {})[name] = {"text": text}


@pytest.fixture(scope="module", params=["small", "real"] if api_parts.real_binaries() else ["small"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    if request.param == "real":
        with api_parts.real_api(folder) as api:
            api.has_kinds(*EVERY)
            yield Desk(api, None)
    else:
        with api_small.small_api(folder) as (api, kept):
            api.has_kinds(*EVERY)
            yield Desk(api, kept)


@pytest.fixture
def desk(running: Desk) -> Desk:
    """No run is known yet."""
    shutil.rmtree(running.api.folder / "runs", ignore_errors=True)
    return running


def test_a_job_from_the_queue_to_its_end(desk: Desk) -> None:
    """A job is listed while it waits and runs; its steps are followed to the end, and stay known when it is gone."""
    desk.submit("whole")
    waits = json.loads(desk.call("runs", "--json").stdout)["runs"]
    becomes(desk.api, "whole", "Running")
    if desk.kept:
        desk.pod("whole-master-0", STEPS)
    page = desk.call("runs", "show", "latest").stdout
    becomes(desk.api, "whole", "Succeeded")
    followed = desk.call("runs", "follow")
    desk.api.ask("DELETE", f"{JOBS}/whole")
    later = desk.call("runs", "show", "latest", "--json")

    assert [run["state"] for run in waits] == ["queued"]
    assert "job whole runs in default" in page
    assert followed.returncode == 0, followed.stderr
    assert json.loads(later.stdout)["state"] == desk.record()["state"] == "finished"
    if desk.kept:
        assert "now         step 3, loss 1.5000" in page
        assert "step 3" in followed.stdout + followed.stderr
        assert [loss for _, loss in desk.record()["loss"]] == [3.5, 2.5, 1.5]


def test_a_job_is_stopped(desk: Desk) -> None:
    """`runs stop` deletes the job, once; the record is an interrupted one, and a second stop has nothing to do."""
    desk.submit("halt")
    becomes(desk.api, "halt", "Running")
    stopped = desk.call("runs", "stop", "latest", "--yes")
    again = desk.call("runs", "stop", "latest", "--yes")

    assert stopped.returncode == 0, stopped.stderr
    assert "interrupted (exit 130)" in stopped.stdout
    assert desk.api.ask("GET", f"{JOBS}/halt") is None
    assert (again.returncode, "does not run" in again.stderr) == (2, True)
    assert desk.record()["kubernetes"]["state"] == "interrupted"


def test_another_job_of_the_name_is_left_alone(desk: Desk) -> None:
    """A job that was deleted and made anew by somebody is not the run's: that one is lost, and what is there stays."""
    desk.submit("twin")
    body = desk.api.ask("GET", f"{JOBS}/twin")
    desk.api.ask("DELETE", f"{JOBS}/twin")
    until = time.monotonic() + 60
    while desk.api.ask("GET", f"{JOBS}/twin") is not None and time.monotonic() < until:
        time.sleep(0.2)
    kept = {key: body["metadata"][key] for key in ("name", "labels")}
    desk.api.ask("POST", JOBS, {**{key: body[key] for key in ("apiVersion", "kind", "spec")}, "metadata": kept})
    stopped = desk.call("runs", "stop", "latest", "--yes")

    assert (stopped.returncode, "it is lost" in stopped.stderr) == (2, True), stopped
    assert desk.api.ask("GET", f"{JOBS}/twin") is not None
    assert "no such job any more" in desk.record()["error"]


def test_a_closed_gate_is_a_refused_run(desk: Desk) -> None:
    """A job whose pod's gate was closed is refused; the gate's report is kept, and shown by explain."""
    if not desk.kept:
        pytest.skip("nothing runs pods on this server")
    desk.submit("shut")
    over = {"name": "envcheck", "ready": False, "image": "i", "imageID": "i", "restartCount": 0}
    desk.pod(
        "shut-master-0",
        "[✗] gate.devices: 3 devices, 4 wanted\n",
        initContainerStatuses=[{**over, "state": {"terminated": {"exitCode": 1}}}],
    )
    becomes(desk.api, "shut", "Failed")
    page = desk.call("runs", "show", "latest").stdout
    told = desk.call("explain", desk.record()["folder"]).stdout

    assert "refused (exit 1)" in page
    assert "shut-master-0, envcheck: status 1" in page
    assert "nothing was started" in told and "docs/kubernetes.md" in told, told
    (kept,) = Path(desk.record()["folder"]).glob("log/shut-master-0.envcheck.log")
    assert "3 devices, 4 wanted" in kept.read_text()


def test_a_cluster_that_does_not_answer(desk: Desk, tmp_path: Path) -> None:
    """Where nobody can be asked a run goes on as far as is known, says why, and nothing of it is written."""
    desk.submit("far")
    before = desk.record()
    other = Desk(Api("http://127.0.0.1:9", tmp_path, False), None)
    shutil.copytree(desk.api.folder / "runs", tmp_path / "runs")
    page = other.call("runs", "show", "latest").stdout
    followed = other.call("runs", "follow")

    assert "state       running" in page
    assert "leads to another" in page
    assert (followed.returncode, "nobody says how the job stands" in followed.stderr) == (3, True)
    assert json.loads(next(tmp_path.glob("runs/*/run.json")).read_text()) == before
