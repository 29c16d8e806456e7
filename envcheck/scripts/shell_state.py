"""The state of the shell while a script is interpreted: variables, options, folder; bounded, and never executed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
            self._environment,
            set(self._changed),
        )

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
        self._changed.add(name)

    def merge_states(self, others: list[ShellState]) -> None:
        """Set the state to what holds after each of the branches; values that differ are unknown."""
        first = others[0]
        names = {name for each in others for name in each.values}
        merged: dict[str, ShellValue] = {}
        for name in names:
            found = [each.values.get(name) for each in others]
            given = next(value for value in found if value is not None)
            same = all(value is not None and are_equal(value, given) for value in found)
            merged[name] = given if same else given.unknown
        self._environment, self._changed = LayeredEnvironment({}), set(names)
        self.values = merged
        self.exported = set().union(*(each.exported for each in others))
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
