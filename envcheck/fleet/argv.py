"""A command's own words again, for the hosts of --hosts: what was written, without what is for this side."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from envcheck.payload.remote_command import Word

CHOOSING = ("hosts", "hostfile", "exclude")
HERE = (*CHOOSING, "fanout", "deadline", "forget", "lang")


def hosts(request: Any) -> tuple[str, ...]:
    """The names that --hosts, --hostfile and --exclude mean."""
    from envcheck.fleet.hosts import chosen

    return tuple(chosen(request.hosts, request.hostfile, request.exclude))


def written(without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Name of the parameter → value, of what stands in this command."""
    context = click.get_current_context()
    given = {p.name or "": context.params.get(p.name or "") for p in context.command.params}
    source = context.get_parameter_source
    return {n: v for n, v in given.items() if source(n) is ParameterSource.COMMANDLINE and n not in (*HERE, *without)}


def words(given: dict[str, Any], carried: dict[str, Path]) -> tuple[tuple[Word, ...], str]:
    """For the hosts, and as a person writes them; files that are `carried` are attachments there."""
    there = tuple(word for _, word in _each(given, carried))
    return there, shlex.join(word for word, _ in _each(given, carried))


def _each(given: dict[str, Any], carried: dict[str, Path]) -> Iterator[tuple[str, Word]]:
    """(as written here, as it is there)."""
    params = {p.name: p for p in click.get_current_context().command.params}
    for name, value in given.items():
        param = params[name]
        for one in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(param, click.Argument):
                continue
            option = param.opts[0]
            yield option, option
            if not (isinstance(param, click.Option) and param.is_flag):
                yield str(one), ((name,) if name in carried else str(one))
    for name, value in given.items():
        if isinstance(params[name], click.Argument) and value:
            yield from (("--", "--"), *((str(one), str(one)) for one in value))
