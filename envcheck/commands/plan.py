"""envcheck plan: will this job fit, on these cards."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--rows", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path))
def plan(rows: Path | None, output: Path | None) -> int:
    """Would it fit?

    \b
    envcheck plan --rows jobs.csv -o out.csv
    """
    from launch import table

    assert rows and output
    table.write(map(table.predict, table.read(rows)), output)
    return 0
