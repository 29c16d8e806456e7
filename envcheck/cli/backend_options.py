"""The options of each backend of `envcheck train --on`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from envcheck.cli.option_groups import GroupedOption, OptionGroup
from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from launch.runs.backends import LOCAL, OwnOptions, load_backends


def list_names() -> list[str]:
    """Return the values of --on."""
    return [LOCAL, *load_backends()]


def list_parameters() -> list[click.Parameter]:
    """Return the options of all backends."""
    return [
        GroupedOption([one.word], group=OptionGroup[each.title.upper()], is_common=one.is_common, **one.more)
        for each in load_backends().values()
        for one in each.options
    ]


def choose_own_options(on: str, values: Mapping[str, Any]) -> OwnOptions:
    """Return the options of the selected backend; UsageError for options of another backend."""
    for name, backend in load_backends().items():
        for one in backend.options:
            if name != on and values[one.name]:
                raise UsageError(
                    _("{word} applies to {title} only", word=one.word, title=backend.title),
                    _("add --on {name}, or remove the option", name=name),
                )
    return {one.name: values[one.name] for one in load_backends()[on].options} if on != LOCAL else {}
