"""The pages that `man` shows: python -m envcheck.cli.manual docs/man (with click-man, of the extra `test`)."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from envcheck.cli.main import COMMANDS, main
from envcheck.core.version import __version__

EXAMPLES = re.compile(r"((?:^  .*\n)+)", re.MULTILINE)


def pages() -> Iterator[tuple[str, str]]:
    """(file name, troff) of envcheck and of each command, those of a group below it."""
    context = click.Context(main, info_name="envcheck")
    yield "envcheck.1", _page(context)
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        yield from _below(command, name, context)


def _below(command: click.Command, name: str, above: click.Context) -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=name, parent=above)
    yield f"{context.command_path.replace(' ', '-')}.1", _page(context)
    for inner, each in (getattr(command, "commands", None) or {}).items():
        yield from _below(each, inner, context)


def _page(context: click.Context) -> str:
    """No date: a page changes when its command does."""
    from click_man.man import ManPage

    command = context.command
    page = ManPage(context.command_path)
    page.version, page.date = __version__, ""
    page.short_help = command.short_help or command.get_short_help_str(80)
    page.description = "\n\n".join(map(_paragraph, inspect.cleandoc(command.help or "").split("\n\n")))
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    page.options = [p.get_help_record(context) for p in command.params if isinstance(p, click.Option) and not p.hidden]
    if isinstance(command, click.Group):
        listed = ((name, command.get_command(context, name)) for name in command.list_commands(context))
        page.commands = [(name, each.get_short_help_str(80)) for name, each in listed if each]
    return EXAMPLES.sub(r".nf\n\1.fi\n", str(page) + "\n")


def _paragraph(text: str) -> str:
    """Examples keep their lines: troff begins a new one where a line begins with a blank."""
    first, _, rest = text.partition("\n")
    return "\n".join(f"  {line}" for line in rest.splitlines()) if first.strip() == "\b" else text


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (place / name).write_text(text, encoding="utf-8")
