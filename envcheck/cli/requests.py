"""The options of a command as typed requests: frozen dataclasses, in which each option is one field.

A command has one type of request or several.  The first type of which an option in SELECTED_BY was given is the one
that is meant; where none is, it is the last.  An option that was given and is no field of that type is refused.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import click
from click.core import ParameterSource

from envcheck.core.errors import UsageError

EITHER = "leave one of them out"
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What a command was asked for; `given` are the names of the options that the command line has."""

    SELECTED_BY: ClassVar[tuple[str, ...]] = ()
    given: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Parameter:
    """How click reads a field: `make` gives the option or argument of that name.

    `excludes` and `needs` are names of other fields: it cannot be combined with any of the first, and takes one of the
    second; `hint` is the next step where it is refused.  `order`: fields of a higher one stand later in the help."""

    make: Callable[[str], click.Parameter]
    excludes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    hint: str = ""
    order: int = 0


def option(
    *words: str, excludes: Sequence[str] = (), needs: Sequence[str] = (), hint: str = "", order: int = 0, **more: Any
) -> Any:
    """A field that is an option; `more` is click's."""
    make = functools.partial(_make_option, words, more)
    return _field(Parameter(make, tuple(excludes), tuple(needs), hint, order))


def flag(*words: str, **more: Any) -> Any:
    """A field that is an option without a value."""
    return option(*words, is_flag=True, **more)


def argument(**more: Any) -> Any:
    """A field that is an argument; `more` is click's."""
    return _field(Parameter(lambda name: click.Argument([name], **more)))


def _make_option(words: Sequence[str], more: Mapping[str, Any], name: str) -> click.Parameter:
    return click.Option([*words, name], **more)


def _field(parameter: Parameter) -> Any:
    return dataclasses.field(metadata={"parameter": parameter})


def command(
    *kinds: type[Request],
    group: click.Group | None = None,
    cls: type[click.Command] = click.Command,
    more: Iterable[click.Parameter] = (),
    **settings: Any,
) -> Callable[[Callable[[Any], int | None]], click.Command]:
    """A command that calls the function with its request; `more` are parameters for its field `own`."""
    own = list(more)

    def decorate(run: Callable[[Any], int | None]) -> click.Command:
        def callback(**values: Any) -> int | None:
            return run(read_request(kinds, values | {"own": {p.name: values[str(p.name)] for p in own}}))

        params = [*(p.make(name) for name, p in _parameters(kinds).items()), *own]
        made = cls(run.__name__, callback=callback, params=params, help=run.__doc__, **settings)
        if group is not None:
            group.add_command(made)
        return made

    return decorate


def read_request(kinds: Sequence[type[Request]], values: Mapping[str, Any]) -> Request:
    """The request that the command line means; UsageError for options that no type of request has together."""
    given = _given()
    kind = next((kind for kind in kinds if given & set(kind.SELECTED_BY)), kinds[-1])
    known = _parameters([kind])
    for name, parameter in _parameters(kinds).items():
        if name not in given:
            continue
        if name not in known:
            selecting = [other for one in kinds if name in _parameters([one]) for other in one.SELECTED_BY]
            raise _refusal(name, parameter, kind, selecting)
        if other := next((other for other in known[name].excludes if other in given), None):
            raise UsageError(f"{_word(name)} cannot be combined with {_word(other)}", parameter.hint or EITHER)
        if parameter.needs and not given & set(parameter.needs):
            raise _lacking(name, parameter.needs)
    names = {field.name for field in dataclasses.fields(kind)} - {"given"}
    return kind(given=given, **{name: values[name] for name in names})


def _refusal(name: str, parameter: Parameter, kind: type[Request], selecting: Sequence[str]) -> UsageError:
    given = _given()
    if mode := next((each for each in kind.SELECTED_BY if each in given), None):
        return UsageError(f"{_word(name)} cannot be combined with {_word(mode)}", parameter.hint or EITHER)
    return _lacking(name, selecting)


def _lacking(name: str, needed: Sequence[str]) -> UsageError:
    word, others = _word(name), [*dict.fromkeys(map(_word, needed))]
    if len(others) == 1:
        return UsageError(f"{word} requires {others[0]}", f"add {others[0]}, or leave {word} out")
    return UsageError(f"{word} requires one of {', '.join(others)}", f"leave {word} out")


def _parameters(kinds: Iterable[type[Request]]) -> dict[str, Parameter]:
    """Of all fields of these types, in the order of the help."""
    found: dict[str, Parameter] = {}
    for kind in kinds:
        for field in dataclasses.fields(kind):
            if "parameter" in field.metadata:
                found.setdefault(field.name, field.metadata["parameter"])
    return dict(sorted(found.items(), key=lambda item: item[1].order))


def _given() -> frozenset[str]:
    context = click.get_current_context()
    source = context.get_parameter_source
    return frozenset(n for p in context.command.params if (n := p.name) and source(n) is ParameterSource.COMMANDLINE)


def _word(name: str) -> str:
    """--NAME, as the command line has it."""
    params = click.get_current_context().command.params
    return next(p.opts[0] for p in params if p.name == name)


def convert_request(kind: type[T], request: Request, /, **more: Any) -> T:
    """The dataclass of another layer, from the fields of the request that it has as well and from `more`."""
    names = [field.name for field in dataclasses.fields(kind) if hasattr(request, field.name)]  # type: ignore[arg-type]
    return kind(**{**{name: getattr(request, name) for name in names}, **more})
