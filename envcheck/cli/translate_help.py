"""The command line in the chosen language: each command takes --lang, and its help is said in it."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterable
from typing import Any

import click

from envcheck.cli import usage_errors
from envcheck.core import language
from envcheck.core.language.width import columns, wrap


def spoken(command: click.Command) -> click.Command:
    """The command, and those below it, with --lang, and with help in the chosen language."""
    if not any(OPTION in param.opts for param in command.params):
        command.params.append(_option())
        usage_errors.look_at_values(command)
        command.context_class = Narrow
    if language.chosen() != "en":
        _translate(command)
    for below in (getattr(command, "commands", None) or {}).values():
        spoken(below)
    return command


OPTION = language.OPTION


def _option() -> click.Option:
    """Heard already, by language.choose; here it is only allowed, and told."""
    return click.Option([OPTION], expose_value=False, metavar="en|zh", help="Language; else the locale's.")


def _translate(command: click.Command) -> None:
    command.help = _paragraphs(command.help)
    command.short_help = language.say(command.short_help) if command.short_help else None
    command.context_class = Context
    command.get_help_option = _help_option(command)  # type: ignore[method-assign]
    for param in command.params:
        if isinstance(param, click.Option) and param.help:
            param.help = language.say(param.help)


def _paragraphs(text: str | None) -> str | None:
    """A paragraph after the other; an example's words behind its command, line by line."""
    if not text:
        return text
    return "\n\n".join(_examples(p) if "\b" in p else language.say(" ".join(p.split())) for p in paragraphs(text))


def paragraphs(text: str | None) -> list[str]:
    return re.split(r"\n\s*\n", inspect.cleandoc(text)) if text else []


def _examples(text: str) -> str:
    """ "envcheck doctor      whichever cards are here": two blanks and more part command and words."""
    lines = []
    for line in text.split("\n"):
        found = EXAMPLE.match(line)
        lines.append(f"{found[1]}{found[2]}{language.say(found[3])}" if found else line)
    return "\n".join(lines)


EXAMPLE = re.compile(r"(\S.*?)(\s{2,})(\S.*)$")


def _help_option(command: click.Command) -> Any:
    def get_help_option(ctx: click.Context) -> click.Option | None:
        option = type(command).get_help_option(command, ctx)
        if option:
            option.help = language.say("Show this message and exit.")
        return option

    return get_help_option


class Fitting(click.HelpFormatter):
    """click's, on a terminal that has fewer columns than click's least, too; there the first of two columns yields."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(indent_increment, width, max_width)
        if width is None and self.width == CLICKS_LEAST:
            self.width = max(20, min(CLICKS_LEAST, shutil.get_terminal_size().columns - 2))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(list(rows), min(col_max, max(8, self.width - 40)), col_spacing)


CLICKS_LEAST = 50


class Formatter(Fitting):
    """click's, by columns of the terminal instead of characters, with its headings said in the language."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, language.say("Usage: ") if prefix is None else prefix)

    def write_heading(self, heading: str) -> None:
        self.write(f"{'':>{self.current_indent}}{language.say(heading)}{language.say(':')}\n")

    def write_text(self, text: str) -> None:
        indent = " " * self.current_indent
        for n, paragraph in enumerate(text.split("\n\n")):
            self.write("\n" * (n > 0))
            raw = paragraph.lstrip("\n").startswith("\b")
            lines = (
                [indent + line for line in paragraph.split("\n")[1:]]
                if raw
                else wrap(paragraph, self.width, indent, indent)
            )
            self.write("".join(f"{line}\n" for line in lines))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        listed = list(rows)
        col_max = min(col_max, max(8, self.width - 40))
        first = min(max((columns(term) for term, _ in listed), default=0), col_max) + col_spacing
        pad = " " * (first + self.current_indent)
        for term, said in listed:
            lead = f"{'':>{self.current_indent}}{term}"
            begun = columns(term) <= first - col_spacing
            for mark in ("[default: ", "[required]"):
                said = said.replace(mark, language.exact(mark))
            lines = wrap(said, max(self.width - 2, 20), pad, pad) or [""]
            if begun:
                lines[0] = f"{lead}{' ' * (len(pad) - columns(lead))}{lines[0].lstrip()}"
            self.write("".join(f"{line.rstrip()}\n" for line in ([] if begun else [lead]) + lines))


class Narrow(click.Context):
    formatter_class = Fitting


class Context(Narrow):
    formatter_class = Formatter
