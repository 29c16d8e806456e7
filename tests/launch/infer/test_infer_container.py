"""`envcheck infer` in the recipe's container: real engine and paddle, simulated cards."""

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
from tests.installers.images.engine_parts import DockerEngine
from tests.installers.provision_helpers import serve_index
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


class InferCommand:
    """The command in its own folder on a simulated machine with 16 cards."""

    def __init__(self, engine: DockerEngine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        own = {"ENVCHECK_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        self.variables = {**engine.child_environment, **own}

    def make_argv(self, verb: str, *more: str) -> list[str]:
        around = [sys.executable, "-m", "envcheck", "simulate", "atlas-200t-a2-box16", "--"]
        around += ["env", f"DOCKER_HOST={self.engine.docker_host}"]
        return [*around, sys.executable, "-m", "envcheck", verb, "--recipes", str(self.folder / "recipes"), *more]

    def run_command(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        argv = self.make_argv(verb, *more)
        return subprocess.run(argv, cwd=self.folder, env=self.variables, capture_output=True, text=True, timeout=500)

    def list_remaining(self) -> str:
        """Return the command lines of the chat programs that run in the container."""
        script = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done"
        lines = self.engine.run_docker("exec", NAME, "sh", "-c", script).stdout.splitlines()
        return "\n".join(line for line in lines if "tiny.py" in line or "talkers.py" in line)

    def is_gone(self) -> bool:
        until = time.monotonic() + 120
        while self.list_remaining() and time.monotonic() < until:
            time.sleep(0.3)
        return not self.list_remaining()

    def read_newest_record(self) -> dict[str, object]:
        path = max((self.folder / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime)
        return dict(json.loads(path.read_text()))


@pytest.fixture(scope="module")
def talker(
    engine: DockerEngine, python_image: str, paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InferCommand]:
    """A container with paddle and a finished run of five steps."""
    folder = tmp_path_factory.mktemp("boxed-infer")
    wheels = paddle_parts.make_index(folder / "index", "3.11")
    paddle_parts.write_plugin_wheel(wheels, "paddle-custom-npu", "3.1.0", paddle_environment, "npu", folder / "plugin")
    with serve_index(wheels) as served:
        (folder / "recipes").mkdir()
        recipe = paddle_parts.make_two_npu_recipe("talk", python_image, NAME, served.base_url)
        (folder / "recipes" / "boxed.toml").write_text(recipe + CHATS)
        made = InferCommand(engine, folder)
        try:
            done = made.run_command("provision", "--recipe", "boxed-talk", "--yes", "--as-published")
            assert done.returncode == 0, done.stdout + done.stderr
            engine.run_docker("exec", NAME, "mkdir", "/talk")
            engine.run_docker("cp", str(Path(__file__).with_name("talkers.py")), f"{NAME}:/talk/")
            done = made.run_command("train", "--recipe", "boxed-talk", "--method", "lora")
            assert done.returncode == 0, done.stderr
            yield made
        finally:
            engine.run_docker("rm", "-f", NAME, check=False)


def test_answers_in_the_container(talker: InferCommand) -> None:
    """The last checkpoint in the container answers a question from the host; no process remains."""
    done = talker.run_command("infer", "--run", "latest", "--ask", "There was a machine", "--json")

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["state"], said["container"], said["chat"]["outcome"]) == ("succeeded", NAME, "answered")
    assert said["exit"] == {"code": 0, "status": 0}
    assert said["chat_source"]["weights"].endswith("/output/checkpoint-5")
    assert len(said["chat"]["answer"]) > 50
    assert talker.is_gone()


def test_typing_into_the_container(talker: InferCommand) -> None:
    """Keys reach the program in the container, including Ctrl-C, which ends it."""
    with runner.open_terminal(
        talker.make_argv("infer", "--run", "latest"), env=talker.variables, cwd=talker.folder
    ) as terminal:
        said = read_until(terminal.read, "User: ")
        assert "-boxed-talk" in said
        terminal.send("There was a machine\r")
        said = read_until(terminal.read, "User: ")
        assert "Tiny: " in said
        terminal.send("\x03")
        read_until(terminal.read, None)
        assert terminal.wait_for_status() == 130

    assert talker.read_newest_record()["state"] == "stopped"
    assert talker.is_gone()


@pytest.mark.parametrize(
    ("sign", "code"), thin_out(1, [(signal.SIGKILL, 137), (signal.SIGINT, 130), (signal.SIGTERM, 130)])
)
def test_no_process_remains_in_the_container(talker: InferCommand, sign: signal.Signals, code: int) -> None:
    """Interrupted or killed while waiting for an answer, envcheck leaves no process in the container."""
    argv = talker.make_argv("infer", "--run", "latest", "--variant", "standin", "--ask", "Hello")
    with subprocess.Popen(argv, cwd=talker.folder, env=talker.variables, stderr=subprocess.PIPE, text=True) as run:
        end = time.monotonic() + 90
        while "talkers.py" not in talker.list_remaining():
            assert time.monotonic() < end and run.poll() is None
        for process in psutil.Process(run.pid).children(recursive=True):  # only ours: tests run in parallel
            if "infer" in process.cmdline() and "simulate" not in process.cmdline():
                process.send_signal(sign)
        _, err = run.communicate(timeout=90)

    assert run.returncode == code, err
    assert talker.read_newest_record()["state"] == ("running" if sign is signal.SIGKILL else "stopped")
    assert talker.is_gone()


def test_silence_in_the_container(talker: InferCommand) -> None:
    """No answer within the time limit: exit code 5, and the program in the container is ended."""
    done = talker.run_command(
        "infer", "--run", "latest", "--variant", "standin", "--ask", "Hello", "--answer-timeout", "8"
    )

    assert done.returncode == 5, done.stderr
    assert "no answer within the time limit" in done.stderr
    assert talker.is_gone()


def read_until(read: object, words: str | None) -> str:
    """Return the output up to `words`, or to the end."""
    assert callable(read)
    said, end = "", time.monotonic() + 120
    while (text := read(0.2)) is not None:
        said += text
        if words and words in said:
            return said
        assert time.monotonic() < end, said
    assert words is None, said
    return said
