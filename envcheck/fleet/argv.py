"""Rebuild the current command line for remote hosts, without the options that concern the local side."""

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
HERE = (*CHOOSING, "fanout", "host_timeout_s", "forget", "lang")


def list_hosts(request: Any) -> tuple[str, ...]:
    """Return the host names that --hosts, --hostfile and --exclude select."""
    from envcheck.fleet.hosts import resolve_hosts

    return tuple(resolve_hosts(request.hosts, request.hostfile, request.exclude))


def collect_given(without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the parameters given on this command line, by name, except those in `without`."""
    context = click.get_current_context()
    given = {p.name or "": context.params.get(p.name or "") for p in context.command.params}
    source = context.get_parameter_source
    return {n: v for n, v in given.items() if source(n) is ParameterSource.COMMANDLINE and n not in (*HERE, *without)}


def build_words(given: dict[str, Any], carried: dict[str, Path]) -> tuple[tuple[Word, ...], str]:
    """Return the command line for the hosts, and as a user writes it; `carried` files are attachments there."""
    there = tuple(word for _, word in _pair_words(given, carried))
    return there, shlex.join(word for word, _ in _pair_words(given, carried))


def _pair_words(given: dict[str, Any], carried: dict[str, Path]) -> Iterator[tuple[str, Word]]:
    """Yield each word as written here and as on the host."""
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
