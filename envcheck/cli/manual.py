"""The pages that `man` shows; setup.py makes them where envcheck is built: python -m envcheck.cli.manual FOLDER."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
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
    command, path = context.command, context.command_path
    short = command.short_help or command.get_short_help_str(80)
    head = [f'.TH "{path.upper()}" "1" "" "{__version__}" "{path} Manual"', ".SH NAME"]
    head += [rf"{_dashes(path.replace(' ', '-'))} \- {short}", ".SH SYNOPSIS", f".B {path}"]
    head += [_dashes(" ".join(command.collect_usage_pieces(context)))]
    text = "\n\n".join(map(_paragraph, inspect.cleandoc(command.help or "").split("\n\n")))
    body = [*(_section("DESCRIPTION", [_filled(text)]) if text else []), *_section("OPTIONS", _options(context))]
    if isinstance(command, click.Group):
        body += _section("COMMANDS", _commands(command, context))
    return EXAMPLES.sub(r".nf\n\1.fi\n", "\n".join([*head, *body]) + "\n")


def _section(title: str, lines: Iterable[str]) -> list[str]:
    return [f".SH {title}", *lines]


def _options(context: click.Context) -> Iterator[str]:
    for option in context.command.params:
        record = option.get_help_record(context) if isinstance(option, click.Option) and not option.hidden else None
        if record:
            name, *rest = _dashes(record[0]).split()
            yield from (".TP", " ".join([rf"\fB{name}\fP", *rest]), _filled(record[1]))


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        if each := group.get_command(context, name):
            page = f"{context.command_path.replace(' ', '-')}-{name}(1)"
            yield from (".PP", rf"\fB{name}\fP", f"{each.get_short_help_str(80)} See \\fB{_dashes(page)}\\fP.")


def _filled(text: str) -> str:
    """A blank line begins a paragraph."""
    return "\n".join(line or ".PP" for line in text.split("\n"))


def _dashes(text: str) -> str:
    return text.replace("-", r"\-")


def _paragraph(text: str) -> str:
    """Examples keep their lines: troff begins a new one where a line begins with a blank."""
    first, _, rest = text.partition("\n")
    return "\n".join(f"  {line}" for line in rest.splitlines()) if first.strip() == "\b" else text


def write_pages(place: Path) -> list[Path]:
    """The pages below `place`, which is made."""
    place.mkdir(parents=True, exist_ok=True)
    texts = {place / name: text for name, text in pages()}
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
