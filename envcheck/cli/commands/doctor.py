"""envcheck doctor: check whether this machine is ready to train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from envcheck import settings
from envcheck.cli.doctor_options import (
    REQUEST_TYPES,
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
from envcheck.cli.job_argument import JobCommand
from envcheck.cli.machines import report_output
from envcheck.cli.requests import command
from envcheck.core.errors import SUCCESS, UsageError
from envcheck.core.local_files import is_folder
from envcheck.core.messages import _

WITH_NEXT = ("table", "html", "markdown")  # formats for people

if TYPE_CHECKING:
    from envcheck.cli.machines.collect_facts import ExaminedMachine
    from envcheck.core.check import Check
    from envcheck.core.facts import Facts
    from envcheck.core.model import Finding
    from envcheck.report import DoctorReport
    from envcheck.settings.site_config import SiteSettings


@command(*REQUEST_TYPES, cls=JobCommand, short_help="Check whether this machine is ready to train.")
def doctor(request: ListOptions | UndoFixOptions | ExamineOptions) -> int:
    """Check whether this machine is ready to train, and show how to fix what is wrong.

    Nothing is changed without --fix.

    Exit code 0: ready. 1: a check failed. 3: no failures, but a check could not run, or no check applied.

    \b
    envcheck doctor                            check this machine
    envcheck doctor --model 21b --method lora  also check what this job needs
    envcheck doctor run.sh                     also check what your own job needs
    envcheck doctor --only devices --skip devices.ecc
    envcheck doctor --replay node1.json        check a recorded machine
    envcheck doctor -o report.html             write an HTML report
    envcheck doctor --watch 10                 repeat every 10 seconds
    envcheck doctor --fix --dry-run            show the fixes that are safe to apply
    envcheck doctor --deep                     also run tests on every device
    envcheck doctor --hosts node[01-08]        check eight hosts, find the outlier
    envcheck doctor --hosts node[01-08] --between    also test their network
    """
    if isinstance(request, UndoFixOptions):
        return int(_import_automatic_fixes().undo_fixes(request))
    site = settings.load_settings(request.config)
    if isinstance(request, ListOptions):
        click.echo(_render_list(request, site))
        return SUCCESS
    if isinstance(request, HostsReportOptions | ReplayOptions) and "timeout_s" in request.given:
        raise UsageError(
            _("--timeout applies to the local machine only"), _("use --host-timeout, or remove the option")
        )
    if isinstance(request, HostsReportOptions) or (
        isinstance(request, ReplayOptions) and is_folder(str(request.replay))
    ):
        return _judge_hosts(request, site)
    if isinstance(request, ReplayOptions) and request.json_lines:
        raise UsageError(
            _("--json-lines requires several hosts"), _("specify them with --hosts, or a directory with --replay")
        )
    if isinstance(request, ReplayOptions) and request.rank_table:
        raise UsageError(
            _("--rank-table requires several hosts"), _("specify them with --hosts, or a directory with --replay")
        )
    if isinstance(request, FixOptions):
        _import_automatic_fixes().refuse_simulated_machine()
    if isinstance(request, DeepOptions):
        _import_deep().refuse_conflicts(request)
    if request.only or request.skip:
        _refuse_unknown_checks(request, site)  # before facts are collected
    if isinstance(request, WatchOptions):
        return _watch_machine(request, site)
    if isinstance(request, FixOptions):
        return _apply_fixes(request, site)
    assert isinstance(request, ReportOptions)
    written_as = report_output.choose_format(request)
    seen = _examine_machine(request, site)
    if isinstance(request, DeepOptions) and request.dry_run:
        return _preview_deep_tests(request, seen, site)
    return _write_report(request, written_as, _judge_machine(request, seen, site), seen)


def _judge_hosts(request: HostsReportOptions | ReplayOptions, site: SiteSettings) -> int:
    from envcheck.cli.machines import fleet

    def judge(found: Facts) -> list[Finding]:
        return _judge_machine(request, _import_collect_facts().add_named_job(request, site, found), site)

    return fleet.diagnose_hosts(request, site, judge)


def _apply_fixes(request: FixOptions, site: SiteSettings) -> int:
    def judge_again() -> list[Finding]:
        return _judge_machine(request, _examine_machine(request, site), site)

    seen = _examine_machine(request, site)
    findings = _judge_machine(request, seen, site)
    return int(_import_automatic_fixes().apply_fixes(request, findings, seen.facts, judge_again))


def _watch_machine(request: WatchOptions, site: SiteSettings) -> int:
    import sys

    from envcheck.report import DoctorReport, HostReport, watch

    def examine_once() -> DoctorReport:
        seen = _examine_machine(request, site)
        found = _judge_machine(request, seen, site)
        about = DoctorReport((HostReport(found, seen.facts),), strict=request.strict)
        return _add_job(about, request, seen, found).localise_findings()

    watch.refuse_without_terminal(sys.stdout.isatty())
    return watch.show_repeatedly(examine_once, request.watch)


def _write_report(request: ReportOptions, written_as: str, findings: list[Finding], seen: ExaminedMachine) -> int:
    """Print or write the report; return the exit code."""
    from envcheck.report import DoctorReport, HostReport, exit_code

    about = DoctorReport((HostReport(findings, seen.facts),), strict=request.strict)
    report = _add_job(about, request, seen, findings if written_as in WITH_NEXT else None)
    if seen.job and seen.job.own and written_as == "table" and not request.output:
        from envcheck.job.own_job_text import render_own_job

        click.echo("\n".join([*render_own_job(seen.job.own), ""]))
    report_output.write_report(request, report, written_as)
    return exit_code(findings, request.strict)


def _add_job(
    report: DoctorReport, request: StrictOptions, seen: ExaminedMachine, next_of: list[Finding] | None
) -> DoctorReport:
    """Add the selected job's document, and the next step for a machine without issues."""
    from dataclasses import replace

    if seen.job:
        report = replace(report, job=seen.job.as_json(), assumed_host=seen.job.assumed_host)
    from envcheck.report import next_step

    if next_of is None or next_step(next_of):
        return report
    import sys

    from envcheck.job.next_command import suggest_command

    looking = _import_collect_facts()
    ask = sys.stdin.isatty() or bool(request.given & {"output"})
    wanted, known = looking.build_job_request(request), looking.load_recipes(request.recipes)
    return replace(report, next_command=suggest_command(wanted, seen.job, known, seen.facts, ask))


