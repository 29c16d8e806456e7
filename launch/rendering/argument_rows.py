"""Program arguments as a mapping from option to values, the form in which they are looked up and changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Rows = dict[str, tuple[str, ...]]  # option name without dashes → its values, () for a flag; in order


def parse_rows(arguments: Iterable[str]) -> Rows:
    """Return arguments by option; a repeated option keeps its first position and its last values."""
    found: dict[str, list[str]] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            found[name] = [value] if equals else []
        else:
            found.setdefault(name, []).append(argument)
    return {option: tuple(values) for option, values in found.items()}


def format_arguments(found: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the rows as command-line words."""
    return tuple(word for name, values in found.items() for word in ((f"--{name}",) if name else ()) + tuple(values))


def merge_rows(base: Iterable[str], own: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return `base` with the rows of `own` replacing those of the same name; new ones come last."""
    return format_arguments({**parse_rows(base), **{name: tuple(values) for name, values in own.items()}})
