"""envcheck runs: what was trained here, and what trains now."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envcheck.cli import options, usage_errors
from envcheck.cli.documents import print_document
from envcheck.core import paths
from envcheck.core.errors import UsageError
from envcheck.core.language import say

if TYPE_CHECKING:
    from launch.runs.run_state import Run


def _path(_ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """A folder that is there and may be listed: of another one "no runs yet" would be no answer."""
    if not value:
        return None
    path = paths.given(value, param.opts[0]).absolute()
    if (path / "run.json").is_file():
        raise UsageError(f"--runs {value}: this is one run, not a folder of runs", f"envcheck runs show {value}")
    try:
        os.scandir(path).close()
    except OSError as err:
        words = f"--runs {value[:200]}: {(err.strerror or 'cannot be read').lower()}"
        raise UsageError(words, "name the folder that train was given, or leave it away: all that are known") from None
    return path


folder = click.option("--runs", "folder", callback=_path, metavar="DIR", help="Those of this folder, not all.")


@click.group(
    cls=usage_errors.Group,
    invoke_without_command=True,
    short_help="What was trained here and what trains now; follow and stop it.",
)
@folder
@options.json_output
@click.pass_context
def runs(ctx: click.Context, folder: Path | None, as_json: bool) -> None:
    """What was trained on this machine and what trains now, newest first.

    A run is named by its id, the beginning of it, its folder, or "latest".

    \b
    envcheck runs                       all that are known
    envcheck runs show latest           how the newest one went
    envcheck runs follow latest         its steps as they come; Ctrl-C ends the looking, not the run
    envcheck runs stop 20261121-0915    end it as Ctrl-C would
    """
    ctx.obj = (folder, as_json)
    if ctx.invoked_subcommand is None:
        from launch.runs import known, shown

        found = known.every(folder)
        width = shutil.get_terminal_size((100, 24)).columns
        click.echo(shown.as_json(found) if as_json else shown.as_table(found, width))
        for record in known.unreadable(folder):
            click.echo(say(f"envcheck: {record} cannot be read: this run is not listed"), err=True)


@runs.command(short_help="How a run went, or goes.")
@click.argument("name")
@folder
@options.json_output
@click.pass_obj
def show(outer: tuple[Path | None, bool], name: str, folder: Path | None, as_json: bool) -> None:
    """How a run went, or goes; with --json its whole record.

    \b
    envcheck runs show latest
    envcheck runs show 20261121-0915 --json
    """
    from launch.runs import follow as following
    from launch.runs import known

    run = known.find(name, folder or outer[0])
    _print_run(run, as_json or outer[1], following.now(run))


@runs.command(short_help="Its steps as they come, until it ends.")
@click.argument("name", default="latest")
@folder
@options.json_output
@click.pass_obj
def follow(outer: tuple[Path | None, bool], name: str, folder: Path | None, as_json: bool) -> int:
    """Its steps as they come, until it ends; the exit code is that of the training (0, 5, 130 ...).

    Ctrl-C ends the looking, and not the run.

    \b
    envcheck runs follow latest
    """
    from contextlib import closing

    from launch.run.watch import Teller
    from launch.runs import follow as following
    from launch.runs import known

    run = known.find(name, folder or outer[0])
    try:
        run = following.begun(run, lambda text: click.echo(text, err=True))
        with closing(Teller(of=following.of(run))) as teller:
            ended = following.follow(run, teller)
    except KeyboardInterrupt:
        click.echo(say(f"envcheck: the run goes on; envcheck runs stop {run.id} ends it"), err=True)
        raise
    _print_run(ended, as_json or outer[1])
    return following.code(ended)


@runs.command(short_help="End it as Ctrl-C would.")
@click.argument("name")
@folder
@options.yes
@options.json_output
@click.pass_obj
def stop(outer: tuple[Path | None, bool], name: str, folder: Path | None, yes: bool, as_json: bool) -> None:
    """End a run as Ctrl-C in its terminal would: all of its processes, its record written.

    \b
    envcheck runs stop latest
    envcheck runs stop 20261121-0915 --yes
    """
    import sys

    from launch.runs import follow as following
    from launch.runs import known

    run = known.find(name, folder or outer[0])
    if run.running and not yes:
        if not sys.stdin.isatty():
            raise UsageError("there is nobody to ask", "add --yes to end it")
        click.confirm(say(f"End the run {run.id}?"), abort=True, err=True)
    _print_run(following.stop(run), as_json or outer[1])


def _print_run(run: Run, as_json: bool, now: str = "") -> None:
    """A page, or the whole record."""
    from launch.runs import shown

    print_document(run.said | {"state": run.state}) if as_json else click.echo(shown.as_page(run, now))
