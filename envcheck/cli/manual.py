"""The man pages, which the .deb and the .rpm contain: python -m envcheck.cli.manual FOLDER."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from envcheck.cli.help_screen import has_many_options
from envcheck.cli.main import COMMANDS, main
from envcheck.cli.option_groups import group_options
from envcheck.core.version import __version__

EXAMPLES = re.compile(r"((?:^  .*\n)+)", re.MULTILINE)


def render_pages() -> Iterator[tuple[str, str]]:
    """Yield (file name, troff) of envcheck and each command, subcommands included."""
    context = click.Context(main, info_name="envcheck")
    yield "envcheck.1", _render_page(context)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        yield from _render_command_tree(command, name, context)


def _render_command_tree(command: click.Command, name: str, above: click.Context) -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=name, parent=above)
    yield f"{context.command_path.replace(' ', '-')}.1", _render_page(context)
    for inner, each in (getattr(command, "commands", None) or {}).items():
        yield from _render_command_tree(each, inner, context)


def _render_page(context: click.Context) -> str:
    """Without a date: a page changes only with its command."""
    command, path = context.command, context.command_path
    short = command.short_help or command.get_short_help_str(80)
    head = [f'.TH "{path.upper()}" "1" "" "{__version__}" "{path} Manual"', ".SH NAME"]
    head += [rf"{_escape_dashes(path.replace(' ', '-'))} \- {short}", ".SH SYNOPSIS", f".B {path}"]
    head += [_escape_dashes(" ".join(command.collect_usage_pieces(context)))]
    text = "\n\n".join(map(_render_paragraph, inspect.cleandoc(command.help or "").split("\n\n")))
    body = [
        *(_render_section("DESCRIPTION", [_mark_paragraphs(text)]) if text else []),
        *_render_section("OPTIONS", _render_options(context)),
    ]
    if isinstance(command, click.Group):
        body += _render_section("COMMANDS", _render_commands(command, context))
    return EXAMPLES.sub(r".nf\n\1.fi\n", "\n".join([*head, *body]) + "\n")


def _render_section(title: str, lines: Iterable[str]) -> list[str]:
    return [f".SH {title}", *lines]


def _render_options(context: click.Context) -> Iterator[str]:
    """All options; those of a long command by group, as in its help."""
    has_groups = has_many_options(context.command)
    for group, options in group_options(context.command, context).items():
        if has_groups:
            yield f".SS {group.value}"
        for option in options:
            if record := option.get_help_record(context):
                name, *rest = _escape_dashes(record[0]).split()
                yield from (".TP", " ".join([rf"\fB{name}\fP", *rest]), _mark_paragraphs(record[1]))


def _render_commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        if each := group.get_command(context, name):
            page = f"{context.command_path.replace(' ', '-')}-{name}(1)"
            yield from (".PP", rf"\fB{name}\fP", f"{each.get_short_help_str(80)} See \\fB{_escape_dashes(page)}\\fP.")


def _mark_paragraphs(text: str) -> str:
    """A blank line starts a paragraph."""
    return "\n".join(line or ".PP" for line in text.split("\n"))


def _escape_dashes(text: str) -> str:
    return text.replace("-", r"\-")


def _render_paragraph(text: str) -> str:
    """Examples keep their lines: troff starts a new line where the text starts with a blank."""
    first, _, rest = text.partition("\n")
    return "\n".join(f"  {line}" for line in rest.splitlines()) if first.strip() == "\b" else text


def write_pages(place: Path) -> list[Path]:
    """Write the pages to the folder `place`, which is created."""
    place.mkdir(parents=True, exist_ok=True)
    texts = {place / name: text for name, text in render_pages()}
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
