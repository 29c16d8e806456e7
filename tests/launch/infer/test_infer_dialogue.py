"""One question to a program on a real terminal: stand-ins of the upstreams', each way that it can go."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from envcheck.core import process
from envcheck.core.errors import UsageError
from launch.infer import chat_text, dialogue, talks
from launch.infer.dialogue import DialogueOutcome
from launch.infer.talks import ChatProgram

pytestmark = pytest.mark.slow

TALKERS = Path(__file__).with_name("talkers.py")
COMMANDS = {
    "llamafactory": ("llamafactory-cli", "chat", "--template", "qwen"),
    "swift": ("/usr/bin/swift", "infer", "--adapters", "x"),
    "erniekit": ("erniekit", "chat", "run_chat.yaml"),
}
QUESTION = "Who are you, and what is 2 < 3? Straße, 你好"


def talk_of(style: str) -> ChatProgram:
    found = talks.of(COMMANDS[style], {})
    assert found
    return found


def ask(style: str, kind: str, heard: Path, question: str = QUESTION, deadline_s: float = 300) -> DialogueOutcome:
    argv = (sys.executable, str(TALKERS), style, kind)
    env = {**os.environ, "HEARD": str(heard), "TERM": "dumb"}
    with process.converse(argv, env=env, columns=8192) as terminal:
        outcome = dialogue.ask(terminal, talk_of(style), question, deadline_s)
        assert outcome.status is not None or terminal.pid
    assert not Path(f"/proc/{terminal.pid}").exists()
    return outcome


@pytest.mark.parametrize("style", COMMANDS)
@pytest.mark.parametrize("kind", ("answer", "readline"))
def test_answer(style: str, kind: str, tmp_path: Path) -> None:
    """The answer comes whole, without echo, prompt, line or progress bar, the question arrived as it was asked."""
    outcome = ask(style, kind, tmp_path / "heard")

    assert (outcome.how, outcome.status) == ("answered", 0)
    assert outcome.answer == "I am a stand-in.\nIn two lines: User: is no prompt in the middle of one."
    assert (tmp_path / "heard").read_text() == QUESTION


@pytest.mark.parametrize("kind", ("answer", "readline"))
def test_long_question(kind: str, tmp_path: Path) -> None:
    """A question of 2900 characters arrives whole, and its echo is no part of the answer."""
    question = ("word " * 580).strip()
    outcome = ask("swift", kind, tmp_path / "heard", question)

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
    """Nothing, a traceback, an end at the start or in the middle: each is told by its name, with the last words."""
    outcome = ask(style, kind, tmp_path / "heard")

    assert outcome.how == how
    assert words in outcome.said
    assert outcome.status not in (None, 0) or how != "ended"


@pytest.mark.parametrize(("kind", "how"), [("silent", "silent"), ("never", "unready")])
def test_deadline(kind: str, how: str, tmp_path: Path) -> None:
    """Who never asks, or never answers, is ended at the deadline."""
    began = time.monotonic()
    outcome = ask("llamafactory", kind, tmp_path / "heard", deadline_s=12)

    assert (outcome.how, outcome.status) == (how, None)
    assert 11 < time.monotonic() - began < 300


def test_stuck_after_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that fell over and says nothing more is not waited for until the deadline."""
    monkeypatch.setattr(dialogue, "GRIEF_S", 1.0)
    began = time.monotonic()
    outcome = ask("llamafactory", "stuck", tmp_path / "heard", deadline_s=1200)

    assert time.monotonic() - began < 600
    assert (outcome.how, outcome.lines[-1]) == ("traceback", "RuntimeError: out of words")


def test_flood(tmp_path: Path) -> None:
    """Who prints without end is ended, with what is kept of it bounded."""
    outcome = ask("llamafactory", "floods", tmp_path / "heard", deadline_s=300)

    assert outcome.how == "flood"
    assert len(outcome.said) <= dialogue.LOG


def test_large_answer(tmp_path: Path) -> None:
    """An answer of a megabyte comes whole."""
    outcome = ask("llamafactory", "large", tmp_path / "heard")

    assert (outcome.how, len(outcome.answer)) == ("answered", len("many words and no end " * 50_000) - 1)


def test_escapes_and_secrets(tmp_path: Path) -> None:
    """No character of an answer moves a cursor, and no token in it is shown."""
    assert ask("swift", "escapes", tmp_path / "heard").answer == "bold and a link, plain"
    assert ask("swift", "secret", tmp_path / "heard").answer == "your token=*** is safe with me"


def test_prompt_must_be_followed_by_nothing() -> None:
    """What looks like the prompt in the middle of an answer is part of the answer."""
    said = "hi\r\nAssistant: one\r\nUser: two\r\nAssistant: three\r\n\r\nUser: "

    assert dialogue.extract(said, talk_of("llamafactory"), "hi", True) == "one\nUser: two\nAssistant: three"


@pytest.mark.parametrize("talk", talks.talks(), ids=lambda talk: " ".join(talk.words))
def test_table(talk: ChatProgram) -> None:
    """Every entry is found by its own words, names its source, and leaves by a word that it takes for an order."""
    assert talks.of(talk.words, {}) == talk
    assert talk.source and talk.prompt and talk.leave in talk.commands


def test_other_versions_and_programs_are_not_known() -> None:
    """For a version outside the table's range, or another program, nothing is pretended."""
    assert talks.of(COMMANDS["swift"], {"ms-swift": "1.7.0"}) is None
    assert talks.of(COMMANDS["swift"], {"ms-swift": "4.6.0"}) is not None
    assert talks.of(("paddleformers-cli", "train", "chat.yaml"), {}) is None


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
def test_what_is_no_question(style: str, question: str) -> None:
    """Orders of the program, what it would evaluate, keys and lines too long for a terminal are refused."""
    with pytest.raises(UsageError, match="--ask"):
        talks.question(question, talk_of(style))


@pytest.mark.parametrize("terminal", (True, False))
def test_interrupted_stands_below_the_terminals_sign(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A terminal writes ^C behind the prompt, without an end of line: our words begin on the next."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    chat_text.end(tmp_path, "interrupted", 130, None, "")

    assert capsys.readouterr().err.startswith("\n" * terminal + "interrupted, and it ended with status 130\n")
