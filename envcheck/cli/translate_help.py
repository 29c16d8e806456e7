"""The command line in the selected language: each command accepts --lang, and its help is translated."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import click

from envcheck.cli import help_screen, usage_errors
from envcheck.cli.option_groups import GroupedOption
from envcheck.core import language
from envcheck.core.language.width import display_width, wrap_text
from envcheck.core.messages import _, fill, mark


def localise_command(command: click.Command) -> click.Command:
    """Add --lang to the command and its subcommands, and translate their help."""
    if not any(OPTION in param.opts for param in command.params):
        help_screen.add_help_all(command)
        command.params.insert(len(command.params) - 1, _make_language_option())
        usage_errors.refuse_bad_values(command)
        command.context_class = NarrowContext
    if language.current_language() != "en":
        _translate_help(command)
    for below in (getattr(command, "commands", None) or {}).values():
        localise_command(below)
    return command


OPTION = language.OPTION


def _make_language_option() -> click.Option:
    """Already evaluated by language.choose; here it is only accepted and documented."""
    return GroupedOption(
        [OPTION], is_common=True, expose_value=False, metavar="en|zh", help="Language (default: the locale's)."
    )


def _translate_help(command: click.Command) -> None:
    command.help = _translate_paragraphs(command.help)
    command.short_help = language.translate(command.short_help) if command.short_help else None
    command.context_class = TranslatedContext
    command.get_help_option = _make_help_option_getter(command)  # type: ignore[method-assign]
    command.options_metavar = language.translate(command.options_metavar or "")
    if isinstance(command, click.Group):
        command.subcommand_metavar = language.translate(command.subcommand_metavar)
    for param in command.params:
        param.metavar = language.translate(param.metavar) if param.metavar else None
        if isinstance(param, click.Option) and param.help:
            param.help = language.translate(param.help)


CLICKS_WORDS = (
    mark("Usage: "),
    mark("Options"),
    mark("Commands"),
    mark("[OPTIONS]"),
    mark("COMMAND [ARGS]..."),
    mark("[COMMAND] [ARGS]..."),
    mark("[default: "),
    mark("[required]"),
    mark("Show this message and exit."),
    mark("Show the version and exit."),
    mark(":"),
    mark(": "),
)


def _translate_paragraphs(text: str | None) -> str | None:
    """Translate each paragraph; in examples, each command's description."""
    if not text:
        return text
    return "\n\n".join(
        _translate_examples(p) if "\b" in p else language.translate(" ".join(p.split())) for p in split_paragraphs(text)
    )


def split_paragraphs(text: str | None) -> list[str]:
    return re.split(r"\n\s*\n", inspect.cleandoc(text)) if text else []


def _translate_examples(text: str) -> str:
    """ "envcheck doctor      check this machine": two or more blanks separate command and description."""
    lines = []
    for line in text.split("\n"):
        found = help_screen.EXAMPLE.match(line)
        lines.append(f"{found[1]}{found[2]}{language.translate(found[3])}" if found else line)
    return "\n".join(lines)


def _make_help_option_getter(command: click.Command) -> Any:
    def get_help_option(ctx: click.Context) -> click.Option | None:
        option = type(command).get_help_option(command, ctx)
        if option:
            option.help = language.translate("Show this message and exit.")
        return option

    return get_help_option


class TranslatedHelpFormatter(help_screen.Fitting):
    """click's formatter with translated headings, which measures terminal columns instead of characters."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, language.translate(_("Usage: ")) if prefix is None else prefix)

    def write_heading(self, heading: str) -> None:
        self.write(f"{'':>{self.current_indent}}{language.translate(_('{heading}:', heading=fill(heading)))}\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 24, col_spacing: int = 2) -> None:
        listed = list(rows)
        col_max = min(col_max, self.column_limit)
        first = min(max((display_width(term) for term, _ in listed), default=0), col_max) + col_spacing
        pad = " " * (first + self.current_indent)
        for term, said in listed:
            lead = f"{'':>{self.current_indent}}{term}"
            begun = display_width(term) <= first - col_spacing
            for extra in (_("[default: "), _("[required]")):
                said = said.replace(extra, language.translate(extra))
            lines = wrap_text(said, max(self.width - 2, 20), pad, pad) or [""]
            if begun:
                lines[0] = f"{lead}{' ' * (len(pad) - display_width(lead))}{lines[0].lstrip()}"
            self.write("".join(f"{line.rstrip()}\n" for line in ([] if begun else [lead]) + lines))


class NarrowContext(click.Context):
    formatter_class = help_screen.Fitting


class TranslatedContext(NarrowContext):
    formatter_class = TranslatedHelpFormatter
