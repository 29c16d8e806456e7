"""Format and destination of doctor's report, for one machine and many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envcheck.core.messages import _

if TYPE_CHECKING:
    from envcheck.cli.doctor_options import ReportOptions
    from envcheck.report import DoctorReport


def choose_format(request: ReportOptions) -> str:
    """Return the format of the file or of standard output; UsageError before facts are collected if it is invalid."""
    if request.output is None and not (request.format or request.as_json):
        return "table"
    from envcheck.core import local_files
    from envcheck.report import formats

    if file := _get_output_path(request):
        local_files.check_writable(file)
    return formats.choose_format(
        request.format, request.as_json, None if request.output is None else str(request.output)
    )


def write_report(request: ReportOptions, report: DoctorReport, name: str) -> None:
    """Write the report to the file; with --json, also print the document."""
    import datetime

    from envcheck.core import language, local_files
    from envcheck.report import Style, formats, screen

    if name == "json" or request.as_json:
        language.use_program_language()
    file = _get_output_path(request)
    style = Style(width=screen.WIDTH_LIMIT) if file else screen.detect_style()
    style = replace(style, is_verbose=request.verbose)
    now = datetime.datetime.now(datetime.timezone.utc)
    whole = replace(report.localise_findings(), style=style, lang=language.current_language(), made=now)
    if file:
        local_files.write_file(file, formats.render(name, whole))
        click.echo(language.translate(_("envcheck: report written to {file}", file=file)), err=True)
        if request.as_json:
            click.echo(formats.render("json", whole), nl=False)
        return
    text = formats.render(name, whole)
    click.echo(text if name == "table" else text.encode(), nl=False)  # an HTML page declares UTF-8 itself


def _get_output_path(request: ReportOptions) -> Path | None:
    return None if request.output == Path("-") else request.output
