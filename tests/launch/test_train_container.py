"""`envcheck train` in the recipe's container: real engine and paddle, simulated cards."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installers import paddle_parts
from tests.installers.images.engine_parts import DockerEngine
from tests.installers.provision_helpers import serve_index
from tests.launch.watching.test_launcher_errors import LAUNCHER
from tests.tiers import thin_out

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
NAME = "envcheck-test-train"
SECRET = "s3cr3t-of-the-test"
KILL = """for p in /proc/[0-9]*; do
tr '\\0' '\\n' <$p/environ | grep -qx PADDLE_TRAINER_ID=1 && kill -9 ${p#/proc/}
done 2>/dev/null; true"""


class ContainerTrainCommand:
    """The command in its own folder on a simulated machine with 16 cards."""

    def __init__(self, engine: DockerEngine, folder: Path) -> None:
        self.engine, self.folder = engine, folder

    def make_argv(self, verb: str, *more: str) -> list[str]:
        around = [sys.executable, "-m", "envcheck", "simulate", "atlas-200t-a2-box16", "--"]
        around += ["env", f"DOCKER_HOST={self.engine.docker_host}"]
        named = ["--recipe", "boxed-train"]
        named += [] if "--recipes" in more else ["--recipes", str(self.folder / "recipes")]
        return [*around, sys.executable, "-m", "envcheck", verb, *named, *more]

    @property
    def child_variables(self) -> dict[str, str]:
        own = {"ENVCHECK_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        return {**self.engine.child_environment, **own, "RANK": "7"}

    def run_command(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        argv = self.make_argv(verb, *more)
        return subprocess.run(
            argv, cwd=self.folder, env=self.child_variables, capture_output=True, text=True, timeout=500
        )

    def start_training(self, *more: str) -> subprocess.Popen[str]:
        argv = self.make_argv("train", *more)
        self.old = {path.name for path in (self.folder / "runs").glob("*")}
        return subprocess.Popen(
            argv, cwd=self.folder, env=self.child_variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run_inside(self, *argv: str) -> str:
        return self.engine.run_docker("exec", NAME, *argv).stdout

    def list_remaining(self) -> str:
        """Return the processes in the container except its first one."""
        script = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done"
        return "\n".join(line for line in self.run_inside("sh", "-c", script).splitlines() if "tiny.py" in line)

    def read_record(self) -> dict[str, object]:
        newest = max((self.folder / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime)
        return dict(json.loads(newest.read_text()))

    def wait_for_log(self, until: str, seconds: float = 300) -> None:
        """Wait until a log of the newest run contains the text."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            fresh = [
                path for path in (self.folder / "runs").glob("*/log/workerlog.*") if path.parts[-3] not in self.old
            ]
            if any(until in log.read_text(errors="replace") for log in fresh):
                return
            time.sleep(0.2)
        raise AssertionError(f"no log said {until}")


@pytest.fixture(scope="module")
def trainer(
    engine: DockerEngine, python_image: str, paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ContainerTrainCommand]:
    folder = tmp_path_factory.mktemp("boxed-train")
    wheels = paddle_parts.make_index(folder / "index", "3.11")
    paddle_parts.write_plugin_wheel(wheels, "paddle-custom-npu", "3.1.0", paddle_environment, "npu", folder / "plugin")
    with serve_index(wheels) as served:
        (folder / "recipes").mkdir()
        text = paddle_parts.make_two_npu_recipe("train", python_image, NAME, served.base_url, f'HF_TOKEN = "{SECRET}"')
        (folder / "recipes" / "boxed.toml").write_text(text)
        made = ContainerTrainCommand(engine, folder)
        try:
            refused = made.run_command("train", "--json")
            assert refused.returncode == 1, refused.stderr
            closed = [gate["name"] for gate in json.loads(refused.stdout)["gates"] if gate["status"] == "FAIL"]
            assert closed == ["gate.environment"], refused.stderr
            done = made.run_command("provision", "--yes", "--as-published")
            assert done.returncode == 0, done.stdout + done.stderr
            yield made
        finally:
            engine.run_docker("rm", "-f", NAME, check=False)


def test_trains_in_the_container(trainer: ContainerTrainCommand) -> None:
    """The record on the host has steps, loss, checkpoints, packages and logs; no process remains."""
    done = trainer.run_command("train", "--json")

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["state"], said["container"]) == ("succeeded", NAME)
    assert [step for step, _ in said["loss"]] == [1, 2, 3, 4, 5]
    assert said["checkpoints"] == [f"/var/tmp/envcheck/runs/{Path(said['folder']).name}/output/checkpoint-5"]
    assert said["versions"]["packages"]["paddlepaddle"] == "3.1.0"
    assert trainer.run_inside("ls", said["checkpoints"][0])
    assert said["leftover_pids"] == []
    assert "RANK" not in said["dropped_variables"]["stale"]  # this host's own is not the container's
    assert trainer.list_remaining() == ""


