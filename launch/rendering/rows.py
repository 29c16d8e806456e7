"""Arguments as options with what belongs to each: the form in which they are looked up, changed and counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Rows = dict[str, tuple[str, ...]]  # option's name without dashes → its values, () for a bare one; in order


def rows(arguments: Iterable[str]) -> Rows:
    """The rows of arguments that begin with an option; an option that stands twice keeps its first place."""
    found: dict[str, list[str]] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            found[name] = [value] if equals else []
        else:
            found.setdefault(name, []).append(argument)
    return {option: tuple(values) for option, values in found.items()}


def arguments(found: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Back to words, as a program takes them."""
    return tuple(word for name, values in found.items() for word in ((f"--{name}",) if name else ()) + tuple(values))


def merged(base: Iterable[str], own: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Arguments with the rows of `own` in the place of their namesakes, new ones last."""
    return arguments({**rows(base), **{name: tuple(values) for name, values in own.items()}})
