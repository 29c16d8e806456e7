"""One question to stand-ins of chat programs on a real terminal: every outcome."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from envcheck.core import process
from envcheck.core.errors import UsageError
from launch.infer import chat_programs, chat_text, dialogue
from launch.infer.chat_programs import ChatProgram
from launch.infer.dialogue import DialogueOutcome

pytestmark = pytest.mark.slow

TALKERS = Path(__file__).with_name("talkers.py")
COMMANDS = {
    "llamafactory": ("llamafactory-cli", "chat", "--template", "qwen"),
    "swift": ("/usr/bin/swift", "infer", "--adapters", "x"),
    "erniekit": ("erniekit", "chat", "run_chat.yaml"),
}
QUESTION = "Who are you, and what is 2 < 3? Straße, 你好"


def find_chat_program(style: str) -> ChatProgram:
    found = chat_programs.find_program(COMMANDS[style], {})
    assert found
    return found


def ask_question(
    style: str, kind: str, heard: Path, question: str = QUESTION, deadline_s: float = 300
) -> DialogueOutcome:
    argv = (sys.executable, str(TALKERS), style, kind)
    env = {**os.environ, "HEARD": str(heard), "TERM": "dumb"}
    with process.open_terminal(argv, env=env, columns=8192) as terminal:
        outcome = dialogue.ask_question(terminal, find_chat_program(style), question, deadline_s)
        assert outcome.status is not None or terminal.pid
    assert not Path(f"/proc/{terminal.pid}").exists()
    return outcome


@pytest.mark.parametrize("style", COMMANDS)
@pytest.mark.parametrize("kind", ("answer", "readline"))
def test_answer(style: str, kind: str, tmp_path: Path) -> None:
    """The answer is complete, without echo, prompt, separator or progress bar; the question arrives unchanged."""
    outcome = ask_question(style, kind, tmp_path / "heard")

    assert (outcome.how, outcome.status) == ("answered", 0)
    assert outcome.answer == "I am a stand-in.\nIn two lines: User: is no prompt in the middle of one."
    assert (tmp_path / "heard").read_text() == QUESTION


@pytest.mark.parametrize("kind", ("answer", "readline"))
def test_long_question(kind: str, tmp_path: Path) -> None:
    """A question of 2900 characters arrives complete; its echo is not part of the answer."""
    question = ("word " * 580).strip()
    outcome = ask_question("swift", kind, tmp_path / "heard", question)

    assert (tmp_path / "heard").read_text() == question
    assert outcome.answer.startswith("I am a stand-in.")


@pytest.mark.parametrize("style", ("llamafactory", "swift"))
@pytest.mark.parametrize(
    ("kind", "how", "words"),
    [
        ("empty", "empty", ""),
        ("traceback", "traceback", "RuntimeError: out of words"),
        ("dies", "ended", "OSError: no such model"),
        ("crashes", "ended", "RuntimeError: the weights are of another model"),
        ("falls", "ended", "Loading checkpoint shards: 100%"),
    ],
)
def test_no_answer(style: str, kind: str, how: str, words: str, tmp_path: Path) -> None:
    """An empty answer, a traceback and an early exit are different outcomes with the last output."""
    outcome = ask_question(style, kind, tmp_path / "heard")

    assert outcome.how == how
    assert words in outcome.said
    assert outcome.status not in (None, 0) or how != "ended"


@pytest.mark.parametrize(("kind", "how"), [("silent", "silent"), ("never", "unready")])
def test_deadline(kind: str, how: str, tmp_path: Path) -> None:
    """A program that never prompts or never answers is ended at the deadline."""
    began = time.monotonic()
    outcome = ask_question("llamafactory", kind, tmp_path / "heard", deadline_s=12)

    assert (outcome.how, outcome.status) == (how, None)
    assert 11 < time.monotonic() - began < 300


def test_stuck_after_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that printed a traceback and hangs is ended before the deadline."""
    monkeypatch.setattr(dialogue, "TRACEBACK_WAIT_S", 1.0)
    began = time.monotonic()
    outcome = ask_question("llamafactory", "stuck", tmp_path / "heard", deadline_s=1200)

    assert time.monotonic() - began < 600
    assert (outcome.how, outcome.lines[-1]) == ("traceback", "RuntimeError: out of words")


def test_flood(tmp_path: Path) -> None:
    """A program that prints endlessly is ended; the kept output is bounded."""
    outcome = ask_question("llamafactory", "floods", tmp_path / "heard", deadline_s=300)

    assert outcome.how == "flood"
    assert len(outcome.said) <= dialogue.LOG


def test_large_answer(tmp_path: Path) -> None:
    """An answer of one megabyte is complete."""
    outcome = ask_question("llamafactory", "large", tmp_path / "heard")

    assert (outcome.how, len(outcome.answer)) == ("answered", len("many words and no end " * 50_000) - 1)


def test_escapes_and_secrets(tmp_path: Path) -> None:
    """Control sequences and secrets are removed from answers."""
    assert ask_question("swift", "escapes", tmp_path / "heard").answer == "bold and a link, plain"
    assert ask_question("swift", "secret", tmp_path / "heard").answer == "your token=*** is safe with me"


def test_prompt_must_be_followed_by_nothing() -> None:
    """Text like the prompt within an answer is part of the answer."""
    said = "hi\r\nAssistant: one\r\nUser: two\r\nAssistant: three\r\n\r\nUser: "

    assert (
        dialogue.extract_answer(said, find_chat_program("llamafactory"), "hi", True)
        == "one\nUser: two\nAssistant: three"
    )


@pytest.mark.parametrize("talk", chat_programs.load_programs(), ids=lambda talk: " ".join(talk.words))
def test_table(talk: ChatProgram) -> None:
    """Every entry matches its own words, has a source, and leaves with one of its commands."""
    assert chat_programs.find_program(talk.words, {}) == talk
    assert talk.source and talk.prompt and talk.leave in talk.commands


def test_other_versions_and_programs_are_not_known() -> None:
    """Versions outside the table and other programs have no entry."""
    assert chat_programs.find_program(COMMANDS["swift"], {"ms-swift": "1.7.0"}) is None
    assert chat_programs.find_program(COMMANDS["swift"], {"ms-swift": "4.6.0"}) is not None
    assert chat_programs.find_program(("paddleformers-cli", "train", "chat.yaml"), {}) is None


@pytest.mark.parametrize(
    ("style", "question"),
    [
        ("swift", "quit"),
        ("swift", " Multi-Line "),
        ("llamafactory", "clear"),
        ("erniekit", "[__import__('os'), 'image_url']"),
        ("llamafactory", "two\nlines"),
        ("llamafactory", "\x03"),
        ("llamafactory", "   "),
        ("llamafactory", "ß" * 1501),
    ],
)
def test_refused_questions(style: str, question: str) -> None:
    """Commands of the program, text that it evaluates, control characters and long lines are refused."""
    with pytest.raises(UsageError, match="--ask"):
        chat_programs.check_question(question, find_chat_program(style))


@pytest.mark.parametrize("terminal", (True, False))
def test_interrupted_starts_a_new_line(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The terminal prints ^C without a line break: the message starts on a new line."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    chat_text.print_end(tmp_path, "user", 130, None, "")

    assert capsys.readouterr().err.startswith("\n" * terminal + "stopped (exit status 130)\n")
