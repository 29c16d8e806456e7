"""`envcheck explain`: what a log, a line or a code says went wrong, and what to do."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envcheck.cli import options
from envcheck.core.version import SCHEMA_VERSION

if TYPE_CHECKING:
    from envcheck.explain import Report

_FILE = re.compile(r"^[\w.~/-]{1,4000}$")
_RUN = re.compile(r"latest|\d{8}-\d{1,6}(?:-[\w.-]{0,200})?")  # the id of a run, or the beginning of one
_SUFFIX = re.compile(r"\.(?:log|txt|out|err|gz)$|^workerlog\.\d+$|/")


class Words(click.Command):
    """Takes -8020 and -6 for the codes that they are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" not in args and any(re.fullmatch(r"-\d{1,5}", word) for word in args):
            known = [word for word in args if word in ("--json", "--list", "--help", "-h")]
            args = [*known, "--", *(word for word in args if word not in known)]
        return super().parse_args(ctx, args)


@click.command(cls=Words, short_help="What a log, an error line or a code says, and what to do.")
@click.argument("what", nargs=-1, metavar="FILE|RUN|TEXT|CODE ...")
@click.option("--list", "as_list", is_flag=True, help="All that the catalogue knows.")
@options.json_output
def explain(what: tuple[str, ...], as_list: bool, as_json: bool) -> int:
    """Say what went wrong, from a log of any run: which line says so, why it happens, what to do.

    Reads files of any size (also .gz), folders of ranks' logs, and - for standard input; else explains text or a code.
    Of a run of envcheck train, by its folder, its id or latest, the record is read besides: who failed first, how.
    Nothing is sent anywhere.  Only what the catalogue matches is claimed; else the most telling lines are shown.

    Exit code 0: something is explained. 3: nothing is known. 2: asked wrongly.

    \b
    envcheck explain runs/20250701-120000-ernie-21b-iluvatar/log     a folder: the rank that failed first, too
    envcheck explain train.log.gz workerlog.3
    kubectl logs my-pod | envcheck explain -
    envcheck explain "RuntimeError: Address already in use"
    envcheck explain EI0006        507033, -8020, 241, SIGKILL, ncclRemoteError, "Xid 79", ...
    envcheck explain --list
    """
    from envcheck.core import language
    from envcheck.core.errors import UsageError
    from envcheck.explain import show
    from envcheck.explain.catalogue import entries
    from envcheck.report import screen

    if as_json:
        language.for_a_program()
    if as_list:
        if what:
            raise UsageError("--list takes nothing beside it", "envcheck explain --list")
        click.echo(_listing() if as_json else show.listing(entries(), screen.style()))
        return 0
    if not what:
        raise UsageError("explain needs a file, a text or a code", "as in envcheck explain train.log, or --list")
    report = _asked(what)
    code = 0 if report.diagnoses else 3
    click.echo(show.as_json(report, code) if as_json else show.as_text(report, screen.style()), nl=as_json)
    return code


def _listing() -> str:
    import json

    from envcheck.core.language import say
    from envcheck.explain.catalogue import entries

    rows: list[dict[str, Any]] = [
        {"name": e.name, "kind": e.kind, "says": say(e.says), "codes": list(e.codes), "source": list(e.source)}
        for e in entries()
    ]
    return json.dumps({"schema": SCHEMA_VERSION, "entries": rows}, indent=1)


def _asked(what: tuple[str, ...]) -> Report:
    """All are files, all are codes, or all of it is one text."""
    from envcheck.core.errors import UsageError
    from envcheck.explain import session

    there = [word == "-" or _there(word) for word in what]
    if len(what) == 1 and (_RUN.fullmatch(what[0]) or (there[0] and _of_run(what[0]))):
        from launch.runs import explain_run  # reads records, with all that belongs to a run

        if found := explain_run.whole(what):
            return found
    if all(there):
        return session.explain_files([Path(word) for word in what])
    lacking = next(word for word, is_there in zip(what, there, strict=True) if not is_there)
    if any(there) or (len(what) == 1 and _FILE.match(lacking) and _SUFFIX.search(lacking)):
        raise UsageError(f"there is no file {lacking!r}", "name a file, a folder, or - for standard input")
    return session.explain_words(what)


def _of_run(word: str) -> bool:
    return Path(word).is_dir() or Path(word).name == "run.json"


def _there(word: str) -> bool:
    """A link that leads nowhere is one, too: that it cannot be read is said then."""
    try:
        return os.path.lexists(word)
    except (OSError, ValueError):  # a text that no name can be
        return False
