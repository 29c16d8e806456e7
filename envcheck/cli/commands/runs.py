"""envcheck runs: list, follow, stop and adopt training runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envcheck.cli import options, usage_errors
from envcheck.cli.json_document import print_document
from envcheck.cli.option_groups import GroupedOption
from envcheck.core import paths
from envcheck.core.errors import UsageError
from envcheck.core.language import translate
from envcheck.core.messages import _, verbatim

if TYPE_CHECKING:
    from launch.runs.run_state import Run


def _read_runs_folder(_ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """Require a readable folder: "no runs yet" would be wrong for any other."""
    if not value:
        return None
    path = paths.parse_path(value, param.opts[0]).absolute()
    if (path / "run.json").is_file():
        raise UsageError(
            _("--runs {folder}: this is a single run, not a directory of runs", folder=value),
            verbatim(f"envcheck runs show {value}"),
        )
    try:
        os.scandir(path).close()
    except OSError as err:
        words = _(
            "--runs {folder}: {reason}",
            folder=value[:200],
            reason=err.strerror.lower() if err.strerror else _("unreadable"),
        )
        raise UsageError(
            words, _("specify the directory that train used, or remove the option to list all known runs")
        ) from None
    return path


runs_folder_option = click.option(
    "--runs",
    "folder",
    cls=GroupedOption,
    type=click.Path(),
    callback=_read_runs_folder,
    metavar="DIR",
    help="Folder of the runs.",
)


@click.group(
    cls=usage_errors.SuggestingGroup,
    invoke_without_command=True,
    short_help="List, follow and stop training runs.",
)
@runs_folder_option
@options.json_option
@click.pass_context
def runs(ctx: click.Context, folder: Path | None, as_json: bool) -> None:
    """List the training runs of this machine, newest first, or act on one.

    Name a run by its ID, the first characters of its ID, its folder, or "latest".  Without --runs, all known runs are
    listed.

    \b
    envcheck runs                       list all known runs
    envcheck runs show latest           show the newest run
    envcheck runs follow latest         follow its progress
    envcheck runs stop 20261121-0915    stop a run
    envcheck runs adopt latest          supervise an orphaned run again
    envcheck runs rerun latest          repeat a run
    envcheck runs compare RUN RUN       compare two runs
    """
    ctx.obj = (folder, as_json)
    if ctx.invoked_subcommand is None:
        from launch.run.states import ORPHANED
        from launch.runs import run_index, run_pages
        from launch.runs.ended_run import complete_run

        found = [complete_run(run) for run in run_index.list_runs(folder)]
        width = shutil.get_terminal_size((100, 24)).columns
        click.echo(run_pages.as_json(found) if as_json else run_pages.as_table(found, width))
        for run in () if as_json else found:
            if run.state == ORPHANED:
                click.echo(run_pages.describe_orphaned_run(run))
        for record in run_index.list_unreadable(folder):
            click.echo(translate(_("envcheck: cannot read {record}: this run is not listed", record=record)), err=True)


@runs.command(short_help="Show the state and result of a run.")
@click.argument("name", metavar="RUN")
@runs_folder_option
@options.json_option
@click.pass_obj
def show(outer: tuple[Path | None, bool], name: str, folder: Path | None, as_json: bool) -> None:
    """Show the state and result of a run; with --json, print its whole record.

    \b
    envcheck runs show latest
    envcheck runs show 20261121-0915 --json
    """
    from launch.runs import follow as following
    from launch.runs import run_index
    from launch.runs.ended_run import complete_run

    run = complete_run(run_index.find_run(name, folder or outer[0]))
    _print_run(run, as_json or outer[1], following.describe_last_step(run))


@runs.command(short_help="Follow the progress of a run until it ends.")
@click.argument("name", metavar="[RUN]", default="latest")
@runs_folder_option
@options.json_option
@click.pass_obj
def follow(outer: tuple[Path | None, bool], name: str, folder: Path | None, as_json: bool) -> int:
    """Follow the progress of a run until it ends.

    The exit code is the one of the training (0, 5, 130, ...).  Ctrl-C does not stop the run.  With --json, each step is
    one line of JSON, and so is the end.

    \b
    envcheck runs follow latest
    envcheck runs follow latest --json
    """
    from contextlib import closing

    from launch.run.watch import ProgressLine
    from launch.runs import follow as following
    from launch.runs import run_index
    from launch.runs.ended_run import complete_run
    from launch.runs.step_lines import StepLines

    run, lines = run_index.find_run(name, folder or outer[0]), as_json or outer[1]
    printer = StepLines(run, click.echo)
    try:
        run = following.wait_until_started(run, lambda text: click.echo(text, err=True))
        with closing(printer if lines else ProgressLine(of=following.planned_steps(run))) as teller:
            ended = complete_run(following.follow_run(run, teller))
    except KeyboardInterrupt:
        click.echo(
            translate(_("envcheck: the run continues; stop it with envcheck runs stop {id}", id=run.id)), err=True
        )
        raise
    printer.write_end(ended) if lines else _print_run(ended, False)
    return following.exit_code(ended)


@runs.command(short_help="Stop a run and all of its processes.")
@click.argument("name", metavar="RUN")
@runs_folder_option
@options.yes_option
@options.json_option
@click.pass_obj
def stop(outer: tuple[Path | None, bool], name: str, folder: Path | None, yes: bool, as_json: bool) -> None:
    """Stop a run and all of its processes, as Ctrl-C in its terminal does.  The run record is completed.

    \b
    envcheck runs stop latest
    envcheck runs stop 20261121-0915 --yes
    """
    import sys

    from launch.runs import run_index
    from launch.stop_run import stop_run

    run = run_index.find_run(name, folder or outer[0])
    if run.is_running and not yes:
        if not sys.stdin.isatty():
            raise UsageError(_("cannot ask for confirmation: no terminal"), _("add --yes to stop it"))
        click.confirm(translate(_("Stop run {id}?", id=run.id)), abort=True, err=True)
    _print_run(stop_run(run), as_json or outer[1])


@runs.command(short_help="Supervise an orphaned run again.")
@click.argument("name", metavar="RUN")
@runs_folder_option
@options.json_option
@click.pass_obj
def adopt(outer: tuple[Path | None, bool], name: str, folder: Path | None, as_json: bool) -> int:
    """Supervise a run again whose supervisor was killed.  Its end is then recorded as usual.

    \b
    envcheck runs adopt latest
    """
    from envcheck.cli import repeat_command
    from envcheck.cli.commands.train import train
    from launch import adopt_run
    from launch.run import run_text
    from launch.runs import run_index

    run = run_index.find_run(name, folder or outer[0])
    child = adopt_run.adopt_run(run, lambda typed_in, words: repeat_command.run_words(train, typed_in, words))
    code = child.wait_until_started()
    if code is None:
        run_text.print_adopted(run.id)
    if as_json or outer[1]:
        _print_run(run_index.read_run(run.folder) or run, True)
    return code or 0


@runs.command(short_help="Repeat a run with the same options.")
@click.argument("name", metavar="RUN")
@runs_folder_option
@options.json_option
@click.pass_obj
def rerun(outer: tuple[Path | None, bool], name: str, folder: Path | None, as_json: bool) -> int:
    """Start a run with the options of an earlier one, in the folder where that was started.

    \b
    envcheck runs rerun latest
    """
    from envcheck.cli import repeat_command
    from envcheck.cli.commands.train import train
    from launch.runs import run_index

    more = ("--json",) if as_json or outer[1] else ()
    return repeat_command.rerun_run(train, run_index.find_run(name, folder or outer[0]).folder, more)


@runs.command(short_help="Compare configuration and results of two runs.")
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="RUN")
@runs_folder_option
@options.json_option
@click.pass_obj
def compare(outer: tuple[Path | None, bool], first: str, second: str, folder: Path | None, as_json: bool) -> None:
    """Show what differs between two runs: configuration, speed, loss and memory.

    \b
    envcheck runs compare 20261121-0915 latest
    """
    from launch.runs import compare_runs, run_index
    from launch.runs.ended_run import complete_run

    one, other = (complete_run(run_index.find_run(name, folder or outer[0])) for name in (first, second))
    found = compare_runs.compare_runs(one, other)
    if as_json or outer[1]:
        print_document(compare_runs.as_values(found))
    else:
        click.echo(compare_runs.render_comparison(found))


def _print_run(run: Run, as_json: bool, now: str = "") -> None:
    """Print a page, or the whole record."""
    from launch.runs import run_pages

    print_document(run.said | {"state": run.state}) if as_json else click.echo(run_pages.as_page(run, now))
