"""The group of an option in the help of its command, and whether `--help` shows it or only `--help-all`."""

from __future__ import annotations

from enum import Enum
from typing import Any

import click

from envcheck.core.messages import mark


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


ORDER = {group: n for n, group in enumerate(OptionGroup)}


class GroupedOption(click.Option):
    """An option with its group; `is_common`: `--help` shows it even if the command has many options."""

    def __init__(
        self, words: list[str], *, group: OptionGroup = OptionGroup.GENERAL, is_common: bool = False, **more: Any
    ) -> None:
        super().__init__(words, **more)
        self.group = group
        self.is_common = is_common


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
