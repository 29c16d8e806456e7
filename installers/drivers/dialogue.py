"""Run an interactive installer and answer its questions.

The recipe lists the questions and answers; only a person accepts a licence.
"""

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
from envcheck.core.messages import NOTHING, Message, _
from envcheck.core.secrets import redact_text
from installers.drivers.patterns import contains_pieces
from installers.recipes.recipe import DriverInstaller, Prompt

if TYPE_CHECKING:
    from envcheck.core.terminal import Terminal

SETTLED_S = 0.3  # silence after which the last line counts as a question, if the installer waits for input
UNSURE_S = 2.0  # the same, when the kernel does not show whether it waits
LOOK_S = 0.1
KEPT = 1 << 20  # characters kept of the beginning, and as many of the end
FLOOD = 64 << 20  # characters; stop an installer that prints without end
LICENCE = 60_000  # characters of output shown before asking for acceptance
SAME_AGAIN = 3  # times to answer one question before concluding that the installer rejects the answer
QUIT_S = 10.0  # time for the installer to exit after a refusal
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_KEPT_VARIABLES = ("HOME", "USER", "LOGNAME", "TMPDIR", "SUDO_USER", "http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True)
class InstallerDialogue:
    """A finished or aborted run of an installer: its output, redacted, and the answers given.

    `answers` are (question, answer, meaning); `status` is None if envcheck ended the installer.
    """

    argv: tuple[str, ...]
    status: int | None
    output: str
    answers: tuple[tuple[str, str, str], ...] = ()
    elapsed_s: float = 0.0


class DialogueError(StepError):
    """The installer did not finish; `dialogue` holds its output up to then."""

    def __init__(self, message: Message, next_step: Message, dialogue: InstallerDialogue) -> None:
        super().__init__(message, next_step)
        self.dialogue = dialogue


class DeclinedError(DialogueError):
    """The user declined the licence; nothing was installed."""


class _Transcript:
    """The output so far: its first and last KEPT characters and its total length."""

    def __init__(self) -> None:
        self.head, self.tail, self.total = "", "", 0

    def add_text(self, text: str) -> None:
        self.total += len(text)
        taken = text[: KEPT - len(self.head)]
        self.head += taken
        self.tail = (self.tail + text[len(taken) :])[-KEPT:]

    @property
    def text(self) -> str:
        missing = self.total - len(self.head) - len(self.tail)
        left_out = f"\n[... {missing} characters left out ...]\n" if missing else ""
        return self.head + left_out + self.tail


class _Conversation:
    """State of one run of the installer."""

    def __init__(
        self,
        terminal: Terminal,
        driver: DriverInstaller,
        argv: tuple[str, ...],
        agreed: Callable[[str], bool],
        on_output: Callable[[str], None],
    ) -> None:
        self.terminal, self.driver, self.argv, self.agreed, self.on_output = terminal, driver, argv, agreed, on_output
        self.transcript = _Transcript()
        self.answers: list[tuple[str, str, str]] = []
        self.times: Counter[str] = Counter()
        self.began = self.heard = time.monotonic()
        self.waited_s = 0.0  # waiting for the user; not counted against the deadline
        self.fresh = ""  # output since the last answer

    def run_to_end(self) -> int:
        """Answer questions until the installer exits; return its exit status."""
        quiet_s = 0.0
        while (text := self.terminal.read(min(1.0, max(LOOK_S, quiet_s / 5)))) is not None:
            if text:
                self._record_output(text)
            quiet_s = time.monotonic() - self.heard
            if quiet_s >= SETTLED_S:
                self._react_to_silence(quiet_s)
            if time.monotonic() - self.began - self.waited_s > self.driver.deadline_s:
                raise self._build_error(
                    _("the installer did not finish within {deadline_s} s", deadline_s=self.driver.deadline_s),
                    _("check the installer's last output"),
                )
        return self.terminal.wait_for_status()

    def _record_output(self, text: str) -> None:
        self.transcript.add_text(text)
        self.on_output(text)
        self.fresh = (self.fresh + text)[-KEPT:]
        self.heard = time.monotonic()
        if self.transcript.total > FLOOD:
            raise self._build_error(
                _("the installer printed more than {flood} million characters", flood=FLOOD >> 20),
                _("check that the file is an installer"),
            )

    def _react_to_silence(self, quiet_s: float) -> None:
        """Decide after a pause whether the installer is working or waiting for an answer."""
        waits = self.terminal.is_waiting_for_input()
        if waits is False:
            return self._check_silence(quiet_s)
        sure_s = SETTLED_S if waits else UNSURE_S
        question = find_question(self.fresh)
        if quiet_s < sure_s:
            return None
        if waits and self.terminal.is_echo_off():
            raise self._build_error(
                _("the installer asks for a password: {question!r}", question=question),
                _("run the installer yourself; envcheck does not enter passwords"),
            )
        prompt = next((p for p in self.driver.prompts if contains_pieces(p.pattern, question)), None)
        if prompt:
            return self._answer_prompt(prompt, question)
        if waits:
            raise self._build_error(
                _("the installer asks a question that the recipe does not answer: {question!r}", question=question),
                _suggest_prompt(question),
            )
        return self._check_silence(quiet_s)

    def _check_silence(self, quiet_s: float) -> None:
        if quiet_s > self.driver.silence_s:
            last = find_question(self.fresh)
            raise self._build_error(
                _(
                    "no output from the installer for {silence_s} s; last line: {last!r}",
                    silence_s=self.driver.silence_s,
                    last=last,
                ),
                _suggest_prompt(last),
            )

    def _answer_prompt(self, prompt: Prompt, question: str) -> None:
        self.times[prompt.pattern] += 1
        if self.times[prompt.pattern] > SAME_AGAIN:
            raise self._build_error(
                _(
                    "the installer rejected the answer {answer!r} to {question!r}",
                    answer=prompt.answer,
                    question=question,
                ),
                _suggest_prompt(question),
            )
        if prompt.licence and not self._ask_licence(question):
            self._refuse_licence(prompt, question)
        self._type_answer(prompt.answer, prompt, question, prompt.meaning)

    def _type_answer(self, answer: str, prompt: Prompt, question: str, meaning: str) -> None:
        self.answers.append((question, answer, meaning))
        self.fresh, self.heard = "", time.monotonic()
        self.terminal.send(answer + ("\r" if prompt.enter else ""))

    def _ask_licence(self, question: str) -> bool:
        before = time.monotonic()
        yes = self.agreed(clean_output(self.transcript.text)[-LICENCE:])
        self.waited_s += time.monotonic() - before
        return yes

    def _refuse_licence(self, prompt: Prompt, question: str) -> None:
        """Type the recipe's refusal so that the installer can clean up; without one, it is terminated."""
        if prompt.refusal:
            self._type_answer(prompt.refusal, prompt, question, "the licence was declined")
            until = time.monotonic() + QUIT_S
            while (text := self.terminal.read(LOOK_S)) is not None and time.monotonic() < until:
                self.transcript.add_text(text)
        raise DeclinedError(_("licence declined; nothing was installed"), NOTHING, self.build_dialogue(None))

    def _build_error(self, message: Message, next_step: Message) -> DialogueError:
        return DialogueError(message, next_step, self.build_dialogue(None))

    def build_dialogue(self, status: int | None) -> InstallerDialogue:
        output = redact_text(clean_output(self.transcript.text))
        return InstallerDialogue(self.argv, status, output, tuple(self.answers), time.monotonic() - self.began)


def run_installer(
    driver: DriverInstaller,
    argv: Sequence[str],
    *,
    ask_licence: Callable[[str], bool],
    on_dialogue: Callable[[InstallerDialogue], None],
    on_output: Callable[[str], None] = lambda text: None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> InstallerDialogue:
    """Run the installer in a terminal and answer its questions.  DialogueError if it gets stuck.

    `ask_licence` gets the output so far and returns whether the user accepts.  `on_output` gets raw output as it
    arrives.  `on_dialogue` gets the dialogue in every case, Ctrl-C included.  All processes of its session have ended
    on return.
    """
    with process.open_terminal(argv, env=env or installer_environment(os.environ), cwd=cwd) as terminal:
        talk = _Conversation(terminal, driver, tuple(argv), ask_licence, on_output)
        try:
            done = talk.build_dialogue(talk.run_to_end())
        except BaseException as err:
            on_dialogue(err.dialogue if isinstance(err, DialogueError) else talk.build_dialogue(None))
            raise
    on_dialogue(done)
    return done


def installer_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a minimal environment: a root installer gets no LD_LIBRARY_PATH or tokens from the user's shell.

    PAGER is cat, because a pager would wait for a key while it shows the licence.
    """
    kept = {name: environment[name] for name in _KEPT_VARIABLES if name in environment}
    path = f"{environment.get('PATH', '')}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {**kept, "PATH": path.lstrip(":"), "LC_ALL": "C", "TERM": "dumb", "PAGER": "cat", "MORE": "-E"}


def clean_output(text: str) -> str:
    """Return the text as a terminal would finally show it: no control sequences, overwritten lines in their last
    state.
    """
    lines = _CONTROL.sub("", text.replace("\r\n", "\n")).split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2].rstrip() for line in lines)


def find_question(text: str) -> str:
    """Return the last line that is not blank, at most 400 characters: the question, if the installer is waiting."""
    lines = [line.strip() for line in clean_output(text[-8192:]).split("\n") if line.strip()]
    return lines[-1][-400:] if lines else ""


def _suggest_prompt(question: str) -> Message:
    if not question:
        return _("check the installer's earlier output")
    shown = question.replace("\\", "").replace('"', "*")[:120]
    return _('add to the recipe: [[drivers.prompts]] pattern = "{shown}", answer = "...", meaning = "..."', shown=shown)
