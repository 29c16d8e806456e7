"""The table of known models, and predictions for a table of jobs."""

from __future__ import annotations

import click

from envcheck.cli.json_document import print_document
from envcheck.cli.planning.plan_options import RowsOptions
from envcheck.core import language, local_files
from envcheck.core.errors import UsageError
from envcheck.core.messages import _, join
from launch.catalogue import models
from launch.planner import job_table

MOST_NAMED_ROWS = 20  # of a table, on the screen


def print_models(as_json: bool) -> int:
    found, short = models.list_models(), {full: name for name, full in models.SHORT_NAMES.items()}
    if as_json:
        keys = ("name", "hub_id", "parameters", "alias")
        rows = [dict(zip(keys, (*one, short.get(one[0])), strict=True)) for one in found]
        print_document({"models": rows})
        return 0
    lines = []
    for name, hub_id, count in found:
        also = "  " + language.translate(_("(also {short})", short=short[name])) if name in short else ""
        lines.append(f"{name:24} {count / 1e9:8.2f}e9  {hub_id}{also}")
    click.echo("\n".join(lines))
    return 0


def predict_rows(request: RowsOptions) -> int:
    if not request.output:
        raise UsageError(_("--rows requires -o FILE.csv for the predictions"), _("add -o predictions.csv"))
    if request.output.suffix.lower() in (".svg", ".png"):
        raise UsageError(
            _("-o {output}: --rows writes a CSV file, not a picture", output=request.output),
            _("specify a file that ends in .csv"),
        )
    rows = job_table.read_rows(request.rows)
    if request.output.exists() and request.output.samefile(request.rows):
        raise UsageError(_("-o {output} is the input table", output=request.output), _("specify another file"))
    if odd := job_table.list_unknown_columns(rows):
        click.echo(language.translate(_("envcheck: column {odd} ignored", odd=join(", ", odd))), err=True)
    predictions = list(map(job_table.predict_row, rows))
    failed = list(job_table.describe_failed_rows(predictions))
    named = [*failed, *job_table.describe_unknown_words(rows)]
    for text in named[:MOST_NAMED_ROWS]:
        click.echo(language.translate(_("envcheck: {text}", text=text)), err=True)
    if len(named) > MOST_NAMED_ROWS:
        more = _(
            "envcheck: {count} more rows with unknown words or no prediction; column `note` has them all",
            count=len(named) - MOST_NAMED_ROWS,
        )
        click.echo(language.translate(more), err=True)
    table = job_table.format_predictions(predictions)
    if str(request.output) == "-":
        click.echo(table, nl=False)
    else:
        local_files.write_file(request.output, table)
    return 0  # the table is answered: each row has its verdict, and a program that made it reads them all
