"""The state of the shell while a script is interpreted: variables, options, folder; bounded, and never executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from envcheck.core.lint.script_model import UNKNOWN, ShellWord
from envcheck.scripts.layered_environment import LayeredEnvironment

LONGEST = 1 << 16  # maximum characters of a known value; A=$A$A, forty times, would be a terabyte
MOST = 4096  # maximum words of a command


@dataclass(frozen=True)
class ShellValue:
    """A scalar, or the words of an array; `literal`: the script's own text, and its place."""

    word: ShellWord
    array: tuple[ShellWord, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.word.text) > LONGEST:
            object.__setattr__(self, "word", replace(self.word, text=UNKNOWN))
        if self.array is not None and len(self.array) > MOST:
            object.__setattr__(self, "array", (replace(self.word, text=UNKNOWN, many=True),))

    @property
    def unknown(self) -> ShellValue:
        """The same variable with an unknown value."""
        return ShellValue(replace(self.word, text=UNKNOWN), None)


def _find_no_file(_path: str, _cwd: str) -> Path | None:
    return None


@dataclass(frozen=True)
class ShellSurroundings:
    """What a script starts with: the variables of the user's environment, and the files that it may source.

    `script` is $0, the path of the script that runs, and `file` that of the script or sourced file that is read; "" if
    unknown.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    find_file: Callable[[str, str], Path | None] = _find_no_file
    script: str = ""
    file: str = ""


@dataclass
class ShellState:
    """Variables, options and folder of a shell; a subshell works on a copy.

    `values` and `exported` change by the methods alone, which note what changed for the environment of the next
    command.
    """

    values: dict[str, ShellValue] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    shell: set[str] = field(default_factory=set)
    arguments: tuple[ShellWord, ...] | None = None  # of the current function, None: unknown
    cwd: str = ""
    surroundings: ShellSurroundings = field(default_factory=ShellSurroundings)
    _environment: LayeredEnvironment = field(default_factory=lambda: LayeredEnvironment({}))
    _changed: set[str] = field(default_factory=set)  # names since the last environment

    def copy(self) -> ShellState:
        """Return a copy, for a subshell."""
        return ShellState(
            dict(self.values),
            set(self.exported),
            set(self.shell),
            self.arguments,
            self.cwd,
            self.surroundings,
            self._environment,
            set(self._changed),
        )

    def find_value(self, name: str) -> ShellValue | None:
        """Return the value of a variable: the script's, else that of the user's environment; None if unknown."""
        if (own := self.values.get(name)) is not None:
            return own
        if name == "BASH_SOURCE" and self.surroundings.file:
            word = ShellWord(self.surroundings.file, 0, 0)
            return ShellValue(word, (word, ShellWord(UNKNOWN, 0, 0, many=True)))  # and the files that called it
        given = self.surroundings.variables.get(name)
        return None if given is None else ShellValue(ShellWord(given, 0, 0))

    def assign_value(self, name: str, value: ShellValue) -> None:
        """Set the value of a variable."""
        self.values[name] = value
        self._changed.add(name)

    def declare_name(self, name: str, value: ShellValue) -> None:
        """Assign the value if the variable has none."""
        if name not in self.values:
            self.assign_value(name, value)

    def export_name(self, name: str) -> None:
        """Export a variable, which may have no value yet."""
        self.exported.add(name)
        self._changed.add(name)

    def unset_name(self, name: str) -> None:
        """Remove a variable, and its export."""
        self.values.pop(name, None)
        self.exported.discard(name)
        if name in self.surroundings.variables:
            left = {each: text for each, text in self.surroundings.variables.items() if each != name}
            self.surroundings = replace(self.surroundings, variables=left)
        self._changed.add(name)

    def merge_states(self, others: list[ShellState]) -> None:
        """Set the state, which is one of the branches, to what holds after each; values that differ are unknown."""
        own, first = self.values, others[0]
        changed: set[str] = set()
        for each in others:
            if each is not self:
                changed |= {name for name, value in each.values.items() if own.get(name) is not value}
                changed |= own.keys() - each.values.keys()
        for name in changed:
            found = [each.values.get(name) for each in others]
            given = next(value for value in found if value is not None)
            same = all(value is not None and are_equal(value, given) for value in found)
            own[name] = given if same else given.unknown
        exported = set().union(*(each.exported for each in others))
        self._changed |= changed | (exported - self.exported)
        self.exported = exported
        self.shell = set.intersection(*(each.shell for each in others))
        arguments = {None if each.arguments is None else tuple(w.text for w in each.arguments) for each in others}
        self.arguments = first.arguments if len(arguments) == 1 else None
        self.cwd = first.cwd if all(each.cwd == first.cwd for each in others) else UNKNOWN

    def list_exported(self) -> LayeredEnvironment:
        """Return the exported variables with their values."""
        if self._changed:
            own = {name: self.values[name].word if self._is_exported(name) else None for name in self._changed}
            if any(word is not None or name in self._environment for name, word in own.items()):
                self._environment = LayeredEnvironment(own, self._environment)
            self._changed = set()
        return self._environment

    def _is_exported(self, name: str) -> bool:
        return name in self.exported and name in self.values


def are_equal(one: ShellValue, other: ShellValue) -> bool:
    """Return whether two values have the same text."""
    texts = [None if each.array is None else [word.text for word in each.array] for each in (one, other)]
    return one.word.text == other.word.text and texts[0] == texts[1]