def _render_list(request: ListOptions, site: SiteSettings) -> str:
    """--list-checks and --show-thresholds, as text or one JSON document."""
    as_json = request.as_json or request.format == "json"
    if request.format not in (None, "table", "json"):
        what = "--list-checks" if request.list_checks else "--show-thresholds"
        raise UsageError(
            _("{what} does not produce a report: it prints a list or JSON", what=what),
            _("remove --format, or use --json"),
        )
    if request.show_thresholds:
        from envcheck.settings import thresholds

        return (thresholds.thresholds_json if as_json else thresholds.format_thresholds)(site.thresholds, site.file)
    from envcheck.checks import custom
    from envcheck.report import check_list, screen

    checks = custom.load_custom_checks(site)
    return check_list.as_json(checks) if as_json else check_list.as_text(screen.detect_style().width, checks)


def _refuse_unknown_checks(request: ExamineOptions, site: SiteSettings) -> None:
    from envcheck import checks
    from envcheck.checks import custom
    from envcheck.deep import check_table

    deep = check_table.make_checks() if isinstance(request, DeepOptions) else ()
    checks.resolve_check_names((*request.only, *request.skip), (*custom.load_custom_checks(site), *deep))


def _import_automatic_fixes() -> Any:
    from envcheck.cli.machines import automatic_fixes

    return automatic_fixes


def _import_collect_facts() -> Any:
    from envcheck.cli.machines import collect_facts

    return collect_facts


def _examine_machine(request: ExamineOptions, site: SiteSettings) -> ExaminedMachine:
    recording = request.replay if isinstance(request, ReplayOptions) else None
    hint = "" if isinstance(request, WatchOptions) else _("collecting facts from this machine ...")
    found: ExaminedMachine = _import_collect_facts().examine_machine(request, site, recording, hint)
    return found


def _import_deep() -> Any:
    from envcheck.cli.machines import deep

    return deep


def _run_deep_checks(request: ExamineOptions, seen: ExaminedMachine, more: tuple[Check, ...]) -> tuple[Check, ...]:
    """Run the tests of --deep on the machine's devices, with the framework of the selected job."""
    if not isinstance(request, DeepOptions):
        return ()
    from envcheck.deep import check_table

    return check_table.make_checks(
        _import_deep().run_tests(*_select_deep_tests(request, seen, more)), bool(seen.facts.vendors)
    )


def _preview_deep_tests(request: DeepOptions, seen: ExaminedMachine, site: SiteSettings) -> int:
    """--deep --dry-run: print what the tests would interrupt; return the exit code."""
    from envcheck.checks import custom

    code: int = _import_deep().print_preview(*_select_deep_tests(request, seen, custom.load_custom_checks(site)))
    return code


def _select_deep_tests(request: DeepOptions, seen: ExaminedMachine, more: tuple[Check, ...]) -> tuple[Any, ...]:
    """The request for the tests: the names that --only and --skip leave, and the selected job's recipe."""
    from envcheck import checks
    from envcheck.deep import check_table

    known = (*more, *check_table.make_checks())
    chosen, left_out = checks.resolve_check_names(request.only, known), checks.resolve_check_names(request.skip, known)
    names = frozenset(n for n in check_table.NAMES if (not chosen or n in chosen) and n not in left_out)
    return seen.facts, request, names, seen.job.recipe if seen.job else None


def _judge_machine(request: ExamineOptions, seen: ExaminedMachine, site: SiteSettings) -> list[Finding]:
    import datetime

    from envcheck import checks
    from envcheck.checks import custom
    from envcheck.deep import check_table

    more = custom.load_custom_checks(site)
    checks.resolve_check_names(
        [waiver.check for waiver in site.waivers], (*more, *check_table.make_checks()), whole=False
    )
    more = (*more, *_run_deep_checks(request, seen, more))
    found = checks.run_checks(seen.facts, request.only, request.skip, more)
    return custom.apply_waivers(found, site, datetime.date.today())
