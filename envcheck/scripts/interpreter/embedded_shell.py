"""Shell text embedded in another file, in pieces: in a YAML key, after RUN; each byte keeps its place in the file."""

from __future__ import annotations

import re
from dataclasses import replace

from envcheck.core.lint.script_model import ShellScript, SourceBlock
from envcheck.scripts.interpreter.shell_walk import ShellWalk
from envcheck.scripts.interpreter.walker import HANDLERS
from envcheck.scripts.shell_state import ShellState

_PLAIN = re.compile(rb"[\w@%+=:,./$*-]+")


class ShellPieces:
    """Shell text assembled from pieces; `at` is the place of a piece in the file."""

    def __init__(self) -> None:
        self.raw, self.lines = b"", list[tuple[int, int]]()
        self.exact = True

    def add_raw(self, raw: bytes, at: int) -> None:
        """Append bytes that start at this place in the file."""
        if raw:
            self.lines.append((len(self.raw), at))
            self.raw += raw

    def add_word(self, raw: bytes, at: int) -> None:
        """Append an argument of a list, quoted for the shell."""
        self.exact = self.exact and b"'" not in raw
        self.add_raw(b" ", at)
        if _PLAIN.fullmatch(raw):
            self.add_raw(raw, at)
        else:
            self.add_raw(b"'" + raw.replace(b"'", b"'\\''") + b"'", max(0, at - 1))

    def make_block(self, at: int) -> SourceBlock:
        """Return the assembled text as a block; `at` is its place if it is empty."""
        return SourceBlock("bash", self.raw, tuple(self.lines) or ((0, at),), exact=self.exact)


def walk_container_shell(block: SourceBlock, state: ShellState, login: bool = False) -> ShellScript:
    """Return the script of a block; its commands run in a container."""
    script = ShellWalk(block, state, HANDLERS).walk_block()
    script.commands = [replace(each, elsewhere=True, login=login or each.login) for each in script.commands]
    return script


def make_cut_script(at: int) -> ShellScript:
    """Return an empty script at the place in the file where the reader stopped, because of its limits."""
    return ShellScript(ShellPieces().make_block(at), cut=True)


def starts_shell(argv: list[str]) -> bool:
    """Return whether the words end in a shell's -c, so that a shell reads the next one."""
    return len(argv) > 1 and argv[0].rpartition("/")[2] in ("bash", "sh") and bool(re.fullmatch(r"-\w*c", argv[-1]))
