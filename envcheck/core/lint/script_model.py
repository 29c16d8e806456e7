"""The linter's model of a file as frozen data: its blocks, the contents of scripts, and the remarks.

All positions are byte offsets in the file, also for the contents of a block in a document.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from envcheck.core.messages import Message
from envcheck.core.model import Status

CONFIG_SUFFIXES = (".yaml", ".yml", ".json")  # of files with options
UNKNOWN = "\ufffc"  # placeholder in a text for a value that cannot be determined


@dataclass(frozen=True)
class TextFix:
    """Replacements as (start, end, text); they keep the meaning that the writer intended."""

    edits: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class Remark:
    """The remark of a rule at a position; `origin` is the linter that made it (envcheck, shellcheck).

    `of_host`: UNKNOWN only because the host that runs the linter is not the one that runs the script.
    """

    rule: str
    severity: Status
    seen: Message
    remedy: Message
    start: int
    end: int
    fix: TextFix | None = None
    origin: str = "envcheck"
    of_host: bool = False


@dataclass(frozen=True)
class SourceFile:
    """A file; `raw` is valid UTF-8."""

    name: str
    raw: bytes

    @cached_property
    def line_starts(self) -> list[int]:
        """The byte offset of each line."""
        return [0, *(end.end() for end in re.finditer(b"\n", self.raw))]

    def find_position(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset, both from 1; columns count characters."""
        line = bisect.bisect_right(self.line_starts, offset) - 1
        return line + 1, len(self.raw[self.line_starts[line] : offset].decode("utf-8", "replace")) + 1

    def read_line(self, number: int) -> str:
        """Return a line by its number, from 1, without its end."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] if number < len(self.line_starts) else len(self.raw)
        return self.raw[start:end].decode("utf-8", "replace").rstrip("\r\n")


@dataclass(frozen=True)
class SourceBlock:
    """A part of the file in one language: bash, yaml or json. `lines` are (offset in the block, offset in the file)."""

    kind: str
    raw: bytes
    lines: tuple[tuple[int, int], ...]
    whole: bool = False  # the block is the whole file
    console: bool = False  # a terminal session: without prompts and output
    exact: bool = True  # the bytes are the same in the file, so that a fix can replace them

    def map_to_file(self, offset: int) -> int:
        """Return the offset in the file of an offset in the block."""
        at = 0 if len(self.lines) == 1 else max(0, bisect.bisect_right(self.lines, (offset, 1 << 62)) - 1)
        own, there = self.lines[at]
        return there + offset - own

    def extract_block(self, start: int, raw: bytes) -> SourceBlock:
        """Return a part of the block as a block, by its start in the file."""
        own, there = max((line for line in self.lines if line[1] <= start), key=lambda line: line[1])
        base = own + start - there
        lines = ((line - base, at) for line, at in self.lines if base < line < base + len(raw))
        return SourceBlock(self.kind, raw, ((0, start), *lines))

    @property
    def is_script(self) -> bool:
        """Whether it is a complete script: it has a #! line, or is the whole file."""
        return self.whole or self.raw.lstrip().startswith(b"#!")


@dataclass(frozen=True)
class ShellWord:
    """A word after expansion; `soft`: contains a default that the environment can replace.

    `many`: an unknown, unquoted value, which can become no word or several.
    """

    text: str
    start: int
    end: int
    quoted: bool = False
    soft: bool = False
    many: bool = False
    raw: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the whole text is known."""
        return UNKNOWN not in self.text

    @property
    def known_text(self) -> str | None:
        """The text if it is known, else None."""
        return self.text if self.is_known else None


@dataclass(frozen=True)
class VariableUse:
    """A variable that is read; `bound`: the script has assigned it before."""

    name: str
    start: int
    end: int
    bound: bool
    guarded: bool  # ${x:-...}, ${x:?...}, or in a test
    quoted: bool


@dataclass(frozen=True)
class VariableAssignment:
    """An assignment; `exported`: child processes see the variable."""

    name: str
    word: ShellWord
    start: int
    end: int
    exported: bool
    prefix: bool = False  # FOO=1 command


@dataclass(frozen=True)
class ShellRedirect:
    """A redirection; `text` is as written: 2>&1, > log."""

    text: str
    start: int
    end: int
    target: ShellWord | None = None


@dataclass(frozen=True)
class Heredoc:
    """The text after <<; `file` is the target of the command's redirection, `text` what the command receives."""

    start: int
    end: int
    own: tuple[int, int]  # offsets in its block
    file: ShellWord | None
    literal: bool
    text: str = ""


