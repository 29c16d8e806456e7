"""In which format and where a report of doctor goes, of one machine and of many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from envcheck.cli.doctor_options import ReportOptions
    from envcheck.report import Report


def choose_format(request: ReportOptions) -> str:
    """Of the file, or of standard output; refused before a machine is asked where that, or its place, cannot be."""
    if request.output is None and not (request.format or request.as_json):
        return "table"
    from envcheck.report import formats, write

    if file := _file(request):
        write.check(file)
    return formats.chosen(request.format, request.as_json, request.output)


def write_report(request: ReportOptions, report: Report, name: str) -> None:
    """To the file, and with --json the document to standard output in any case."""
    import datetime

    from envcheck.core import language
    from envcheck.report import Style, formats, screen, write

    if name == "json" or request.as_json:
        language.for_a_program()
    file = _file(request)
    style = Style(width=screen.WIDEST) if file else screen.style()
    now = datetime.datetime.now(datetime.timezone.utc)
    whole = replace(report.localised(), style=style, lang=language.chosen(), made=now)
    if file:
        write.write(file, formats.render(name, whole))
        click.echo(language.say(f"envcheck: the report is in {file}"), err=True)
        if request.as_json:
            click.echo(formats.render("json", whole), nl=False)
        return
    text = formats.render(name, whole)
    click.echo(text if name == "table" else text.encode(), nl=False)  # a page says itself that it is UTF-8


def _file(request: ReportOptions) -> Path | None:
    return Path(request.output) if request.output and request.output != "-" else None
