"""In which format and where the fleet's report goes, as `doctor` has it for one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from envcheck.fleet.evaluate import Fleet


def chosen(asked: dict[str, Any]) -> str:
    """The format; refused before a host is asked where that, or its place, cannot be."""
    from pathlib import Path

    from envcheck.report import formats, write

    if asked["output"] not in (None, "-"):
        write.check(Path(asked["output"]))
    return formats.chosen(asked["format"], asked["as_json"], asked["output"])


def report(asked: dict[str, Any], fleet: Fleet, name: str) -> None:
    import datetime
    from pathlib import Path

    from envcheck.core import language
    from envcheck.fleet.report import forms
    from envcheck.fleet.report.options import FleetReportOptions
    from envcheck.report import Style, screen, write

    if name in forms.FOR_PROGRAMS:
        language.for_a_program()
    to_file = asked["output"] not in (None, "-")
    style = Style(width=screen.WIDEST) if to_file else screen.style()
    now = datetime.datetime.now(datetime.timezone.utc)
    text = forms.render(name, fleet, FleetReportOptions(asked["strict"], style, language.chosen(), now))
    if to_file:
        write.write(Path(asked["output"]), text)
        click.echo(language.say(f"envcheck: the report is in {asked['output']}"), err=True)
    else:
        click.echo(text if name == "table" else text.encode(), nl=False)
