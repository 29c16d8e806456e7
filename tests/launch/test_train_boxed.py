"""`envcheck train` in the recipe's container, by the command: real engine, real paddle, cards that are not there."""

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
from tests.installers.images.engine_parts import Engine
from tests.installers.provision_helpers import serving
from tests.launch.watching.test_watch_fallen import LAUNCHER
from tests.tiers import thin_out

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
NAME = "envcheck-test-train"
SECRET = "s3cr3t-of-the-test"
KILL = """for p in /proc/[0-9]*; do
tr '\\0' '\\n' <$p/environ | grep -qx PADDLE_TRAINER_ID=1 && kill -9 ${p#/proc/}
done 2>/dev/null; true"""


class Trainer:
    """The command, in a folder of its own, on a simulated machine of 16 cards."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder

    def argv(self, verb: str, *more: str) -> list[str]:
        around = [sys.executable, "-m", "envcheck", "simulate", "atlas-200t-a2-box16", "--"]
        around += ["env", f"DOCKER_HOST={self.engine.url}"]
        named = ["--recipe", "boxed-train"]
        named += [] if "--recipes" in more else ["--recipes", str(self.folder / "recipes")]
        return [*around, sys.executable, "-m", "envcheck", verb, *named, *more]

    @property
    def variables(self) -> dict[str, str]:
        own = {"ENVCHECK_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        return {**self.engine.environment, **own, "RANK": "7"}

    def run(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        argv = self.argv(verb, *more)
        return subprocess.run(argv, cwd=self.folder, env=self.variables, capture_output=True, text=True, timeout=500)

    def start(self, *more: str) -> subprocess.Popen[str]:
        argv = self.argv("train", *more)
        self.old = {path.name for path in (self.folder / "runs").glob("*")}
        return subprocess.Popen(
            argv, cwd=self.folder, env=self.variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def inside(self, *argv: str) -> str:
        return self.engine.docker("exec", NAME, *argv).stdout

    def left(self) -> str:
        """What runs in the container beside its own first process."""
        script = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done"
        return "\n".join(line for line in self.inside("sh", "-c", script).splitlines() if "tiny.py" in line)

    def record(self) -> dict[str, object]:
        newest = max((self.folder / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime)
        return dict(json.loads(newest.read_text()))

    def wait(self, until: str, seconds: float = 300) -> None:
        """Until a log of the run that was started last says so."""
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
    engine: Engine, python_image: str, paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trainer]:
    folder = tmp_path_factory.mktemp("boxed-train")
    wheels = paddle_parts.index(folder / "index", "3.11")
    paddle_parts.plugin_wheel(wheels, "paddle-custom-npu", "3.1.0", paddle_environment, "npu", folder / "plugin")
    with serving(wheels) as served:
        (folder / "recipes").mkdir()
        text = paddle_parts.two_npu_recipe("train", python_image, NAME, served.url, f'HF_TOKEN = "{SECRET}"')
        (folder / "recipes" / "boxed.toml").write_text(text)
        made = Trainer(engine, folder)
        try:
            refused = made.run("train", "--json")
            assert refused.returncode == 1, refused.stderr
            closed = [gate["name"] for gate in json.loads(refused.stdout)["gates"] if gate["status"] == "FAIL"]
            assert closed == ["gate.environment"], refused.stderr
            done = made.run("provision", "--yes", "--as-published")
            assert done.returncode == 0, done.stdout + done.stderr
            yield made
        finally:
            engine.docker("rm", "-f", NAME, check=False)


def test_trains_in_the_container(trainer: Trainer) -> None:
    """Steps, loss, checkpoints, packages and logs of a run in there are on record here, and nothing runs on."""
    done = trainer.run("train", "--json")

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["state"], said["container"]) == ("finished", NAME)
    assert [step for step, _ in said["loss"]] == [1, 2, 3, 4, 5]
    assert said["checkpoints"] == [f"/var/tmp/envcheck/runs/{Path(said['folder']).name}/output/checkpoint-5"]
    assert said["versions"]["packages"]["paddlepaddle"] == "3.1.0"
    assert trainer.inside("ls", said["checkpoints"][0])
    assert said["left"] == []
    assert "RANK" not in said["left_out"]["stale"]  # this host's own is not the container's
    assert trainer.left() == ""


def test_gates_in_the_container(trainer: Trainer) -> None:
    """Seen from inside every gate is open; data that only this host has is refused, and the mounts are named."""
    told, refused = trainer.run("train", "--gates", "--json"), trainer.run("train", "--data", "nothing.txt")
    found = {gate["name"]: gate["seen"] for gate in json.loads(told.stdout)["gates"]}

    assert told.returncode == 0, told.stderr
    assert found["gate.container"] == f"it runs in the container {NAME}"
    assert refused.returncode == 1
    assert "The container has no folder of this host: name a file by its path in there." in refused.stderr
    assert '--because "why" opens: data' in refused.stderr


def test_no_secret_stays(trainer: Trainer) -> None:
    """Of what paddle's launcher writes down of its environment nothing stays, here or there, and others see no log."""
    done = trainer.run("train", "--steps", "1", "--json")
    run = Path(json.loads(done.stdout)["folder"])
    there = f"/var/tmp/envcheck/runs/{run.name}"

    assert done.returncode == 0, done.stderr
    assert trainer.inside("stat", "-c", "%a", f"{there}/log").strip() == "700"
    assert "workerlog.1" in trainer.inside("ls", f"{there}/log")
    assert trainer.inside("sh", "-c", f"grep -rl {SECRET} /var/tmp/envcheck || true") == ""
    assert stat.S_IMODE((run / "log").stat().st_mode) == 0o700
    assert not [path for path in run.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_a_worker_killed_in_the_container(trainer: Trainer) -> None:
    """The worker that died first is named with its signal, seen from inside."""
    run = trainer.start("--steps", "100000")
    trainer.wait('"step": 3')
    trainer.inside("sh", "-c", KILL)
    _, err = run.communicate(timeout=90)

    assert run.returncode == 5, err
    assert "worker 1 failed first, ended by SIGKILL" in err
    assert trainer.left() == ""


def test_launcher_that_failed_in_the_container(trainer: Trainer) -> None:
    """One that stays alive is ended, after its worker has done its work, with what its last line means."""
    trainer.inside("sh", "-c", 'printf %s "$1" >/launch', "sh", LAUNCHER)
    own = trainer.folder / "failing"
    own.mkdir()
    text = (trainer.folder / "recipes" / "boxed.toml").read_text()
    (own / "boxed.toml").write_text(text.replace('"-m", "paddle.distributed.launch"', '"/launch"'))
    done = trainer.run("train", "--recipes", str(own), "--limit", "launcher.seconds=1")

    assert done.returncode == 5, done.stderr
    assert "watch.launcher: the launcher has failed and does not end" in done.stderr
    assert "cause       " in done.stderr
    assert len(list((trainer.folder / "runs").glob("*/log/worked"))) == 1


@pytest.mark.parametrize("sign", thin_out(1, (signal.SIGKILL, signal.SIGINT)))
def test_nothing_in_the_container_outlives_us(trainer: Trainer, sign: signal.Signals) -> None:
    """Interrupted, and even killed outright, envcheck leaves no process in the container."""
    run = trainer.start("--steps", "100000")
    trainer.wait('"step": 3')
    for place in Path("/proc").glob("[0-9]*"):
        words = cmdline(place)
        if b"envcheck\0train" in words and bytes(trainer.folder) in words:  # ours alone: others test here as well
            os.kill(int(place.name), sign)
    run.communicate(timeout=60)
    until = time.monotonic() + 120
    while trainer.left() and time.monotonic() < until:
        time.sleep(0.3)

    assert trainer.left() == ""
    if sign is signal.SIGINT:
        assert run.returncode == 130
        assert trainer.record()["state"] == "interrupted"
        assert trainer.record()["left"] == []


def cmdline(place: Path) -> bytes:
    try:
        return (place / "cmdline").read_bytes()
    except OSError:
        return b""
