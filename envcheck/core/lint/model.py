"""The words of the linter as frozen data: the file, its blocks, what stands in a script, and what is remarked on it.

Every place is a stretch of bytes of the file that was read, also for what stands in a block of a document.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from envcheck.core.model import Status

UNKNOWN = "\ufffc"  # stands in a text where the script's reader cannot know the value


@dataclass(frozen=True)
class Fix:
    """Stretches of the file and what belongs there instead; safe: the meaning is what the writer meant."""

    edits: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class Remark:
    """What a rule saw at a place; `origin` is who says so (envcheck, shellcheck)."""

    rule: str
    severity: Status
    seen: str
    remedy: str
    start: int
    end: int
    fix: Fix | None = None
    origin: str = "envcheck"


@dataclass(frozen=True)
class Source:
    """The file as it was read: `raw` is valid UTF-8."""

    name: str
    raw: bytes

    @cached_property
    def starts(self) -> list[int]:
        return [0, *(i + 1 for i, byte in enumerate(self.raw) if byte == 10)]

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1; columns count characters."""
        line = bisect.bisect_right(self.starts, offset) - 1
        return line + 1, len(self.raw[self.starts[line] : offset].decode("utf-8", "replace")) + 1

    def line(self, number: int) -> str:
        start = self.starts[number - 1]
        end = self.starts[number] if number < len(self.starts) else len(self.raw)
        return self.raw[start:end].decode("utf-8", "replace").rstrip("\r\n")


@dataclass(frozen=True)
class Block:
    """A part of the file in one language: bash, yaml or json.  `lines` are (offset in the block, in the file)."""

    kind: str
    raw: bytes
    lines: tuple[tuple[int, int], ...]
    whole: bool = False  # the file is nothing else
    console: bool = False  # a session of a terminal: prompts were taken away, answers left out
    exact: bool = True  # every byte stands in the file as it stands here, so that a fix may replace it

    def at(self, offset: int) -> int:
        """The place in the file of an offset in the block."""
        own, there = self.lines[max(0, bisect.bisect_right(self.lines, (offset, 1 << 62)) - 1)]
        return there + offset - own

    def inside(self, start: int, raw: bytes) -> Block:
        """A part of it as a block of its own, by where it starts in the file."""
        own, there = max((line for line in self.lines if line[1] <= start), key=lambda line: line[1])
        base = own + start - there
        lines = ((line - base, at) for line, at in self.lines if base < line < base + len(raw))
        return Block(self.kind, raw, ((0, start), *lines))

    @property
    def script(self) -> bool:
        """A file of its own, by its first line or since the file is nothing else."""
        return self.whole or self.raw.lstrip().startswith(b"#!")


@dataclass(frozen=True)
class Word:
    """A word as the program gets it; `soft`: a default that may be replaced from outside stands in it.

    `many`: an unknown and unquoted value, which may be no word, or several.
    """

    text: str
    start: int
    end: int
    quoted: bool = False
    soft: bool = False
    many: bool = False
    raw: str = ""

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text

    @property
    def plain(self) -> str | None:
        """The text if it is known."""
        return self.text if self.known else None


@dataclass(frozen=True)
class Use:
    """A variable that is read; `bound`: something in the script has given it a value before."""

    name: str
    start: int
    end: int
    bound: bool
    guarded: bool  # ${x:-...}, ${x:?...}, or looked at by a test
    quoted: bool


@dataclass(frozen=True)
class Assign:
    """A variable that is given a value; `exported`: what is started sees it."""

    name: str
    word: Word
    start: int
    end: int
    exported: bool
    prefix: bool = False  # FOO=1 command


@dataclass(frozen=True)
class Redirect:
    """`text` is as written: 2>&1, > log."""

    text: str
    start: int
    end: int
    target: Word | None = None


@dataclass(frozen=True)
class Heredoc:
    """The text behind <<; `file`: where the command's redirect puts it."""

    start: int
    end: int
    own: tuple[int, int]  # in its block
    file: Word | None
    literal: bool


@dataclass(frozen=True)
class Command:
    """A command with its words resolved as far as a reader can, and the state of the shell when it starts."""

    words: tuple[Word, ...]
    start: int
    end: int
    environment: Mapping[str, Word] = field(default_factory=dict)
    uses: tuple[Use, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    heredocs: tuple[Heredoc, ...] = ()
    pipeline: int = 0  # number of the pipeline it stands in, 0: none
    last_of_pipe: bool = True
    shell: frozenset[str] = frozenset()  # errexit, nounset, pipefail
    guarded: bool = False  # its status is looked at: && || if while !
    lenient: bool = False  # ... || true
    background: bool = False
    function: str = ""
    branch: bool = False  # it may not be reached
    elsewhere: bool = False  # in a container, or on another machine
    login: bool = False  # by bash -l, which reads the start files first
    everywhere: bool = False  # in a loop over hosts: what is known of it is alike on each of them
    cwd: str = ""  # where it starts, as far as `cd` says; UNKNOWN where that is not known
    order: int = 0

    @property
    def name(self) -> str:
        """The program without folders."""
        return self.words[0].text.rpartition("/")[2] if self.words and self.words[0].known else ""

    @property
    def open(self) -> bool:
        """Words that the reader cannot see may stand in it."""
        before = ["", *(word.text for word in self.words)]
        return any(word.many and not before[n].startswith("-") for n, word in enumerate(self.words))

    def texts(self) -> list[str]:
        return [word.text for word in self.words]


@dataclass
class Script:
    """What one block of shell says; filled by the walker, read by the rules."""

    block: Block
    commands: list[Command] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    assigns: list[Assign] = field(default_factory=list)
    unset: list[Word] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # all that are ever given a value
    functions: set[str] = field(default_factory=set)
    tested: set[str] = field(default_factory=set)  # texts that a test looks at
    comments: list[tuple[int, int, str]] = field(default_factory=list)
    errors: list[tuple[int, int]] = field(default_factory=list)
    opaque: bool = False  # eval of what is not known, or a foreign file is sourced: anything may be set
    loose: list[tuple[int, int]] = field(default_factory=list)  # where words stand for others: nothing is mended there
    cut: bool = False  # more than the reader follows


@dataclass(frozen=True)
class Entry:
    """A key of a configuration with its values as texts; `kind` is YAML's own name for the value's kind."""

    name: str
    values: tuple[str, ...]
    start: int
    end: int
    value_start: int
    value_end: int
    kind: str = "str"
    path: tuple[str, ...] = ()


@dataclass
class Config:
    """What a block of YAML or JSON says, flat: nested keys have the names above them in `path`."""

    block: Block
    entries: list[Entry] = field(default_factory=list)
    error: str = ""
    error_at: tuple[int, int] = (0, 0)
    doubled: list[Entry] = field(default_factory=list)
    family: str = ""
    file: str = ""  # the name that a script gives it

    def get(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.name == name and not entry.path), None)
