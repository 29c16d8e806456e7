"""`envcheck train --on`, and the options of each backend behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from envcheck.core.errors import UsageError
from launch.runs.backends import LOCAL, Own, load_backends, option

F = TypeVar("F", bound=Callable[..., Any])


def add_options(command: F) -> F:
    """The command with --on, and with the options of each backend."""
    on = option(
        "--on",
        type=click.Choice([LOCAL, *load_backends()]),
        default=LOCAL,
        show_default=True,
        help="Who runs it: this machine itself, or the engine that the site has.",
    )
    every = [on, *(one for backend in load_backends().values() for one in backend.options)]
    for one in reversed(every):
        command = click.option(one.word, **one.more)(command)
    return command


def split_options(on: str, asked: dict[str, Any]) -> tuple[Own, dict[str, Any]]:
    """The options of the backend that was named, and those that all know.  UsageError for another backend's."""
    own: dict[str, Any] = {}
    for name, backend in load_backends().items():
        for one in backend.options:
            value = asked.pop(one.name)
            if name == on:
                own[one.name] = value
            elif value:
                raise UsageError(f"{one.word} is for {backend.title}", f"say --on {name}, or leave it out")
    return own, asked
