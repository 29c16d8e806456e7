"""A training in a container whose supervisor is killed goes on; it is found, adopted and stopped.  Real engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.job.command import render_command
from installers.recipes.recipe import Hardware, Recipe, RecipeContainer, RecipeJob
from launch.run import container_orphan, launcher, record
from launch.run.container_stage import ContainerStage
from launch.runs import run_index
from launch.stop_run import stop_run
from launch.targets import clean_environment
from tests.installers.images.engine_parts import DockerEngine
from tests.launch.runs.stand_in import wait_until

pytestmark = pytest.mark.real

NAME = "envcheck-test-orphan"
STEPS = 'for n in $(seq 1 600); do echo "{\\"step\\": $n, \\"loss\\": 1.5}"; sleep 0.1; done'
SUPERVISE = "import sys; from tests.launch.run import test_container_orphan as t; t.supervise_run(*sys.argv[1:])"


def make_stage() -> ContainerStage:
    jobs = (RecipeJob("lora", "", ("sh", "-c", STEPS)),)
    recipe = Recipe("boxed", "", "cpu", "envcheck", ("boxed",), Hardware("any"), jobs, interpreter="python3")
    return ContainerStage(recipe.__class__(**{**vars(recipe), "container": RecipeContainer(NAME)}))


def supervise_run(folder: str) -> None:
    """Supervise a run in the container; the test kills this process."""
    run, stage = Path(folder), make_stage()
    made = render_command(stage.recipe, stage.recipe.jobs[0], {})
    base = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    tidy = clean_environment.clean_variables(base, made, "cpu", stage.run_mark(run))

    def note_start(training: launcher.Training) -> None:
        said = {"state": "running", "pid": os.getpid(), "container": NAME, "launcher": training.describe_processes()}
        record.save_record(run, {**said, "pid_started": 1.0})

    launcher.launch_training(stage, made, tidy, run, lambda _step: None, None, note_start)


@pytest.fixture
def run(engine: DockerEngine, python_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run in the container whose supervisor was killed after its first steps."""
    for name, value in engine.child_environment.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "20261121-091500-boxed-77aa"
    (folder / "log").mkdir(parents=True)
    engine.run_docker("run", "-d", "--name", NAME, python_image, "sleep", "600")
    with subprocess.Popen([sys.executable, "-c", SUPERVISE, str(folder)]) as supervisor:
        try:
            log = folder / "log" / "launcher.log"
            wait_until(lambda: log.exists() and '"step": 3,' in log.read_text(), "a step")
            supervisor.send_signal(signal.SIGKILL)
            supervisor.wait()
            yield folder
        finally:
            supervisor.kill()
            engine.run_docker("rm", "-f", NAME, check=False)


def test_an_orphan_in_a_container(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on; who adopts it gets all of its log, also what was written without a supervisor; `stop` ends it."""
    orphan = run_index.find_run(str(run), None)
    assert orphan.state == "orphaned"
    assert container_orphan.list_pids(run, orphan.said)

    training = make_stage().attach_training(run)
    log, before = run / "log" / "launcher.log", len((run / "log" / "launcher.log").read_text().splitlines())
    wait_until(lambda: len(log.read_text().splitlines()) > before + 3, "the rest of the log")
    steps = [int(line.split(":")[1].split(",")[0]) for line in log.read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1))
    assert training.poll() is None
    training._socket.close()  # as if this supervisor were killed as well
    training.client.close()

    stopped = stop_run(run_index.find_run(str(run), None))
    assert stopped.state == "stopped"
    assert container_orphan.list_pids(run, orphan.said) == ()
