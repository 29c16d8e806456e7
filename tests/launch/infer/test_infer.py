"""`envcheck infer` by the command: with what the real tiny program trained, and with stand-ins in its place."""

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
from launch.infer.session import asking
from launch.targets.request import TrainRequest
from tests.launch.test_train import left, record, variables
from tests.tiers import thin_out

pytestmark = pytest.mark.slow

ENVCHECK = (sys.executable, "-m", "envcheck")
TALKERS = Path(__file__).with_name("talkers.py")
TINY = Path(catalogue.__file__).with_name("tiny-cpu.toml")


def infer(home: Path, cwd: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [*ENVCHECK, "infer", *more]
    return subprocess.run(argv, cwd=cwd, env=variables(home, **env), capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def trained(paddle_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real run with two checkpoints."""
    cwd = tmp_path_factory.mktemp("infer")
    argv = (*ENVCHECK, "train", "--model", "tiny", "--method", "lora", "--device", "cpu", "--steps", "30")
    done = subprocess.run(argv, cwd=cwd, env=variables(paddle_home), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (run,) = (cwd / "runs").glob("*-tiny-cpu")
    return run


def newest(cwd: Path) -> dict[str, Any]:
    path = max((cwd / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    said: dict[str, Any] = json.loads(path.read_text())
    return said


def test_answer(paddle_home: Path, trained: Path, tmp_path: Path) -> None:
    """The last checkpoint of a run answers; answer, weights and exit code are on record, and nothing runs on."""
    done = infer(paddle_home, tmp_path, "--run", str(trained), "--ask", "There was a machine", "--json")

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said == record(tmp_path)
    assert (said["state"], said["method"], said["exit"]) == ("finished", "chat", {"code": 0, "status": 0})
    assert said["talks_with"] == {"run": trained.name, "weights": str(trained / "output" / "checkpoint-30")}
    assert said["talk"]["how"] == "answered" and len(said["talk"]["answer"]) > 50
    assert left(tmp_path) == []


def test_answer_alone_is_on_standard_output(paddle_home: Path, trained: Path, tmp_path: Path) -> None:
    """Another checkpoint answers otherwise; the run is found by its record alone, wherever it was moved."""
    moved = tmp_path / "moved" / trained.name
    moved.parent.mkdir()
    moved.symlink_to(trained)
    last = infer(paddle_home, tmp_path, "--run", str(moved), "--ask", "There was")
    first = infer(paddle_home, tmp_path, "--run", str(moved), "--checkpoint", "25", "--ask", "There was")

    assert (last.returncode, first.returncode) == (0, 0), last.stderr + first.stderr
    assert last.stdout.count("\n") == 1 and last.stdout != first.stdout
    assert "checkpoint-25" in first.stderr


def test_talks_are_not_talked_with(paddle_home: Path, trained: Path) -> None:
    """A talk is on record among the runs, and `latest` still means the run that was trained."""
    cwd = trained.parent.parent
    runs = ("--runs", str(cwd / "runs"))
    for _ in range(2):
        done = infer(paddle_home, cwd, "--run", "latest", "--ask", "Once", *runs)
        assert done.returncode == 0, done.stderr
    assert newest(cwd)["talks_with"]["run"] == trained.name


def talking(home: Path, cwd: Path, *more: str) -> Any:
    return process.converse((*ENVCHECK, "infer", *more), env=variables(home), cwd=cwd)


def until(terminal: Terminal, words: str | None) -> str:
    """What is said up to there, or to the end."""
    said, end = "", time.monotonic() + 120
    while (text := terminal.read(0.2)) is not None:
        said += text
        if words and words in said:
            return said
        assert time.monotonic() < end, said
    assert words is None, said
    return said


@pytest.mark.parametrize(("key", "code", "state"), [("exit\r", 0, "finished"), ("\x03", 130, "interrupted")])
def test_a_person_talks(key: str, code: int, state: str, paddle_home: Path, trained: Path, tmp_path: Path) -> None:
    """On a terminal the program is the person's own; its end, by its word or by Ctrl-C, is on record."""
    with talking(paddle_home, tmp_path, "--run", str(trained)) as terminal:
        until(terminal, "User: ")
        terminal.send("There was a machine\r")
        assert "Tiny: " in until(terminal, "\nUser: ")
        terminal.send(key)
        until(terminal, None)
        assert terminal.status() == code

    said = record(tmp_path)
    assert (said["state"], said["exit"]["code"], said["talk"]) == (state, code, None)
    assert left(tmp_path) == []


def own(folder: Path, launcher: list[str]) -> tuple[str, ...]:
    """Options that mean a recipe like tiny-cpu whose talk is this command."""
    text = TINY.read_text()
    old = 'launcher = ["{python}", "{program}"]\narguments = ["--device", "cpu", "--chat", "{adapter}"]\n'
    assert old in text
    (folder / "own").mkdir()
    new = f'launcher = {json.dumps(launcher)}\nenvironment = {{ HEARD = "{folder}/heard" }}\n'
    (folder / "own" / "tiny-cpu.toml").write_text(text.replace(old, new))
    return "--recipes", str(folder / "own")


def standin(kind: str) -> list[str]:
    return ["{python}", str(TALKERS), "llamafactory", kind, "llamafactory-cli", "chat"]


@pytest.mark.parametrize(
    ("kind", "more", "code", "words"),
    thin_out(
        2,
        [
            ("secret", (), 0, "answered"),
            ("dies", (), 5, "it ended without an answer, and it ended with status 1"),
            ("traceback", (), 5, "it answered with a traceback"),
            ("silent", ("--deadline", "20"), 5, "no answer came in time"),
            ("never", ("--deadline", "6"), 5, "it did not ask for a question in time"),
        ],
    ),
)
def test_stand_ins(
    kind: str, more: tuple[str, ...], code: int, words: str, paddle_home: Path, trained: Path, tmp_path: Path
) -> None:
    """What came of the question is the exit code, a sentence and the record; the log keeps what was said."""
    named = own(tmp_path, standin(kind))
    done = infer(paddle_home, tmp_path, "--run", str(trained), "--ask", "Hello", *named, *more)

    assert done.returncode == code, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr.split("no answer")[0]
    said = record(tmp_path)
    assert said["exit"]["code"] == code and (said["state"] == "finished") is (code == 0)
    assert "abcdef0123456789" not in done.stdout + json.dumps(said)
    assert list((tmp_path / "runs").glob("*/log/talk.log"))
    assert left(tmp_path) == []


def test_no_such_program(paddle_home: Path, trained: Path, tmp_path: Path) -> None:
    """A program that is not there is exit code 4, in a sentence and on record."""
    named = own(tmp_path, ["llamafactory-cli-of-nobody", "chat", "llamafactory-cli"])
    done = infer(paddle_home, tmp_path, "--run", str(trained), *named)

    assert done.returncode == 4
    assert "cannot start llamafactory-cli-of-nobody: not found" in done.stderr
    assert record(tmp_path)["state"] == "unstarted"


def test_gate_closed(paddle_home: Path, trained: Path, tmp_path: Path) -> None:
    """Weights that are not there close a gate: exit code 1, nothing started, no folder made."""
    (tmp_path / "nothing").mkdir()
    named = ("--model", "tiny", "--device", "cpu", "--adapter", "nothing", "--ask", "Hello")
    done = infer(paddle_home, tmp_path, *named, "--json")

    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert [gate["name"] for gate in said["gates"] if gate["status"] == "FAIL"] == ["gate.data"]
    assert "nothing/weights.npz is not there" in done.stderr and "Name a checkpoint that is there" in done.stderr
    assert not list((tmp_path / "runs").glob("*/"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "what to talk with was not said"),
        (("--run", "latest", "--adapter", "x"), "both name weights"),
        (("--checkpoint", "5", "--model", "tiny"), "counts the steps of a run"),
        (("--model", "tiny", "--device", "cpu"), "wants the weights of a run"),
        (("--model", "21b", "--device", "npu", "--adapter", "x"), "no recipe has a chat for 21b"),
        (("--model", "qwen-7b", "--adapter", "x"), "2 programs fit this request"),
        (("--model", "tiny", "--adapter", "{output}"), "is no path that"),
        (("--model", "tiny", "--method", "lora", "--adapter", "x"), "--method lora trains"),
        (("--model", "tiny", "--device", "cpu", "--adapter", "x", "--json"), "--json wants a question"),
        (("--run", "latest", "--ask", " "), "an empty question"),
        (("--run", "no-such-run"), "there is no run yet"),
        (
            ("--model", "tiny", "--adapter", "x", "--dry-run", "--waive", "dsk", "--because", "y"),
            "there is no gate 'dsk'",
        ),
    ],
)
def test_misused(more: tuple[str, ...], words: str, tmp_path: Path) -> None:
    """What cannot be meant is refused in a sentence with a next step."""
    done = infer(tmp_path / "home", tmp_path, *more)

    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "next:" in done.stderr


def test_train_sends_on_who_wants_to_talk(tmp_path: Path) -> None:
    """A method that trains nothing is not started without a terminal, but sent on."""
    argv = [*ENVCHECK, "train", "--model", "tiny", "--method", "chat", "--device", "cpu"]
    done = subprocess.run(argv, cwd=tmp_path, env=variables(tmp_path), capture_output=True, text=True, timeout=120)

    assert (done.returncode, "envcheck infer" in done.stderr) == (2, True)


def run_of(folder: Path, **said: object) -> Path:
    run = folder / "runs" / "20261121-000000-x"
    run.mkdir(parents=True)
    whole = {"state": "finished", "recipe": "tiny-cpu", "device": "cpu", "method": "lora"}
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
    """A record that says anything else than it should leads to a sentence, and to no path that it names."""
    with pytest.raises(UsageError) as caught:
        chat_options.choose(ChatOptions(TrainRequest(), run=str(run_of(tmp_path, **said))))

    assert caught.value.next_step


def test_only_the_name_of_a_checkpoint_is_taken(tmp_path: Path) -> None:
    """Whatever path a record names, the weights are those below the run's own folder."""
    run = run_of(tmp_path, checkpoints=["/etc/checkpoint-4", "/somewhere/else/checkpoint-5"])
    chosen = chat_options.choose(ChatOptions(TrainRequest(), run=str(run)))
    other = chat_options.choose(ChatOptions(TrainRequest(), run=str(run), checkpoint=4))

    assert chosen.adapter == str(run / "output" / "checkpoint-5")
    assert other.job.arguments[-1] == str(run / "output" / "checkpoint-4")


def test_weights_of_a_container(tmp_path: Path) -> None:
    """Of a run in a container the weights are named as they lie in there."""
    said = {"recipe": "qwen-7b-npu-llamafactory", "device": "npu", "container": "envcheck-qwen-7b-llamafactory"}
    chosen = chat_options.choose(ChatOptions(TrainRequest(), run=str(run_of(tmp_path, **said))))

    assert "/app/output/20261121-000000-x/output/checkpoint-5" in chosen.job.arguments


def test_a_whole_model_is_no_adapter(tmp_path: Path) -> None:
    """After full tuning the checkpoint stands in the place of the model."""
    command = ["swift", "sft", "--tuner_type", "full"]
    said = {"recipe": "qwen-7b-npu-swift", "device": "npu", "container": "c", "command": command}
    chosen = chat_options.choose(ChatOptions(TrainRequest(), run=str(run_of(tmp_path, **said))))

    assert chosen.job.arguments[0] == "--model"
    assert chosen.job.arguments[1].endswith("/20261121-000000-x/output/checkpoint-5")


def test_a_question_needs_a_program_that_asks() -> None:
    """swift infer answers the training's own data by the published command; for a question it does not."""
    adapter = ChatOptions(TrainRequest(model="qwen-7b", framework="swift"), adapter="/o/checkpoint-5")
    job = chat_options.choose(adapter).job

    assert job.arguments[-2:] == ("--load_data_args", "true")
    assert asking(job).arguments[-2:] == ("--load_data_args", "false")


def test_script(tmp_path: Path) -> None:
    """--as-script prints a script that bash takes, with options of the user's in it; nothing is looked at."""
    named = ("--model", "qwen-7b", "--framework", "llamafactory", "--adapter", "/o/checkpoint-5")
    done = infer(tmp_path, tmp_path, *named, "--set", "temperature=0.1", "--as-script")
    shown = infer(tmp_path, tmp_path, *named, "--dry-run", "--json")
    parsed = subprocess.run(["bash", "-n"], input=done.stdout, text=True, capture_output=True)

    assert (done.returncode, parsed.returncode, parsed.stderr) == (0, 0, "")
    assert "--temperature 0.1" in done.stdout and "llamafactory-cli chat" in done.stdout
    assert json.loads(shown.stdout)["command"][:2] == ["llamafactory-cli", "chat"]
    assert list(tmp_path.iterdir()) == []
