"""`envcheck explain`: find the cause of a failure in a log, a line or a code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envcheck.cli import options
from envcheck.core.local_files import is_folder, may_exist
from envcheck.core.messages import _, verbatim
from envcheck.core.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from envcheck.explain import ExplainReport

_FILE = re.compile(r"^[\w.~/-]{1,4000}$")
_RUN = re.compile(r"latest|\d{8}-\d{1,6}(?:-[\w.-]{0,200})?")  # a run ID, or its first characters
_SUFFIX = re.compile(r"\.(?:log|txt|out|err|gz)$|^workerlog\.\d+$|/")


class ExplainCommand(click.Command):
    """Accepts codes such as -8020 and -6 as arguments, not options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" not in args and any(re.fullmatch(r"-\d{1,5}", word) for word in args):
            known = [word for word in args if word in ("--json", "--list", "--help", "-h")]
            args = [*known, "--", *(word for word in args if word not in known)]
        return super().parse_args(ctx, args)


@click.command(cls=ExplainCommand, short_help="Explain a training log, an error message or an error code.")
@click.argument("what", nargs=-1, metavar="FILE|RUN|TEXT|CODE ...")
@click.option("--list", "as_list", is_flag=True, help="List everything that this command knows and exit.")
@options.json_option
def explain(what: tuple[str, ...], as_list: bool, as_json: bool) -> int:
    """Explain a failure from its log, error message or error code: the line, the cause and the fix.

    Reads files of any size (also .gz), folders with one log per rank, and - for standard input.  For a run of `envcheck
    train`, given by ID, folder or "latest", the run record is read as well.  Everything stays on this machine.
    Several processes: how each ended, and which failed first.  Without a known pattern, the most relevant lines are
    shown.

    Exit code 0: the training finished or goes on, or a text or code is explained. 1: a failure with a known cause. 2:
    usage error. 3: nothing known was found.

    \b
    envcheck explain runs/20250701-120000-ernie-21b/log    find the first failure
    envcheck explain train.log.gz workerlog.3
    kubectl logs my-pod | envcheck explain -
    envcheck explain "RuntimeError: Address already in use"
    envcheck explain EI0006    or 507033, -8020, SIGKILL, ncclRemoteError, "Xid 79"
    envcheck explain --list
    """
    from envcheck.core import language
    from envcheck.core.errors import UsageError
    from envcheck.explain import render_report
    from envcheck.explain.catalogue import load_entries
    from envcheck.report import screen

    if as_json:
        language.use_program_language()
    if as_list:
        if what:
            raise UsageError(_("--list cannot be combined with other arguments"), verbatim("envcheck explain --list"))
        click.echo(_render_entries() if as_json else render_report.render_list(load_entries(), screen.detect_style()))
        return 0
    if not what:
        raise UsageError(
            _("explain needs a file, a text or a code"),
            _("for example: envcheck explain train.log, or envcheck explain --list"),
        )
    report = _explain_arguments(what)
    code = _choose_exit_code(report)
    click.echo(
        render_report.as_json(report, code) if as_json else render_report.as_text(report, screen.detect_style()),
        nl=as_json,
    )
    return code


def _choose_exit_code(report: ExplainReport) -> int:
    """A failure is 1 with a possible cause, otherwise 3; what did not fail is 0."""
    if report.verdict != "explained" and report.has_cause and report.ends:
        return 1
    return 3 if report.verdict in ("failed", "unknown") else 0


def _render_entries() -> str:
    import json

    from envcheck.core.language import translate
    from envcheck.explain.catalogue import load_entries

    rows: list[dict[str, Any]] = [
        {
            "name": e.name,
            "kind": e.kind,
            "description": translate(e.says),
            "codes": list(e.codes),
            "source": list(e.source),
        }
        for e in load_entries()
    ]
    return json.dumps({"schema": SCHEMA_VERSION, "entries": rows}, indent=1)


def _explain_arguments(what: tuple[str, ...]) -> ExplainReport:
    """Explain files, codes, or one text: all arguments are of one kind."""
    from envcheck.core.errors import UsageError
    from envcheck.explain import explainer

    there = [word == "-" or may_exist(word) for word in what]
    if len(what) == 1 and (_RUN.fullmatch(what[0]) or (there[0] and _is_run(what[0]))):
        from launch.runs import explain_run  # imported late: it reads run records with all their modules

        if found := explain_run.explain_words(what):
            return found
    if all(there):
        return explainer.explain_files([Path(word) for word in what])
    lacking = next(word for word, is_there in zip(what, there, strict=True) if not is_there)
    if any(there) or (len(what) == 1 and _FILE.match(lacking) and _SUFFIX.search(lacking)):
        raise UsageError(
            _("file {lacking!r} does not exist", lacking=lacking),
            _("specify a file, a directory, or - for standard input"),
        )
    return explainer.explain_arguments(what)


def _is_run(word: str) -> bool:
    return is_folder(word) or Path(word).name == "run.json"
