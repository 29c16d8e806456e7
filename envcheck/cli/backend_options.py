"""The options of each backend behind `envcheck train --on`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from envcheck.core.errors import UsageError
from launch.runs.backends import LOCAL, Own, load_backends


def names() -> list[str]:
    """What --on takes."""
    return [LOCAL, *load_backends()]


def parameters() -> list[click.Parameter]:
    """The options of all backends."""
    return [click.Option([one.word], **one.more) for each in load_backends().values() for one in each.options]


def choose_own(on: str, values: Mapping[str, Any]) -> Own:
    """The options of the backend that was named; UsageError for another backend's."""
    for name, backend in load_backends().items():
        for one in backend.options:
            if name != on and values[one.name]:
                raise UsageError(f"{one.word} is for {backend.title}", f"say --on {name}, or leave it out")
    return {one.name: values[one.name] for one in load_backends()[on].options} if on != LOCAL else {}
