"""What the shell holds while a script is walked through: variables, options, the folder; bounded, never run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from envcheck.core.lint.model import UNKNOWN, Word

LONGEST = 1 << 16  # characters of a value that is followed; A=$A$A, forty times, would be a terabyte
MOST = 4096  # words that a command may have


@dataclass(frozen=True)
class Value:
    """A scalar, or the words of an array; `literal`: the script's own text, where it stands."""

    word: Word
    array: tuple[Word, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.word.text) > LONGEST:
            object.__setattr__(self, "word", replace(self.word, text=UNKNOWN))
        if self.array is not None and len(self.array) > MOST:
            object.__setattr__(self, "array", (replace(self.word, text=UNKNOWN, many=True),))

    @property
    def unknown(self) -> Value:
        return Value(replace(self.word, text=UNKNOWN), None)


@dataclass
class State:
    """A copy of it is a subshell."""

    values: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    shell: set[str] = field(default_factory=set)
    arguments: tuple[Word, ...] | None = None  # of the function that runs, None: unknown
    cwd: str = ""

    def copy(self) -> State:
        return State(dict(self.values), set(self.exported), set(self.shell), self.arguments, self.cwd)

    def merge(self, others: list[State]) -> None:
        """What is so after any of the ways that were taken; a value that differs is unknown."""
        first = others[0]
        names = {name for each in others for name in each.values}
        merged: dict[str, Value] = {}
        for name in names:
            found = [each.values.get(name) for each in others]
            given = next(value for value in found if value is not None)
            same = all(value is not None and alike(value, given) for value in found)
            merged[name] = given if same else given.unknown
        self.values = merged
        self.exported = set().union(*(each.exported for each in others))
        self.shell = set.intersection(*(each.shell for each in others))
        arguments = {None if each.arguments is None else tuple(w.text for w in each.arguments) for each in others}
        self.arguments = first.arguments if len(arguments) == 1 else None
        self.cwd = first.cwd if all(each.cwd == first.cwd for each in others) else UNKNOWN

    def environment(self) -> dict[str, Word]:
        return {name: self.values[name].word for name in self.exported if name in self.values}


def alike(one: Value, other: Value) -> bool:
    texts = [None if each.array is None else [word.text for word in each.array] for each in (one, other)]
    return one.word.text == other.word.text and texts[0] == texts[1]
