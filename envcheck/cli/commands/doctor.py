"""envcheck doctor: what stands between this machine and training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from envcheck import settings
from envcheck.cli.commands import report_output
from envcheck.cli.doctor_options import (
    KINDS,
    DeepOptions,
    ExamineOptions,
    FixOptions,
    HostsReportOptions,
    ListOptions,
    ReplayOptions,
    ReportOptions,
    StrictOptions,
    UndoFixOptions,
    WatchOptions,
)
from envcheck.cli.requests import command
from envcheck.core.errors import FIT, UsageError

WITH_NEXT = ("table", "html", "markdown")  # what people read

if TYPE_CHECKING:
    from envcheck.cli.commands.collect_facts import ExaminedMachine
    from envcheck.core.check import Check
    from envcheck.core.facts import Facts
    from envcheck.core.model import Finding
    from envcheck.report import Report
    from envcheck.settings.site_settings import Settings


@command(*KINDS, short_help="What stands between this machine and training.")
def doctor(request: ListOptions | UndoFixOptions | ExamineOptions) -> int:
    """Look at this machine and say what stands between it and training; changes nothing.

    Exit code 0: fit. 1: something fails. 3: nothing fails, but something could not be told, or nothing was judged.

    \b
    envcheck doctor                                   whichever cards are here
    envcheck doctor --model 21b --method lora         and what this job needs
    envcheck doctor --only devices --skip devices.ecc
    envcheck doctor --replay snapshot.json --json     a recording, as JSON
    envcheck doctor -o report.html                    a page to look at
    envcheck doctor --watch 10                        again every 10 s, in the terminal
    envcheck doctor --fix --dry-run                   which remedies are safe to apply
    envcheck doctor --deep                            and multiply, copy and add up on every card
    envcheck doctor --hosts node[01-08]               eight machines over ssh, and which is the odd one
    envcheck doctor --hosts node[01-08] --between     and whether they reach each other, and how fast
    """
    if isinstance(request, UndoFixOptions):
        return int(_fixing().undo(request))
    site = settings.load(request.config)
    if isinstance(request, ListOptions):
        click.echo(_listing(request, site))
        return FIT
    if isinstance(request, HostsReportOptions) or (isinstance(request, ReplayOptions) and request.replay.is_dir()):
        return _judge_hosts(request, site)
    if isinstance(request, ReplayOptions) and request.rank_table:
        raise UsageError("--rank-table is for several machines", "name them with --hosts, or a folder with --replay")
    if isinstance(request, FixOptions):
        _fixing().refuse()
    if isinstance(request, DeepOptions):
        _deep_tests().refuse(request)
    if request.only or request.skip:
        _named(request, site)  # before the machine is asked, not after
    if isinstance(request, WatchOptions):
        return _watch(request, site)
    if isinstance(request, FixOptions):
        return _fix(request, site)
    assert isinstance(request, ReportOptions)
    written_as = report_output.choose_format(request)
    seen = _examined(request, site)
    if isinstance(request, DeepOptions) and request.dry_run:
        return _deep_shown(request, seen, site)
    return _report(request, written_as, _findings(request, seen, site), seen)


def _judge_hosts(request: HostsReportOptions | ReplayOptions, site: Settings) -> int:
    from envcheck.cli.commands import fleet

    def judge(found: Facts) -> list[Finding]:
        return _findings(request, _looking().completed(request, site, found), site)

    return fleet.doctor(request, site, judge)


def _fix(request: FixOptions, site: Settings) -> int:
    seen = _examined(request, site)
    again = lambda: _findings(request, _examined(request, site), site)  # noqa: E731
    return int(_fixing().fix(request, _findings(request, seen, site), seen.facts, again))


def _watch(request: WatchOptions, site: Settings) -> int:
    import sys

    from envcheck.report import HostReport, Report, watch

    def look() -> Report:
        seen = _examined(request, site)
        found = _findings(request, seen, site)
        about = Report((HostReport(found, seen.facts),), strict=request.strict)
        return _of_job(about, request, seen, found).localised()

    watch.refuse(sys.stdout.isatty())
    return watch.watch(look, request.watch)


def _report(request: ReportOptions, written_as: str, findings: list[Finding], seen: ExaminedMachine) -> int:
    """Print or write it; the exit code."""
    from envcheck.report import HostReport, Report, exit_code

    about = Report((HostReport(findings, seen.facts),), strict=request.strict)
    report = _of_job(about, request, seen, findings if written_as in WITH_NEXT else None)
    report_output.write_report(request, report, written_as)
    return exit_code(findings, request.strict)


def _of_job(report: Report, request: StrictOptions, seen: ExaminedMachine, next_of: list[Finding] | None) -> Report:
    """With what it tells of the named job, and of what to do next where none of these findings is amiss."""
    from dataclasses import replace

    if seen.job:
        report = replace(report, job=seen.job.as_json(), assumed_host=seen.job.assumed_host)
    from envcheck.report import next_step

    if next_of is None or next_step(next_of):
        return report
    import sys

    from envcheck.job.next_command import suggest_command

    looking = _looking()
    ask = sys.stdin.isatty() or bool(request.given & {"output"})
    wanted, known = looking.job_request(request), looking.load_recipes(request.recipes)
    return replace(report, next_command=suggest_command(wanted, seen.job, known, seen.facts, ask))


def _listing(request: ListOptions, site: Settings) -> str:
    """--list-checks, --show-thresholds: for people, or one document."""
    as_json = request.as_json or request.format == "json"
    if request.format not in (None, "table", "json"):
        what = "--list-checks" if request.list_checks else "--show-thresholds"
        raise UsageError(f"{what} is no report: it prints a list, or JSON", "leave --format out, or add --json")
    if request.show_thresholds:
        from envcheck.settings import thresholds

        return (thresholds.as_json if as_json else thresholds.listing)(site.thresholds, site.file)
    from envcheck.checks import custom
    from envcheck.report import check_list, screen

    checks = custom.checks(site)
    return check_list.as_json(checks) if as_json else check_list.as_text(screen.style().width, checks)


def _named(request: ExamineOptions, site: Settings) -> None:
    from envcheck import checks
    from envcheck.checks import custom
    from envcheck.deep import table

    deep = table.checks() if isinstance(request, DeepOptions) else ()
    checks.named((*request.only, *request.skip), (*custom.checks(site), *deep))


def _fixing() -> Any:
    from envcheck.cli.commands import fixing

    return fixing


def _looking() -> Any:
    from envcheck.cli.commands import collect_facts

    return collect_facts


def _examined(request: ExamineOptions, site: Settings) -> ExaminedMachine:
    recording = request.replay if isinstance(request, ReplayOptions) else None
    hint = "" if isinstance(request, WatchOptions) else "asking the machine ..."
    found: ExaminedMachine = _looking().gathered(request, site, recording, hint)
    return found


def _deep_tests() -> Any:
    from envcheck.cli.commands import deep

    return deep


def _deep(request: ExamineOptions, seen: ExaminedMachine, more: tuple[Check, ...]) -> tuple[Check, ...]:
    """The tests of --deep, done: of the machine's cards, with what the named job trains with."""
    if not isinstance(request, DeepOptions):
        return ()
    from envcheck.deep import table

    return table.checks(_deep_tests().found(*_of_deep(request, seen, more)), bool(seen.facts.vendors))


