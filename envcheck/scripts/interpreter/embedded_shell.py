"""A script that stands in another file in pieces: in a key of YAML, behind RUN; each byte keeps its place there."""

from __future__ import annotations

import re
from dataclasses import replace

from envcheck.core.lint.model import Block, Script
from envcheck.scripts.interpreter.walk import Walk
from envcheck.scripts.interpreter.walker import HANDLERS
from envcheck.scripts.state import State

_PLAIN = re.compile(rb"[\w@%+=:,./$*-]+")


class Pieces:
    """Shell that grows piece by piece; `at` is where a piece begins in the file."""

    def __init__(self) -> None:
        self.raw, self.lines = b"", list[tuple[int, int]]()
        self.exact = True

    def add(self, raw: bytes, at: int) -> None:
        if raw:
            self.lines.append((len(self.raw), at))
            self.raw += raw

    def word(self, raw: bytes, at: int) -> None:
        """A word of an argument list, as a shell would want it."""
        self.exact = self.exact and b"'" not in raw
        self.add(b" ", at)
        if _PLAIN.fullmatch(raw):
            self.add(raw, at)
        else:
            self.add(b"'" + raw.replace(b"'", b"'\\''") + b"'", max(0, at - 1))

    def block(self, at: int) -> Block:
        return Block("bash", self.raw, tuple(self.lines) or ((0, at),), exact=self.exact)


def inside(block: Block, state: State, login: bool = False) -> Script:
    """Its script; what it starts, it starts in a container."""
    script = Walk(block, state, HANDLERS).run()
    script.commands = [replace(each, elsewhere=True, login=login or each.login) for each in script.commands]
    return script


def shell_of(argv: list[str]) -> bool:
    """bash -c TEXT, of which the last is missing: a shell will read it."""
    return len(argv) > 1 and argv[0].rpartition("/")[2] in ("bash", "sh") and bool(re.fullmatch(r"-\w*c", argv[-1]))
