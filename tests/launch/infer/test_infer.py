"""`envcheck infer` with the tiny model, and with stand-ins for chat programs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from envcheck.core import process
from envcheck.core.errors import UsageError
from envcheck.core.terminal import Terminal
from installers.recipes import catalogue
from launch.infer import chat_options
from launch.infer.chat_options import ChatOptions
from launch.infer.chat_session import add_question_options
from launch.targets.train_request import TrainRequest
from tests.launch.test_train import list_remaining_processes, make_variables, read_record
from tests.tiers import thin_out

pytestmark = pytest.mark.slow

ENVCHECK = (sys.executable, "-m", "envcheck")
TALKERS = Path(__file__).with_name("talkers.py")
TINY = Path(catalogue.__file__).with_name("tiny-cpu.toml")


def run_infer(home: Path, cwd: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [*ENVCHECK, "infer", *more]
    return subprocess.run(argv, cwd=cwd, env=make_variables(home, **env), capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def trained(paddle_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real run with two checkpoints."""
    cwd = tmp_path_factory.mktemp("infer")
    argv = (*ENVCHECK, "train", "--model", "tiny", "--method", "lora", "--device", "cpu", "--steps", "30")
    done = subprocess.run(argv, cwd=cwd, env=make_variables(paddle_home), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (run,) = (cwd / "runs").glob("*-tiny-cpu-*")
    return run


def read_newest_record(cwd: Path) -> dict[str, Any]:
    path = max((cwd / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    said: dict[str, Any] = json.loads(path.read_text())
    return said


def test_answer(paddle_home: Path, trained: Path, tmp_path: Path) -> None:
    """The last checkpoint answers; answer, weights and exit code are recorded; no process remains."""
    done = run_infer(paddle_home, tmp_path, "--run", str(trained), "--ask", "There was a machine", "--json")

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said == read_record(tmp_path)
    assert (said["state"], said["method"], said["exit"]) == ("succeeded", "chat", {"code": 0, "status": 0})
    assert said["chat_source"] == {"run": trained.name, "weights": str(trained / "output" / "checkpoint-30")}
    assert said["chat"]["outcome"] == "answered" and len(said["chat"]["answer"]) > 50
    assert list_remaining_processes(tmp_path) == []


def test_answer_alone_is_on_standard_output(paddle_home: Path, trained: Path, tmp_path: Path) -> None:
    """Another checkpoint answers differently; a moved run is found by its record."""
    moved = tmp_path / "moved" / trained.name
    moved.parent.mkdir()
    moved.symlink_to(trained)
    last = run_infer(paddle_home, tmp_path, "--run", str(moved), "--ask", "There was")
    first = run_infer(paddle_home, tmp_path, "--run", str(moved), "--checkpoint", "25", "--ask", "There was")

    assert (last.returncode, first.returncode) == (0, 0), last.stderr + first.stderr
    assert last.stdout.count("\n") == 1 and last.stdout != first.stdout
    assert "checkpoint-25" in first.stderr


def test_latest_excludes_chats(paddle_home: Path, trained: Path) -> None:
    """Chats are recorded as runs, but `latest` still means the newest training."""
    cwd = trained.parent.parent
    runs = ("--runs", str(cwd / "runs"))
    for _ in range(2):
        done = run_infer(paddle_home, cwd, "--run", "latest", "--ask", "Once", *runs)
        assert done.returncode == 0, done.stderr
    assert read_newest_record(cwd)["chat_source"]["run"] == trained.name


def start_infer(home: Path, cwd: Path, *more: str) -> Any:
    return process.open_terminal((*ENVCHECK, "infer", *more), env=make_variables(home), cwd=cwd)


def read_until(terminal: Terminal, words: str | None) -> str:
    """Return the output up to `words`, or to the end."""
    said, end = "", time.monotonic() + 120
    while (text := terminal.read(0.2)) is not None:
        said += text
        if words and words in said:
            return said
        assert time.monotonic() < end, said
    assert words is None, said
    return said


@pytest.mark.parametrize(("key", "code", "state"), [("exit\r", 0, "succeeded"), ("\x03", 130, "stopped")])
def test_interactive_chat(key: str, code: int, state: str, paddle_home: Path, trained: Path, tmp_path: Path) -> None:
    """An interactive chat ends by its command or by Ctrl-C; the record has the state."""
    with start_infer(paddle_home, tmp_path, "--run", str(trained)) as terminal:
        read_until(terminal, "User: ")
        terminal.send("There was a machine\r")
        assert "Tiny: " in read_until(terminal, "\nUser: ")
        terminal.send(key)
        read_until(terminal, None)
        assert terminal.wait_for_status() == code

    said = read_record(tmp_path)
    assert (said["state"], said["exit"]["code"], said["chat"]) == (state, code, None)
    assert list_remaining_processes(tmp_path) == []


def write_recipe(folder: Path, launcher: list[str]) -> tuple[str, ...]:
    """Write a copy of tiny-cpu with this chat command; return the options that select it."""
    text = TINY.read_text()
    old = 'launcher = ["{python}", "{program}"]\narguments = ["--device", "cpu", "--chat", "{adapter}"]\n'
    assert old in text
    (folder / "own").mkdir()
    new = f'launcher = {json.dumps(launcher)}\nenvironment = {{ HEARD = "{folder}/heard" }}\n'
    (folder / "own" / "tiny-cpu.toml").write_text(text.replace(old, new))
    return "--recipes", str(folder / "own")


def make_standin(kind: str) -> list[str]:
    return ["{python}", str(TALKERS), "llamafactory", kind, "llamafactory-cli", "chat"]


@pytest.mark.parametrize(
    ("kind", "more", "code", "words"),
    thin_out(
        2,
        [
            ("secret", (), 0, "answered"),
            ("dies", (), 5, "no answer: the program exited (exit status 1); last output:"),
            ("traceback", (), 5, "no answer: the program printed a traceback"),
            ("silent", ("--answer-timeout", "20"), 5, "no answer within the time limit"),
            (
                "never",
                ("--answer-timeout", "6"),
                5,
                "did not prompt for a question within the time limit",
            ),
        ],
    ),
)
def test_stand_ins(
    kind: str, more: tuple[str, ...], code: int, words: str, paddle_home: Path, trained: Path, tmp_path: Path
) -> None:
    """Exit code, message and record state the outcome; the log keeps the output."""
    named = write_recipe(tmp_path, make_standin(kind))
    done = run_infer(paddle_home, tmp_path, "--run", str(trained), "--ask", "Hello", *named, *more)

    assert done.returncode == code, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr.split("no answer")[0]
    said = read_record(tmp_path)
    assert said["exit"]["code"] == code and (said["state"] == "succeeded") is (code == 0)
    assert "abcdef0123456789" not in done.stdout + json.dumps(said)
    assert list((tmp_path / "runs").glob("*/log/talk.log"))
    assert list_remaining_processes(tmp_path) == []


def test_no_such_program(paddle_home: Path, trained: Path, tmp_path: Path) -> None:
    """A missing program is exit code 4, with a message and a record."""
    named = write_recipe(tmp_path, ["llamafactory-cli-of-nobody", "chat", "llamafactory-cli"])
    done = run_infer(paddle_home, tmp_path, "--run", str(trained), *named)

    assert done.returncode == 4
    assert "cannot start llamafactory-cli-of-nobody: not found" in done.stderr
    assert read_record(tmp_path)["state"] == "unstarted"


def test_gate_closed(paddle_home: Path, trained: Path, tmp_path: Path) -> None:
    """Missing weights fail a preflight check: exit code 1, nothing started, no folder created."""
    (tmp_path / "nothing").mkdir()
    named = ("--model", "tiny", "--device", "cpu", "--adapter", "nothing", "--ask", "Hello")
    done = run_infer(paddle_home, tmp_path, *named, "--json")

    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert [gate["name"] for gate in said["gates"] if gate["status"] == "FAIL"] == ["gate.data"]
    assert "nothing/weights.npz: missing or not readable" in done.stderr
    assert "Choose an existing checkpoint" in done.stderr
    assert "envcheck: 1 preflight check failed; the chat was not started" in done.stderr
    assert not list((tmp_path / "runs").glob("*/"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "no model specified"),
        (("--run", "latest", "--adapter", "x"), "--run and --adapter cannot be combined"),
        (("--checkpoint", "5", "--model", "tiny"), "--checkpoint requires --run"),
        (("--model", "tiny", "--device", "cpu"), "chat with tiny requires a trained adapter"),
        (("--model", "21b", "--device", "npu", "--adapter", "x"), "no chat program available for 21b"),
        (("--model", "qwen-7b", "--adapter", "x"), "2 chat programs match this request"),
        (("--model", "tiny", "--adapter", "{output}"), "unsupported path '{output}'"),
        (("--model", "tiny", "--method", "lora", "--adapter", "x"), "--method lora is a training method"),
        (("--model", "tiny", "--device", "cpu", "--adapter", "x", "--json"), "--json requires --ask"),
        (("--run", "latest", "--ask", " "), "--ask: the question is empty"),
        (("--run", "no-such-run"), "no runs found"),
        (
            ("--model", "tiny", "--adapter", "x", "--dry-run", "--waive", "dsk", "--because", "y"),
            "unknown preflight check 'dsk'",
        ),
    ],
)
def test_misused(more: tuple[str, ...], words: str, tmp_path: Path) -> None:
    """Contradictory or unusable options are errors with a next step."""
    done = run_infer(tmp_path / "home", tmp_path, *more)

    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "next:" in done.stderr


def test_train_refers_to_infer(tmp_path: Path) -> None:
    """`train` with a chat method exits with code 2 and names `envcheck infer`."""
    argv = [*ENVCHECK, "train", "--model", "tiny", "--method", "chat", "--device", "cpu"]
    done = subprocess.run(argv, cwd=tmp_path, env=make_variables(tmp_path), capture_output=True, text=True, timeout=120)

    assert (done.returncode, "envcheck infer" in done.stderr) == (2, True)


def write_run(folder: Path, **said: object) -> Path:
    run = folder / "runs" / "20261121-000000-x"
    run.mkdir(parents=True)
    whole = {"state": "succeeded", "recipe": "tiny-cpu", "device": "cpu", "method": "lora"}
    whole |= {"checkpoints": ["/o/checkpoint-5"], **said}
    (run / "run.json").write_text(json.dumps(whole))
    return run


@pytest.mark.parametrize(
    "said",
    [
        {"checkpoints": ["../.."]},
        {"checkpoints": ["/o/.hidden"]},
        {"checkpoints": ["/o/a b\nc"]},
        {"checkpoints": [5, None, {}]},
        {"checkpoints": "checkpoint-5"},
        {"checkpoints": []},
        {"recipe": "../../etc/passwd"},
        {"recipe": 5},
        {"device": "abacus"},
        {"device": None},
        {"recipe": "ernie-21b-npu", "device": "npu"},
    ],
    ids=json.dumps,
)
def test_hostile_records(said: dict[str, object], tmp_path: Path) -> None:
    """A malformed record leads to an error with a next step; none of its paths is used."""
    with pytest.raises(UsageError) as caught:
        chat_options.choose_chat(ChatOptions(TrainRequest(), run=str(write_run(tmp_path, **said))))

    assert caught.value.next_step


def test_only_the_name_of_a_checkpoint_is_taken(tmp_path: Path) -> None:
    """The weights are always below the run's own folder, whatever path the record contains."""
    run = write_run(tmp_path, checkpoints=["/etc/checkpoint-4", "/somewhere/else/checkpoint-5"])
    chosen = chat_options.choose_chat(ChatOptions(TrainRequest(), run=str(run)))
    other = chat_options.choose_chat(ChatOptions(TrainRequest(), run=str(run), checkpoint=4))

    assert chosen.adapter == str(run / "output" / "checkpoint-5")
    assert other.job.arguments[-1] == str(run / "output" / "checkpoint-4")


def test_weights_of_a_container(tmp_path: Path) -> None:
    """Weights of a run in a container have their path in the container."""
    said = {"recipe": "qwen-7b-npu-llamafactory", "device": "npu", "container": "envcheck-qwen-7b-llamafactory"}
    chosen = chat_options.choose_chat(ChatOptions(TrainRequest(), run=str(write_run(tmp_path, **said))))

    assert "/app/output/20261121-000000-x/output/checkpoint-5" in chosen.job.arguments


def test_a_whole_model_is_no_adapter(tmp_path: Path) -> None:
    """After full fine-tuning the checkpoint replaces the model."""
    command = ["swift", "sft", "--tuner_type", "full"]
    said = {"recipe": "qwen-7b-npu-swift", "device": "npu", "container": "c", "command": command}
    chosen = chat_options.choose_chat(ChatOptions(TrainRequest(), run=str(write_run(tmp_path, **said))))

    assert chosen.job.arguments[0] == "--model"
    assert chosen.job.arguments[1].endswith("/20261121-000000-x/output/checkpoint-5")


def test_a_question_needs_a_program_that_asks() -> None:
    """The published `swift infer` command answers the training data; with --ask that is switched off."""
    adapter = ChatOptions(TrainRequest(model="qwen-7b", framework="swift"), adapter="/o/checkpoint-5")
    job = chat_options.choose_chat(adapter).job

    assert job.arguments[-2:] == ("--load_data_args", "true")
    assert add_question_options(job).arguments[-2:] == ("--load_data_args", "false")


def test_script(tmp_path: Path) -> None:
    """--as-script prints a valid bash script with the user's options and inspects nothing."""
    named = ("--model", "qwen-7b", "--framework", "llamafactory", "--adapter", "/o/checkpoint-5")
    done = run_infer(tmp_path, tmp_path, *named, "--set", "temperature=0.1", "--as-script")
    shown = run_infer(tmp_path, tmp_path, *named, "--dry-run", "--json")
    parsed = subprocess.run(["bash", "-n"], input=done.stdout, text=True, capture_output=True)

    assert (done.returncode, parsed.returncode, parsed.stderr) == (0, 0, "")
    assert "--temperature 0.1" in done.stdout and "llamafactory-cli chat" in done.stdout
    assert json.loads(shown.stdout)["command"][:2] == ["llamafactory-cli", "chat"]
    assert list(tmp_path.iterdir()) == []
