"""One question to a program that talks on a terminal, and its answer; however it goes, that is told and not raised."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envcheck.core.secrets import redact
from installers.drivers.dialogue import clean
from launch.infer.talks import ChatProgram

if TYPE_CHECKING:
    from envcheck.core.terminal import Terminal

LOOK_S = 0.1
# A prompt is one when nothing follows it: soon where somebody is seen to read the terminal, else later.
SETTLED_S = {True: 0.3, None: 2.0, False: 5.0}
GRIEF_S = 15.0  # in which a program that printed a traceback says more, or ends
QUIT_S = 20.0  # for it to end after a goodbye
TAIL, MOST = 1 << 13, 16 << 20  # characters that are looked at for a prompt, and that are kept
LAST_LINES = 12
LOG = 1 << 20  # characters of the talk's end that are kept in its log
# A title for the window (OSC) and other strings end in BEL or ST; what else there is, dialogue.clean takes out.
_STRINGS = re.compile(r"\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)")
# Behind a prompt, too: "Assistant: Traceback ..."
_TRACEBACK = re.compile(r"(?:^|[:>] {0,3})Traceback \(most recent call last\):", re.MULTILINE)

WHY = {
    "answered": "answered",
    "empty": "it answered nothing",
    "traceback": "it answered with a traceback",
    "silent": "no answer came in time",
    "unready": "it did not ask for a question in time",
    "ended": "it ended without an answer",
    "flood": "it prints without end",
}


@dataclass(frozen=True)
class DialogueOutcome:
    """`how` is a key of WHY; `ready_s` is when it asked for a question, `answer_s` how long the answer took; `status`
    is None where we ended it; `lines` are its last ones, `said` the talk's end, both without secrets."""

    how: str
    answer: str = ""
    status: int | None = None
    ready_s: float | None = None
    answer_s: float | None = None
    lines: tuple[str, ...] = ()
    said: str = ""


def plain(text: str) -> str:
    """As it looks in the end, with nothing in it that moves a cursor."""
    said = clean(_STRINGS.sub("", text))
    return "".join(c for c in said if c.isprintable() or c in "\n\t")


def ask(terminal: Terminal, talk: ChatProgram, question: str, deadline_s: float) -> DialogueOutcome:
    """Wait for the prompt, ask, wait for the prompt again; all within `deadline_s`."""
    asking = _Asking(terminal, talk, deadline_s)
    outcome = asking.run(question)
    return replace(outcome, said=redact(plain((asking.before + asking.text)[-LOG:])))


class _Asking:
    def __init__(self, terminal: Terminal, talk: ChatProgram, deadline_s: float) -> None:
        self.terminal, self.talk = terminal, talk
        self.began = time.monotonic()
        self.until = self.began + deadline_s
        self.before, self.text = "", ""  # of the question, and since

    def run(self, question: str) -> DialogueOutcome:
        first = self._to_prompt()
        if first != "prompt":
            return self._over({"late": "unready"}.get(first, first))
        ready_s, self.before, self.text = self._since(), self.text, ""
        self.terminal.send(f"{question}\r")
        then = self._to_prompt()
        answer = extract(self.text, self.talk, question, then == "prompt")
        made = DialogueOutcome(_how(then, answer, self._status(then)), answer, None, ready_s, self._since() - ready_s)
        if made.how == "answered" and then == "prompt":
            return replace(made, status=self._leave())
        return replace(self._over(made.how), answer=answer, ready_s=ready_s, answer_s=made.answer_s)

    def _since(self) -> float:
        return round(time.monotonic() - self.began, 1)

    def _to_prompt(self) -> str:
        """prompt, ended, late, flood, or traceback: it fell over and says nothing more."""
        heard = time.monotonic()
        while (text := self.terminal.read(LOOK_S)) is not None:
            now = time.monotonic()
            if text:
                self.text, heard = self.text + text, now
            quiet_s = now - heard
            if len(self.text) > MOST:
                return "flood"
            if quiet_s >= SETTLED_S[True] and self._prompted() and quiet_s >= SETTLED_S[self.terminal.waits()]:
                return "prompt"
            if quiet_s > GRIEF_S and _TRACEBACK.search(plain(self.text[-TAIL:])):
                return "traceback"
            if now > self.until:
                return "late"
        return "ended"

    def _prompted(self) -> bool:
        return plain(self.text[-TAIL:]).rpartition("\n")[2].rstrip() == self.talk.prompt.rstrip()

    def _status(self, then: str) -> int | None:
        return self.terminal.status() if then == "ended" else None

    def _leave(self) -> int | None:
        self.terminal.send(f"{self.talk.leave}\r")
        until = time.monotonic() + QUIT_S
        while self.terminal.read(LOOK_S) is not None:
            if time.monotonic() > until:
                return None
        return self.terminal.status()

    def _over(self, how: str) -> DialogueOutcome:
        lines = [line.rstrip() for line in redact(plain(self.text[-TAIL:])).split("\n") if line.strip()]
        status = self.terminal.status() if how == "ended" else None
        return DialogueOutcome(how, status=status, lines=tuple(line[:300] for line in lines[-LAST_LINES:]))


def _how(then: str, answer: str, status: int | None) -> str:
    if _TRACEBACK.search(answer):
        return "ended" if then == "ended" else "traceback"
    if then == "prompt" or (then == "ended" and status == 0 and answer):
        return "answered" if answer else "empty"
    return {"late": "silent"}.get(then, then)


def extract(text: str, talk: ChatProgram, question: str, prompted: bool) -> str:
    """The answer in what was said since the question was typed: without echo, prompt and rule, without secrets."""
    said = plain(text)
    if talk.reply and (at := f"\n{said}".find(f"\n{talk.reply.rstrip()}")) >= 0:
        lines = said[at + len(talk.reply.rstrip()) :].split("\n")
    else:
        lines = said.split("\n")
        lines = lines[1:] if question in lines[0] else lines
    if prompted:
        lines = lines[:-1]
    return redact("\n".join(line for line in lines if line != talk.rule or not talk.rule)).strip()
