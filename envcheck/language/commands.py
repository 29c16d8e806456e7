"""The command line in the chosen language: each command takes --lang, and its help is said in it."""

from __future__ import annotations

import inspect
import re
from typing import Any

import click

from envcheck import language


def spoken(command: click.Command) -> click.Command:
    """The command, and those below it, with --lang, and with help in the chosen language."""
    if not any(OPTION in param.opts for param in command.params):
        command.params.append(_option())
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
    command.format_usage = _usage(command)  # type: ignore[method-assign]
    command.get_help_option = _help_option(command)  # type: ignore[method-assign]
    command.format_options = _headings(command.format_options)  # type: ignore[method-assign]
    for param in command.params:
        if isinstance(param, click.Option) and param.help:
            param.help = language.say(param.help)


def _paragraphs(text: str | None) -> str | None:
    """A paragraph after the other; an example's words behind its command, line by line."""
    if not text:
        return text
    return "\n\n".join(_examples(p) if "\b" in p else language.say(" ".join(p.split())) for p in _split(text))


def _split(text: str) -> list[str]:
    return re.split(r"\n\s*\n", inspect.cleandoc(text))


def _examples(text: str) -> str:
    """ "envcheck doctor      whichever cards are here": two blanks and more part command and words."""
    lines = []
    for line in text.split("\n"):
        found = _EXAMPLE.match(line)
        lines.append(f"{found[1]}{found[2]}{language.say(found[3])}" if found else line)
    return "\n".join(lines)


_EXAMPLE = re.compile(r"(\S.*?)(\s{2,})(\S.*)$")


def _usage(command: click.Command) -> Any:
    def format_usage(ctx: click.Context, formatter: click.HelpFormatter) -> None:
        pieces = " ".join(command.collect_usage_pieces(ctx))
        formatter.write_usage(ctx.command_path, pieces, prefix=f"{language.say('Usage:')} ")

    return format_usage


def _help_option(command: click.Command) -> Any:
    def get_help_option(ctx: click.Context) -> click.Option | None:
        option = type(command).get_help_option(command, ctx)
        if option:
            option.help = language.say("Show this message and exit.")
        return option

    return get_help_option


def _headings(format_options: Any) -> Any:
    """click names its sections by gettext, which has no table for us."""

    def formatted(ctx: click.Context, formatter: click.HelpFormatter) -> None:
        section = formatter.section

        def translated(name: str) -> Any:
            return section(language.say(name))

        formatter.section = translated  # type: ignore[method-assign]
        try:
            format_options(ctx, formatter)
        finally:
            formatter.section = section  # type: ignore[method-assign]

    return formatted
