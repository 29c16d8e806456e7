"""In which format and where the report of doctor goes, of one machine or many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from envcheck.report import Report


def choose_format(name: str | None, as_json: bool, output: str | None) -> str:
    """Refused before a machine is asked where the format, or its place, cannot be."""
    if output is None and not (name or as_json):
        return "table"
    from envcheck.report import formats, write

    if output not in (None, "-"):
        write.check(Path(str(output)))
    return formats.chosen(name, as_json, output)


def write_report(report: Report, name: str, output: str | None) -> None:
    """Into the file, or on standard output; JSON is English unless a language was asked for."""
    import datetime
    from dataclasses import replace

    from envcheck.core import language
    from envcheck.report import Style, formats, screen, write

    if name == "json":
        language.for_a_program()
    file = None if output in (None, "-") else Path(str(output))
    style = Style(width=screen.WIDEST) if file else screen.style()
    now = datetime.datetime.now(datetime.timezone.utc)
    said = replace(report.localised(), style=style, lang=language.chosen(), made=now)
    text = formats.render(name, said)
    if file:
        write.write(file, text)
        click.echo(language.say(f"envcheck: the report is in {file}"), err=True)
    else:
        click.echo(text if name == "table" else text.encode(), nl=False)  # a page says itself that it is UTF-8
