"""Ask a program on a terminal one question and return its answer; failures are outcomes, not exceptions."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envcheck.core.messages import mark
from envcheck.core.secrets import redact_text
from installers.drivers.dialogue import clean_output
from launch.infer.chat_programs import ChatProgram

if TYPE_CHECKING:
    from envcheck.core.terminal import Terminal

LOOK_S = 0.1
# Seconds of silence after which a prompt is accepted: by whether a process is reading the terminal (None: unknown).
SETTLED_S = {True: 0.3, None: 2.0, False: 5.0}
TRACEBACK_WAIT_S = 15.0  # wait after a traceback for more output or the end of the program
QUIT_S = 20.0  # wait for the program to exit after its command to leave
TAIL, MOST = 1 << 13, 16 << 20  # characters searched for a prompt; limit of the output
LAST_LINES = 12
LOG = 1 << 20  # characters kept for the log, from the end of the chat
# Window titles (OSC) and other control strings end in BEL or ST; clean_output removes all other sequences.
_STRINGS = re.compile(r"\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)")
# Also after a prompt: "Assistant: Traceback ..."
_TRACEBACK = re.compile(r"(?:^|[:>] {0,3})Traceback \(most recent call last\):", re.MULTILINE)

WHY = {
    "answered": mark("answered"),
    "empty": mark("no answer: the program printed nothing"),
    "traceback": mark("no answer: the program printed a traceback"),
    "silent": mark("no answer within the time limit"),
    "unready": mark("no answer: the program did not prompt for a question within the time limit"),
    "ended": mark("no answer: the program exited"),
    "flood": mark("no answer: the program printed more than 16 MiB"),
}


@dataclass(frozen=True)
class DialogueOutcome:
    """The result of a question.

    `how` is a key of WHY; `ready_s` is the time until the first prompt, `answer_s` until the answer; `status` is the
    exit status, None if envcheck ended the program; `lines` are the last lines and `said` the end of the chat, without
    secrets.
    """

    how: str
    answer: str = ""
    status: int | None = None
    ready_s: float | None = None
    answer_s: float | None = None
    lines: tuple[str, ...] = ()
    said: str = ""


def to_plain_text(text: str) -> str:
    """Return the text as a terminal would finally show it, without control sequences."""
    said = clean_output(_STRINGS.sub("", text))
    return "".join(c for c in said if c.isprintable() or c in "\n\t")


def ask_question(terminal: Terminal, program: ChatProgram, question: str, deadline_s: float) -> DialogueOutcome:
    """Wait for the prompt, ask, and wait for the next prompt, all within `deadline_s` seconds."""
    asking = _QuestionDialogue(terminal, program, deadline_s)
    outcome = asking.run(question)
    return replace(outcome, said=redact_text(to_plain_text((asking.before + asking.text)[-LOG:])))


class _QuestionDialogue:
    def __init__(self, terminal: Terminal, program: ChatProgram, deadline_s: float) -> None:
        self.terminal, self.program = terminal, program
        self.began = time.monotonic()
        self.until = self.began + deadline_s
        self.before, self.text = "", ""  # output before and after the question

    def run(self, question: str) -> DialogueOutcome:
        first = self._wait_for_prompt()
        if first != "prompt":
            return self._build_failure({"late": "unready"}.get(first, first))
        ready_s, self.before, self.text = self._elapsed_s(), self.text, ""
        self.terminal.send(f"{question}\r")
        then = self._wait_for_prompt()
        answer = extract_answer(self.text, self.program, question, then == "prompt")
        made = DialogueOutcome(
            _classify_outcome(then, answer, self._exit_status(then)), answer, None, ready_s, self._elapsed_s() - ready_s
        )
        if made.how == "answered" and then == "prompt":
            return replace(made, status=self._quit_program())
        return replace(self._build_failure(made.how), answer=answer, ready_s=ready_s, answer_s=made.answer_s)

    def _elapsed_s(self) -> float:
        return round(time.monotonic() - self.began, 1)

    def _wait_for_prompt(self) -> str:
        """Return prompt, ended, late, flood, or traceback (the program failed and prints nothing more)."""
        heard = time.monotonic()
        while (text := self.terminal.read(LOOK_S)) is not None:
            now = time.monotonic()
            if text:
                self.text, heard = self.text + text, now
            quiet_s = now - heard
            if len(self.text) > MOST:
                return "flood"
            if (
                quiet_s >= SETTLED_S[True]
                and self._is_at_prompt()
                and quiet_s >= SETTLED_S[self.terminal.is_waiting_for_input()]
            ):
                return "prompt"
            if quiet_s > TRACEBACK_WAIT_S and _TRACEBACK.search(to_plain_text(self.text[-TAIL:])):
                return "traceback"
            if now > self.until:
                return "late"
        return "ended"

    def _is_at_prompt(self) -> bool:
        return to_plain_text(self.text[-TAIL:]).rpartition("\n")[2].rstrip() == self.program.prompt.rstrip()

    def _exit_status(self, then: str) -> int | None:
        return self.terminal.wait_for_status() if then == "ended" else None

    def _quit_program(self) -> int | None:
        self.terminal.send(f"{self.program.leave}\r")
        until = time.monotonic() + QUIT_S
        while self.terminal.read(LOOK_S) is not None:
            if time.monotonic() > until:
                return None
        return self.terminal.wait_for_status()

    def _build_failure(self, how: str) -> DialogueOutcome:
        lines = [line.rstrip() for line in redact_text(to_plain_text(self.text[-TAIL:])).split("\n") if line.strip()]
        status = self.terminal.wait_for_status() if how == "ended" else None
        return DialogueOutcome(how, status=status, lines=tuple(line[:300] for line in lines[-LAST_LINES:]))


def _classify_outcome(then: str, answer: str, status: int | None) -> str:
    if _TRACEBACK.search(answer):
        return "ended" if then == "ended" else "traceback"
    if then == "prompt" or (then == "ended" and status == 0 and answer):
        return "answered" if answer else "empty"
    return {"late": "silent"}.get(then, then)


def extract_answer(text: str, program: ChatProgram, question: str, prompted: bool) -> str:
    """Return the answer in the output after the question, without echo, prompt, separator line and secrets."""
    said = to_plain_text(text)
    if program.reply and (at := f"\n{said}".find(f"\n{program.reply.rstrip()}")) >= 0:
        lines = said[at + len(program.reply.rstrip()) :].split("\n")
    else:
        lines = said.split("\n")
        lines = lines[1:] if question in lines[0] else lines
    if prompted:
        lines = lines[:-1]
    return redact_text("\n".join(line for line in lines if line != program.rule or not program.rule)).strip()
