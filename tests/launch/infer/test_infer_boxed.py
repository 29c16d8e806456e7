"""`envcheck infer` in the recipe's container, by the command: real engine, real paddle, cards that are not there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from envcheck.core import process as runner
from tests.installers import paddle_parts
from tests.installers.images.engine_parts import Engine
from tests.installers.provision_helpers import serving
from tests.tiers import thin_out

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[3]
NAME = "envcheck-test-infer"
CHATS = """
[[jobs]]
method = "chat"
title = "a talk"
source = "a test"
launcher = ["{python}", "{program}"]
arguments = ["--device", "npu", "--chat", "{adapter}"]
requires = ["{adapter}/about.json", "{adapter}/weights.npz"]
[[jobs]]
method = "chat"
variant = "standin"
title = "a stand-in that never answers"
source = "a test"
launcher = ["{python}", "/talk/talkers.py", "llamafactory", "silent", "llamafactory-cli", "chat"]
environment = { HEARD = "/tmp/heard" }
requires = ["{adapter}/about.json"]
"""


class Talker:
    """The command, in a folder of its own, on a simulated machine of 16 cards."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        own = {"ENVCHECK_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        self.variables = {**engine.environment, **own}

    def argv(self, verb: str, *more: str) -> list[str]:
        around = [sys.executable, "-m", "envcheck", "simulate", "atlas-200t-a2-box16", "--"]
        around += ["env", f"DOCKER_HOST={self.engine.url}"]
        return [*around, sys.executable, "-m", "envcheck", verb, "--recipes", str(self.folder / "recipes"), *more]

    def run(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        argv = self.argv(verb, *more)
        return subprocess.run(argv, cwd=self.folder, env=self.variables, capture_output=True, text=True, timeout=500)

    def left(self) -> str:
        """Which of the programs runs in the container."""
        script = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done"
        lines = self.engine.docker("exec", NAME, "sh", "-c", script).stdout.splitlines()
        return "\n".join(line for line in lines if "tiny.py" in line or "talkers.py" in line)

    def gone(self) -> bool:
        until = time.monotonic() + 120
        while self.left() and time.monotonic() < until:
            time.sleep(0.3)
        return not self.left()

    def newest(self) -> dict[str, object]:
        path = max((self.folder / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime)
        return dict(json.loads(path.read_text()))


@pytest.fixture(scope="module")
def talker(
    engine: Engine, python_image: str, paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Talker]:
    """A container with paddle in which a run of five steps has ended."""
    folder = tmp_path_factory.mktemp("boxed-infer")
    wheels = paddle_parts.index(folder / "index", "3.11")
    paddle_parts.plugin_wheel(wheels, "paddle-custom-npu", "3.1.0", paddle_environment, "npu", folder / "plugin")
    with serving(wheels) as served:
        (folder / "recipes").mkdir()
        recipe = paddle_parts.two_npu_recipe("talk", python_image, NAME, served.url)
        (folder / "recipes" / "boxed.toml").write_text(recipe + CHATS)
        made = Talker(engine, folder)
        try:
            done = made.run("provision", "--recipe", "boxed-talk", "--yes", "--as-published")
            assert done.returncode == 0, done.stdout + done.stderr
            engine.docker("exec", NAME, "mkdir", "/talk")
            engine.docker("cp", str(Path(__file__).with_name("talkers.py")), f"{NAME}:/talk/")
            done = made.run("train", "--recipe", "boxed-talk", "--method", "lora")
            assert done.returncode == 0, done.stderr
            yield made
        finally:
            engine.docker("rm", "-f", NAME, check=False)


def test_answers_in_the_container(talker: Talker) -> None:
    """The run's last checkpoint, in there, answers a question that was asked out here; nothing runs on."""
    done = talker.run("infer", "--run", "latest", "--ask", "There was a machine", "--json")

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["state"], said["container"], said["talk"]["how"]) == ("finished", NAME, "answered")
    assert said["exit"] == {"code": 0, "status": 0}
    assert said["talks_with"]["weights"].endswith("/output/checkpoint-5")
    assert len(said["talk"]["answer"]) > 50
    assert talker.gone()


def test_typing_into_the_container(talker: Talker) -> None:
    """A person's keys reach the program in there, Ctrl-C as well, which ends it; the terminal is as it was."""
    with runner.converse(talker.argv("infer", "--run", "latest"), env=talker.variables, cwd=talker.folder) as terminal:
        said = until(terminal.read, "User: ")
        assert "starts" in said
        terminal.send("There was a machine\r")
        said = until(terminal.read, "User: ")
        assert "Tiny: " in said
        terminal.send("\x03")
        until(terminal.read, None)
        assert terminal.status() == 130

    assert talker.newest()["state"] == "interrupted"
    assert talker.gone()


@pytest.mark.parametrize(
    ("sign", "code"), thin_out(1, [(signal.SIGKILL, 137), (signal.SIGINT, 130), (signal.SIGTERM, 130)])
)
def test_nothing_in_the_container_outlives_us(talker: Talker, sign: signal.Signals, code: int) -> None:
    """Interrupted while an answer is waited for, and even killed outright, envcheck leaves no process in there."""
    argv = talker.argv("infer", "--run", "latest", "--variant", "standin", "--ask", "Hello")
    with subprocess.Popen(argv, cwd=talker.folder, env=talker.variables, stderr=subprocess.PIPE, text=True) as run:
        end = time.monotonic() + 90
        while "talkers.py" not in talker.left():
            assert time.monotonic() < end and run.poll() is None
        for process in psutil.Process(run.pid).children(recursive=True):  # nobody else's: tests run side by side
            if "infer" in process.cmdline() and "simulate" not in process.cmdline():
                process.send_signal(sign)
        _, err = run.communicate(timeout=90)

    assert run.returncode == code, err
    assert talker.newest()["state"] == ("running" if sign is signal.SIGKILL else "interrupted")
    assert talker.gone()


def test_silence_in_the_container(talker: Talker) -> None:
    """No answer by the deadline: exit code 5, and the program is ended in there."""
    done = talker.run("infer", "--run", "latest", "--variant", "standin", "--ask", "Hello", "--deadline", "8")

    assert done.returncode == 5, done.stderr
    assert "no answer: no answer came in time" in done.stderr
    assert talker.gone()


def until(read: object, words: str | None) -> str:
    """What is said up to there, or to the end."""
    assert callable(read)
    said, end = "", time.monotonic() + 120
    while (text := read(0.2)) is not None:
        said += text
        if words and words in said:
            return said
        assert time.monotonic() < end, said
    assert words is None, said
    return said
