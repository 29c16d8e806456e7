"""The options of a command as typed requests: frozen dataclasses, in which each option is one field.

A command has one request type or several.  The first type with an option in SELECTED_BY on the command line is used,
otherwise the last.  Any other option that is not a field of that type is rejected.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import click
from click.core import ParameterSource

from envcheck.cli import job_defaults
from envcheck.cli.option_groups import ORDER, GroupedOption, OptionGroup
from envcheck.core.errors import UsageError
from envcheck.core.messages import NOTHING, Message, _, join

EITHER = _("use only one of them")
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """The request of a command; `given` are the names of the options on the command line."""

    SELECTED_BY: ClassVar[tuple[str, ...]] = ()
    given: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Parameter:
    """How click reads a field: `make` returns the option or argument of that name.

    `excludes` and `needs` are names of other fields: it conflicts with each of the first, and requires one of the
    second; `hint` is the next step if it is rejected.
    """

    make: Callable[[str], click.Parameter]
    excludes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    hint: Message = NOTHING
    group: OptionGroup = OptionGroup.GENERAL


def option(
    *words: str,
    excludes: Sequence[str] = (),
    needs: Sequence[str] = (),
    hint: Message = NOTHING,
    group: OptionGroup = OptionGroup.GENERAL,
    **more: Any,
) -> Any:
    """Return a field for an option; `more` are arguments of GroupedOption and click."""
    make = functools.partial(_make_option, words, {"group": group, **more})
    return _make_field(Parameter(make, tuple(excludes), tuple(needs), hint, group))


def flag(*words: str, **more: Any) -> Any:
    """Return a field for an option without a value."""
    return option(*words, is_flag=True, **more)


def argument(**more: Any) -> Any:
    """Return a field for an argument; `more` are arguments of click."""
    return _make_field(Parameter(lambda name: click.Argument([name], **more)))


def _make_option(words: Sequence[str], more: Mapping[str, Any], name: str) -> click.Parameter:
    return GroupedOption([*words, name], **more)


def _make_field(parameter: Parameter) -> Any:
    return dataclasses.field(metadata={"parameter": parameter})


def command(
    *kinds: type[Request],
    group: click.Group | None = None,
    cls: type[click.Command] = click.Command,
    more: Iterable[click.Parameter] = (),
    **settings: Any,
) -> Callable[[Callable[[Any], int | None]], click.Command]:
    """Return a command that calls the function with its request; `more` are parameters for its field `own`."""
    own = list(more)

    def decorate(run: Callable[[Any], int | None]) -> click.Command:
        def callback(**values: Any) -> int | None:
            return run(read_request(kinds, values | {"own": {p.name: values[str(p.name)] for p in own}}))

        params = [*(p.make(name) for name, p in _list_parameters(kinds).items()), *own]
        made = cls(run.__name__, callback=callback, params=params, help=run.__doc__, **settings)
        if group is not None:
            group.add_command(made)
        return made

    return decorate


def read_request(kinds: Sequence[type[Request]], values: Mapping[str, Any]) -> Request:
    """Return the request of the command line; UsageError for options that no request type has together."""
    given, values = _find_given_options(), {**values, **_find_outer_values()}
    kind = next((kind for kind in kinds if given & set(kind.SELECTED_BY)), kinds[-1])
    known = _list_parameters([kind])
    if added := job_defaults.add_job(given, known):
        values, given = {**values, **added}, given | added.keys()
    for name, parameter in _list_parameters(kinds).items():
        if name not in given:
            continue
        if name not in known:
            selecting = [other for one in kinds if name in _list_parameters([one]) for other in one.SELECTED_BY]
            raise _describe_conflict(name, parameter, kind, selecting)
        if other := next((other for other in known[name].excludes if other in given), None):
            raise UsageError(
                _(
                    "{name} cannot be combined with {other}",
                    name=_find_option_word(name),
                    other=_find_option_word(other),
                ),
                parameter.hint or EITHER,
            )
        if parameter.needs and not given & set(parameter.needs):
            raise _describe_missing_option(name, parameter.needs)
    names = {field.name for field in dataclasses.fields(kind)} - {"given"}
    return kind(given=given, **{name: values[name] for name in names if name in values})


def _describe_conflict(name: str, parameter: Parameter, kind: type[Request], selecting: Sequence[str]) -> UsageError:
    given = _find_given_options()
    if mode := next((each for each in kind.SELECTED_BY if each in given), None):
        return UsageError(
            _("{name} cannot be combined with {mode}", name=_find_option_word(name), mode=_find_option_word(mode)),
            parameter.hint or EITHER,
        )
    return _describe_missing_option(name, selecting)


def _describe_missing_option(name: str, needed: Sequence[str]) -> UsageError:
    word, others = _find_option_word(name), [*dict.fromkeys(map(_find_option_word, needed))]
    if len(others) == 1:
        return UsageError(
            _("{word} requires {others}", word=word, others=others[0]),
            _("add {others}, or remove {word}", others=others[0], word=word),
        )
    return UsageError(
        _("{word} requires one of {others}", word=word, others=join(", ", others)),
        _("add one of them, or remove {word}", word=word),
    )


def _list_parameters(kinds: Iterable[type[Request]]) -> dict[str, Parameter]:
    """The parameters of all fields of these types, in the order of the help."""
    found: dict[str, Parameter] = {}
    for kind in kinds:
        for field in dataclasses.fields(kind):
            if "parameter" in field.metadata:
                found.setdefault(field.name, field.metadata["parameter"])
    return dict(sorted(found.items(), key=lambda item: ORDER[item[1].group]))


def _find_given_options() -> frozenset[str]:
    return _list_given(click.get_current_context()).union(_find_outer_values())


def _find_outer_values() -> dict[str, Any]:
    """The values of this command's options that are given before its name, to its group: `recipes --json show`.

    Not those that act on their own, such as --lang.
    """
    context = click.get_current_context()
    names = {p.name for p in context.command.params} - _list_given(context)
    parent = context.parent
    found: dict[str, Any] = {}
    while parent is not None:
        found = {name: parent.params[name] for name in _list_given(parent) & names & parent.params.keys()} | found
        parent = parent.parent
    return found


def _list_given(context: click.Context) -> frozenset[str]:
    source = context.get_parameter_source
    return frozenset(
        n
        for p in context.command.params
        if (n := p.name) and source(n) is ParameterSource.COMMANDLINE and context.params.get(n) != ()
    )


def _find_option_word(name: str) -> str:
    """The option as written on the command line: --NAME."""
    params = click.get_current_context().command.params
    return next(p.opts[0] for p in params if p.name == name)


def convert_request(kind: type[T], request: Request, /, **more: Any) -> T:
    """Return a dataclass of another layer, from the common fields of the request and from `more`."""
    names = [field.name for field in dataclasses.fields(kind) if hasattr(request, field.name)]  # type: ignore[arg-type]
    return kind(**{**{name: getattr(request, name) for name in names}, **more})
