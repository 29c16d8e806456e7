"""The help of a command with many options: common options by group with `--help`, all of them with `--help-all`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from typing import Any

import click

from envcheck.cli.option_groups import GroupedOption, group_options, is_common
from envcheck.core import language
from envcheck.core.language.width import display_width, wrap_text
from envcheck.core.messages import _

MANY = 12  # options of a command; with more of them `--help` shows the common ones
SHOWS_ALL = "envcheck.help_all"
COLUMN = 24
EXAMPLE = re.compile(r"(\S.*?)(\s{2,})(\S.*)")
CLICKS_LEAST = 50


def has_many_options(command: click.Command) -> bool:
    return sum(isinstance(param, click.Option) for param in command.params) > MANY


def add_help_all(command: click.Command) -> None:
    """Give the command `--help-all`, and groups in its help if it has many options."""
    if has_many_options(command):
        command.format_options = _formatting_groups(command)  # type: ignore[method-assign]
        command.params.append(_make_option(is_common=True))
    else:  # --help shows all of them
        command.params.append(_make_option(hidden=True))


def _make_option(**more: Any) -> click.Option:
    return GroupedOption(
        ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_print_all,
        help="Show all options and exit.", **more,
    )  # fmt: skip


def _print_all(context: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[SHOWS_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def _formatting_groups(command: click.Command) -> Any:
    def format_options(context: click.Context, formatter: click.HelpFormatter) -> None:
        shows_all = context.meta.get(SHOWS_ALL, False)
        sections: dict[str, list[tuple[str, str]]] = {}
        for group, options in group_options(command, context).items():
            shown = [option for option in options if shows_all or is_common(option)]
            if rows := list(filter(None, (option.get_help_record(context) for option in shown))):
                sections[group.value] = rows
        for heading, rows in _align(sections, formatter.width).items():
            with formatter.section(heading):
                formatter.write_dl(rows)
        if not shows_all:
            formatter.write_paragraph()
            more = _("Run '{command} --help-all' for all options.", command=context.command_path)
            formatter.write_text(language.translate(more))

    return format_options


def limit_column(width: int) -> int:
    """Return the width for options and their metavars on a terminal of that width."""
    return min(COLUMN, max(8, width - 40))


def _align(sections: dict[str, list[tuple[str, str]]], width: int) -> dict[str, list[tuple[str, str]]]:
    """Rows padded so that the second column starts at the same position in all sections."""
    limit = limit_column(width)
    widest = max(min(display_width(term), limit) for rows in sections.values() for term, _ in rows)
    return {
        heading: [(term + " " * (widest - display_width(term)), text) for term, text in rows]
        for heading, rows in sections.items()
    }


class Fitting(click.HelpFormatter):
    """click's formatter, also for terminals narrower than click's minimum; there the first column is shortened."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(indent_increment, width, max_width)
        if width is None and self.width == CLICKS_LEAST:
            self.width = max(20, min(CLICKS_LEAST, shutil.get_terminal_size().columns - 2))

    @property
    def column_limit(self) -> int:
        """The maximum width of the first column."""
        return limit_column(self.width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = COLUMN, col_spacing: int = 2) -> None:
        super().write_dl(list(rows), min(col_max, self.column_limit), col_spacing)

    def write_text(self, text: str) -> None:
        indent = " " * self.current_indent
        for n, paragraph in enumerate(text.split("\n\n")):
            self.write("\n" * (n > 0))
            if paragraph.lstrip("\n").startswith("\b"):
                lines = [line for each in paragraph.split("\n")[1:] for line in self._fit_example(each, indent)]
            else:
                lines = wrap_text(" ".join(paragraph.split()), self.width, indent, indent)
            self.write("".join(f"{line}\n" for line in lines))

    def _fit_example(self, line: str, indent: str) -> list[str]:
        """Never break a command, which is to be pasted; its description moves to the next line if there is no space."""
        found = EXAMPLE.match(line)
        if found is None or display_width(indent + line) <= self.width:
            return [indent + line]
        return [indent + found[1], *wrap_text(found[3], self.width, indent * 2, indent * 2)]
