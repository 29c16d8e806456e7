"""In which format and where the fleet's report goes, as `doctor` has it for one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from envcheck.report import Report


def chosen(asked: dict[str, Any]) -> str:
    """The format; refused before a host is asked where that, or its place, cannot be."""
    from pathlib import Path

    from envcheck.report import formats, write

    if asked["output"] not in (None, "-"):
        write.check(Path(asked["output"]))
    return formats.chosen(asked["format"], asked["as_json"], asked["output"])


def write_report(asked: dict[str, Any], report: Report, name: str) -> None:
    import datetime
    from dataclasses import replace
    from pathlib import Path

    from envcheck.core import language
    from envcheck.fleet import evaluate
    from envcheck.report import Style, formats, screen, write

    if name == "json":
        language.for_a_program()
    to_file = asked["output"] not in (None, "-")
    style = Style(width=screen.WIDEST) if to_file else screen.style()
    now = datetime.datetime.now(datetime.timezone.utc)
    said = evaluate.localised(report)
    text = formats.render(name, replace(said, strict=asked["strict"], style=style, lang=language.chosen(), made=now))
    if to_file:
        write.write(Path(asked["output"]), text)
        click.echo(language.say(f"envcheck: the report is in {asked['output']}"), err=True)
    else:
        click.echo(text if name == "table" else text.encode(), nl=False)