def test_gates_in_the_container(trainer: ContainerTrainCommand) -> None:
    """All gates pass inside; data that exists only on the host is refused with the list of mounts."""
    told, refused = (
        trainer.run_command("train", "--gates", "--json"),
        trainer.run_command("train", "--data", "nothing.txt"),
    )
    found = {gate["name"]: gate["seen"] for gate in json.loads(told.stdout)["gates"]}

    assert told.returncode == 0, told.stderr
    assert found["gate.container"] == f"the job runs in container {NAME}"
    assert refused.returncode == 1
    assert "The container mounts no folder of this host. Use paths inside the container." in refused.stderr
    assert '--waive NAME --because "REASON" (recorded); names: data' in refused.stderr


def test_no_secret_stays(trainer: ContainerTrainCommand) -> None:
    """The launcher's copies of the environment are removed here and there; the log folder is private."""
    done = trainer.run_command("train", "--steps", "1", "--json")
    run = Path(json.loads(done.stdout)["folder"])
    there = f"/var/tmp/envcheck/runs/{run.name}"

    assert done.returncode == 0, done.stderr
    assert trainer.run_inside("stat", "-c", "%a", f"{there}/log").strip() == "700"
    assert "workerlog.1" in trainer.run_inside("ls", f"{there}/log")
    assert trainer.run_inside("sh", "-c", f"grep -rl {SECRET} /var/tmp/envcheck || true") == ""
    assert stat.S_IMODE((run / "log").stat().st_mode) == 0o700
    assert not [path for path in run.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_a_worker_killed_in_the_container(trainer: ContainerTrainCommand) -> None:
    """The worker that was killed first is named with its signal."""
    run = trainer.start_training("--steps", "100000")
    trainer.wait_for_log('"step": 3')
    trainer.run_inside("sh", "-c", KILL)
    _, err = run.communicate(timeout=90)

    assert run.returncode == 5, err
    assert "worker 1 failed first, killed by SIGKILL" in err
    assert trainer.list_remaining() == ""


def test_launcher_that_failed_in_the_container(trainer: ContainerTrainCommand) -> None:
    """A launcher that failed but stays alive is ended after its worker, with an explanation of its last line."""
    trainer.run_inside("sh", "-c", 'printf %s "$1" >/launch', "sh", LAUNCHER)
    own = trainer.folder / "failing"
    own.mkdir()
    text = (trainer.folder / "recipes" / "boxed.toml").read_text()
    (own / "boxed.toml").write_text(text.replace('"-m", "paddle.distributed.launch"', '"/launch"'))
    done = trainer.run_command("train", "--recipes", str(own), "--limit", "launcher.seconds=1")

    assert done.returncode == 5, done.stderr
    assert "watch.launcher: the launcher failed but did not exit" in done.stderr
    assert "cause       " in done.stderr
    assert len(list((trainer.folder / "runs").glob("*/log/worked"))) == 1


@pytest.mark.parametrize("sign", thin_out(1, (signal.SIGKILL, signal.SIGINT)))
def test_no_process_remains_in_the_container(trainer: ContainerTrainCommand, sign: signal.Signals) -> None:
    """Interrupted, envcheck leaves no process in the container; killed, it leaves an orphan that `runs stop` ends."""
    run = trainer.start_training("--steps", "100000")
    trainer.wait_for_log('"step": 3')
    for place in Path("/proc").glob("[0-9]*"):
        words = read_cmdline(place)
        if b"envcheck\0train" in words and bytes(trainer.folder) in words:  # ours alone: others test here as well
            os.kill(int(place.name), sign)
    run.communicate(timeout=60)
    if sign is signal.SIGKILL:
        argv = [sys.executable, "-m", "envcheck", "runs", "stop", "latest", "--runs", "runs", "--yes"]
        assert trainer.list_remaining() != ""
        subprocess.run(argv, cwd=trainer.folder, env=trainer.child_variables, check=True, timeout=200)
    until = time.monotonic() + 120
    while trainer.list_remaining() and time.monotonic() < until:
        time.sleep(0.3)

    assert trainer.list_remaining() == ""
    if sign is signal.SIGINT:
        assert run.returncode == 130
        assert trainer.read_record()["state"] == "stopped"
        assert trainer.read_record()["leftover_pids"] == []


def read_cmdline(place: Path) -> bytes:
    try:
        return (place / "cmdline").read_bytes()
    except OSError:
        return b""
