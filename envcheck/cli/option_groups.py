"""The group of an option in the help of its command, and whether `--help` shows it or only `--help-all`."""

from __future__ import annotations

from enum import Enum
from typing import Any

import click

from envcheck.core.errors import UsageError
from envcheck.core.messages import _, mark
from envcheck.core.paths import has_control_characters
from envcheck.core.secrets import redact_text


class OptionGroup(Enum):
    """The headings of a long help, in display order."""

    JOB = mark("Job options")
    LAYOUT = mark("Layout options")
    CHECKS = mark("Check options")
    PREFLIGHT = mark("Preflight options")
    RUN = mark("Run options")
    MACHINE = mark("Machine options")
    DRIVER = mark("Driver options")
    HOSTS = mark("Multi-machine options")
    SLURM = mark("Slurm options")
    KUBERNETES = mark("Kubernetes options")
    OUTPUT = mark("Output options")
    GENERAL = mark("General options")


LINE_ENDS = str.maketrans("\t\r\n", "   ")
ORDER = {group: n for n, group in enumerate(OptionGroup)}


class GroupedOption(click.Option):
    """An option with its group; `is_common`: `--help` shows it even if the command has many options.

    Its values have no control characters: they become parts of scripts, of manifests and of lines on a terminal.
    `is_prose`: it takes sentences, in which lines may end.
    """

    def __init__(
        self,
        words: list[str],
        *,
        group: OptionGroup = OptionGroup.GENERAL,
        is_common: bool = False,
        is_prose: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(words, **more)
        self.group = group
        self.is_common = is_common
        self.is_prose = is_prose

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the value in the option's type; UsageError for control characters."""
        for text in value if isinstance(value, (list, tuple)) else (value,):
            bare = text.translate(LINE_ENDS) if isinstance(text, str) and self.is_prose else text
            if isinstance(bare, str) and has_control_characters(bare):
                raise UsageError(
                    _(
                        "{option}: {value!r} contains control characters",
                        option=self.opts[0],
                        value=redact_text(bare)[:80],
                    ),
                    _("remove them"),
                )
        return super().type_cast_value(ctx, value)


def find_group(param: click.Parameter) -> OptionGroup:
    return param.group if isinstance(param, GroupedOption) else OptionGroup.GENERAL


def is_common(param: click.Parameter) -> bool:
    """Options of click's own, such as --help, are common."""
    return param.is_common if isinstance(param, GroupedOption) else True


def group_options(command: click.Command, context: click.Context) -> dict[OptionGroup, list[click.Option]]:
    """Return the command's options that are not hidden by group, in the order of the groups; common ones first."""
    options = [p for p in command.get_params(context) if isinstance(p, click.Option) and not p.hidden]
    options.sort(key=is_common, reverse=True)
    found = {group: [o for o in options if find_group(o) is group] for group in OptionGroup}
    return {group: some for group, some in found.items() if some}