def _deep_shown(request: DeepOptions, seen: ExaminedMachine, site: Settings) -> int:
    """--deep --dry-run: what the tests would disturb; the exit code."""
    from envcheck.checks import custom

    code: int = _deep_tests().shown(*_of_deep(request, seen, custom.checks(site)))
    return code


def _of_deep(request: DeepOptions, seen: ExaminedMachine, more: tuple[Check, ...]) -> tuple[Any, ...]:
    """What the tests want to know: with the names that --only and --skip leave, and the named job's recipe."""
    from envcheck import checks
    from envcheck.deep import table

    known = (*more, *table.checks())
    chosen, left_out = checks.named(request.only, known), checks.named(request.skip, known)
    names = frozenset(n for n in table.NAMES if (not chosen or n in chosen) and n not in left_out)
    return seen.facts, request, names, seen.job.recipe if seen.job else None


def _findings(request: ExamineOptions, seen: ExaminedMachine, site: Settings) -> list[Finding]:
    import datetime

    from envcheck import checks
    from envcheck.checks import custom
    from envcheck.deep import table

    more = custom.checks(site)
    checks.named([waiver.check for waiver in site.waivers], (*more, *table.checks()), whole=False)
    more = (*more, *_deep(request, seen, more))
    found = checks.run_all(seen.facts, request.only, request.skip, more)
    return custom.waived(found, site, datetime.date.today())
