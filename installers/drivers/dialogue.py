"""Driving an installer that asks: its questions and our answers are the recipe's data, a licence is a person's."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.core import process
from envcheck.core.errors import StepError
from envcheck.core.secrets import redact
from installers.drivers.patterns import contains
from installers.recipes.recipe import Driver, Prompt

if TYPE_CHECKING:
    from envcheck.core.terminal import Terminal

SETTLED_S = 0.3  # a question is one when nothing follows it
UNSURE_S = 2.0  # ... and when it cannot be seen whether it waits for an answer
LOOK_S = 0.1
KEPT = 1 << 20  # characters of the beginning, and as many of the end
FLOOD = 64 << 20  # characters; no installer has that much to say
LICENCE = 60_000  # characters that are shown to who is asked
SAME_AGAIN = 3  # times that a question is answered: then the answer is not the one that it wants
QUIT_S = 10.0  # for an installer to end after a no
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_KEPT_VARIABLES = ("HOME", "USER", "LOGNAME", "TMPDIR", "SUDO_USER", "http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True)
class Dialogue:
    """What was said, without secrets; `answers` are (question, answer, meaning); `status` is None when we ended it."""

    argv: tuple[str, ...]
    status: int | None
    said: str
    answers: tuple[tuple[str, str, str], ...] = ()
    elapsed_s: float = 0.0


class DialogueError(StepError):
    """It did not come to its end; what was said up to there is kept."""

    def __init__(self, message: str, next_step: str, dialogue: Dialogue) -> None:
        super().__init__(message, next_step)
        self.dialogue = dialogue


class DeclinedError(DialogueError):
    """A person said no to the licence; nothing was installed."""


class _Said:
    """The text so far: its beginning, its end, and how much there was."""

    def __init__(self) -> None:
        self.head, self.tail, self.total = "", "", 0

    def add(self, text: str) -> None:
        self.total += len(text)
        taken = text[: KEPT - len(self.head)]
        self.head += taken
        self.tail = (self.tail + text[len(taken) :])[-KEPT:]

    @property
    def text(self) -> str:
        missing = self.total - len(self.head) - len(self.tail)
        left_out = f"\n[... {missing} characters left out ...]\n" if missing else ""
        return self.head + left_out + self.tail


class _Talk:
    """One conversation while it lasts."""

    def __init__(
        self,
        terminal: Terminal,
        driver: Driver,
        argv: tuple[str, ...],
        agreed: Callable[[str], bool],
        hear: Callable[[str], None],
    ) -> None:
        self.terminal, self.driver, self.argv, self.agreed, self.hear = terminal, driver, argv, agreed, hear
        self.said = _Said()
        self.answers: list[tuple[str, str, str]] = []
        self.times: Counter[str] = Counter()
        self.began = self.heard = time.monotonic()
        self.waited_s = 0.0  # for a person: that is not the installer's time
        self.fresh = ""  # what was said since the last answer

    def run(self) -> int:
        """To the end; its exit status."""
        quiet_s = 0.0
        while (text := self.terminal.read(min(1.0, max(LOOK_S, quiet_s / 5)))) is not None:
            if text:
                self._hear(text)
            quiet_s = time.monotonic() - self.heard
            if quiet_s >= SETTLED_S:
                self._settled(quiet_s)
            if time.monotonic() - self.began - self.waited_s > self.driver.deadline_s:
                raise self._stop(f"it did not end in {self.driver.deadline_s} s", "see what it said last")
        return self.terminal.status()

    def _hear(self, text: str) -> None:
        self.said.add(text)
        self.hear(text)
        self.fresh = (self.fresh + text)[-KEPT:]
        self.heard = time.monotonic()
        if self.said.total > FLOOD:
            raise self._stop(f"it printed more than {FLOOD >> 20} million characters", "this is no installer")

    def _settled(self, quiet_s: float) -> None:
        """Nothing came for a moment: it works, or it waits for an answer."""
        waits = self.terminal.waits()
        if waits is False:
            return self._patience(quiet_s)
        sure_s = SETTLED_S if waits else UNSURE_S
        question = question_in(self.fresh)
        if quiet_s < sure_s:
            return None
        if waits and self.terminal.hides_typing():
            raise self._stop(f"it asks for a password: {question!r}", "envcheck types none; run it by hand")
        prompt = next((p for p in self.driver.prompts if contains(p.pattern, question)), None)
        if prompt:
            return self._answer(prompt, question)
        if waits:
            raise self._stop(f"it asks what the recipe does not know: {question!r}", _to_add(question))
        return self._patience(quiet_s)

    def _patience(self, quiet_s: float) -> None:
        if quiet_s > self.driver.silence_s:
            last = question_in(self.fresh)
            raise self._stop(
                f"it said nothing for {self.driver.silence_s} s; its last line was {last!r}", _to_add(last)
            )

    def _answer(self, prompt: Prompt, question: str) -> None:
        self.times[prompt.pattern] += 1
        if self.times[prompt.pattern] > SAME_AGAIN:
            raise self._stop(f"it does not take {prompt.answer!r} for an answer: {question!r}", _to_add(question))
        if prompt.licence and not self._asked(question):
            self._refuse(prompt, question)
        self._type(prompt.answer, prompt, question, prompt.meaning)

    def _type(self, answer: str, prompt: Prompt, question: str, meaning: str) -> None:
        self.answers.append((question, answer, meaning))
        self.fresh, self.heard = "", time.monotonic()
        self.terminal.send(answer + ("\r" if prompt.enter else ""))

    def _asked(self, question: str) -> bool:
        before = time.monotonic()
        yes = self.agreed(clean(self.said.text)[-LICENCE:])
        self.waited_s += time.monotonic() - before
        return yes

    def _refuse(self, prompt: Prompt, question: str) -> None:
        """Its own no lets it tidy up; else it is ended."""
        if prompt.refusal:
            self._type(prompt.refusal, prompt, question, "the licence was declined")
            until = time.monotonic() + QUIT_S
            while (text := self.terminal.read(LOOK_S)) is not None and time.monotonic() < until:
                self.said.add(text)
        raise DeclinedError("the licence was declined, nothing was installed", "", self.dialogue(None))

    def _stop(self, message: str, next_step: str) -> DialogueError:
        return DialogueError(message, next_step, self.dialogue(None))

    def dialogue(self, status: int | None) -> Dialogue:
        said = redact(clean(self.said.text))
        return Dialogue(self.argv, status, said, tuple(self.answers), time.monotonic() - self.began)


def hold(
    driver: Driver,
    argv: Sequence[str],
    *,
    ask_licence: Callable[[str], bool],
    keep: Callable[[Dialogue], None],
    hear: Callable[[str], None] = lambda text: None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Dialogue:
    """Run the installer and answer it; `ask_licence` is shown what it said so far.  DialogueError when it is stuck.

    `hear` gets its words as they come, control characters and all;
    `keep` gets the dialogue whatever the end, Ctrl-C included; nobody of the installer's session outlives this.
    """
    with process.converse(argv, env=env or surroundings(os.environ), cwd=cwd) as terminal:
        talk = _Talk(terminal, driver, tuple(argv), ask_licence, hear)
        try:
            done = talk.dialogue(talk.run())
        except BaseException as err:
            keep(err.dialogue if isinstance(err, DialogueError) else talk.dialogue(None))
            raise
    keep(done)
    return done


def surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """Little of ours: LD_LIBRARY_PATH of a training, or a token, is nothing for an installer that runs as root.

    A pager would wait for a key within the licence.
    """
    kept = {name: environment[name] for name in _KEPT_VARIABLES if name in environment}
    path = f"{environment.get('PATH', '')}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {**kept, "PATH": path.lstrip(":"), "LC_ALL": "C", "TERM": "dumb", "PAGER": "cat", "MORE": "-E"}


def clean(text: str) -> str:
    """As it looks in the end: without control sequences, and of a line that was written over the last state."""
    lines = _CONTROL.sub("", text.replace("\r\n", "\n")).split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2].rstrip() for line in lines)


def question_in(text: str) -> str:
    """The last line that is not blank, in which a question stands."""
    lines = [line.strip() for line in clean(text[-8192:]).split("\n") if line.strip()]
    return lines[-1][-400:] if lines else ""


def _to_add(question: str) -> str:
    if not question:
        return "see what it said before"
    shown = question.replace("\\", "").replace('"', "*")[:120]
    return f'add to the recipe: [[drivers.prompts]] pattern = "{shown}", answer = "...", meaning = "..."'