@dataclass(frozen=True)
class ShellCommand:
    """A command with its words as far as they can be resolved, and the state of the shell at its start."""

    words: tuple[ShellWord, ...]
    start: int
    end: int
    environment: Mapping[str, ShellWord] = field(default_factory=dict)
    uses: tuple[VariableUse, ...] = ()
    redirects: tuple[ShellRedirect, ...] = ()
    heredocs: tuple[Heredoc, ...] = ()
    pipeline: int = 0  # number of its pipeline, 0: none
    last_of_pipe: bool = True
    shell: frozenset[str] = frozenset()  # errexit, nounset, pipefail
    guarded: bool = False  # its status is tested: && || if while !
    lenient: bool = False  # ... || true
    background: bool = False
    function: str = ""
    branch: bool = False  # it may not be executed
    loop: bool = False
    elsewhere: bool = False  # in a container, or on another host
    login: bool = False  # in bash -l, which reads the start files first
    everywhere: bool = False  # in a loop over hosts: the same on each of them
    cwd: str = ""  # its working folder according to `cd`; UNKNOWN if it cannot be determined
    order: int = 0

    @cached_property
    def name(self) -> str:
        """The program's base name."""
        return self.words[0].text.rpartition("/")[2] if self.words and self.words[0].is_known else ""

    @property
    def may_have_more_words(self) -> bool:
        """Whether unknown values may add words to the command."""
        before = ["", *(word.text for word in self.words)]
        return any(word.many and not before[n].startswith("-") for n, word in enumerate(self.words))

    def list_texts(self) -> list[str]:
        """Return the texts of the words."""
        return [word.text for word in self.words]


@dataclass
class ShellScript:
    """The contents of one shell block; the interpreter fills it, and rules read it."""

    block: SourceBlock
    commands: list[ShellCommand] = field(default_factory=list)
    uses: list[VariableUse] = field(default_factory=list)
    assigns: list[VariableAssignment] = field(default_factory=list)
    unset: list[ShellWord] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # all variables that are assigned anywhere
    functions: set[str] = field(default_factory=set)
    tested: set[str] = field(default_factory=set)  # texts that a test contains
    comments: list[tuple[int, int, str]] = field(default_factory=list)
    errors: list[tuple[int, int]] = field(default_factory=list)
    opaque: bool = False  # eval of an unknown text or an unknown sourced file: any variable may be set
    sourced: list[SourcedFile] = field(default_factory=list)
    loose: list[tuple[int, int]] = field(default_factory=list)  # spans of expanded aliases, where no fix is applied
    cut: bool = False  # the script exceeds the interpreter's limits


@dataclass(frozen=True)
class SourcedFile:
    """A file that a script sources, at the word that names it; `script` is None if it was not read.

    The positions in `script` are not those of the file: its commands are no commands of the script that sources it.
    """

    word: ShellWord
    script: ShellScript | None = None


@dataclass(frozen=True)
class ConfigEntry:
    """A key of a configuration file with its values as text; `kind` is YAML's name for the type."""

    name: str
    values: tuple[str, ...]
    start: int
    end: int
    value_start: int
    value_end: int
    kind: str = "str"
    path: tuple[str, ...] = ()


@dataclass
class ConfigBlock:
    """The contents of a YAML or JSON block, flat: nested keys have the keys above them in `path`."""

    block: SourceBlock
    entries: list[ConfigEntry] = field(default_factory=list)
    error: str = ""
    error_at: tuple[int, int] = (0, 0)
    doubled: list[ConfigEntry] = field(default_factory=list)
    family: str = ""
    file: str = ""  # the file name that a script gives it

    def find_entry(self, name: str) -> ConfigEntry | None:
        """Return the top-level entry of this name, or None."""
        return next((entry for entry in self.entries if entry.name == name and not entry.path), None)
