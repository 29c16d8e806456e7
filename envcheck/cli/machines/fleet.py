"""--hosts of doctor and snapshot: many machines over SSH, or a folder of recordings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envcheck.cli.doctor_options import HostsReportOptions, ReplayOptions
from envcheck.cli.options import FleetOptions
from envcheck.core.messages import _

if TYPE_CHECKING:
    from envcheck.core.facts import Facts
    from envcheck.core.model import Finding, Question
    from envcheck.fleet.evaluate import FleetEvaluator, JudgedHost
    from envcheck.fleet.output import HostOutput
    from envcheck.settings.site_config import SiteSettings


def diagnose_hosts(
    request: HostsReportOptions | ReplayOptions, site: SiteSettings, judge: Callable[[Facts], list[Finding]]
) -> int:
    """Check all hosts or recordings, compare them, write the report; return the exit code."""
    from envcheck.cli import recordings
    from envcheck.cli.machines import fleet_peers, report_output
    from envcheck.fleet import evaluate
    from envcheck.report import formats
    from envcheck.report.summary import exit_code

    if request.only or request.skip:
        from envcheck import checks
        from envcheck.checks import custom

        checks.resolve_check_names((*request.only, *request.skip), custom.load_custom_checks(site))
    form = report_output.choose_format(request)
    fleet_peers.refuse_bad_options(request)
    compares = bool(request.rank_table) or not isinstance(request, ReplayOptions)
    kept = evaluate.KeptParts(
        form in formats.WITH_FACTS, request.json_lines or form not in formats.OF_PROBLEMS, compares
    )
    bench = evaluate.FleetEvaluator(judge, request.device, kept)
    if request.json_lines:
        return _stream_hosts(request, site, bench)
    hosts = (
        recordings.judge_folder(request.replay, bench)
        if isinstance(request, ReplayOptions)
        else ask_each_host(request, bench.judge_output, site.questions)
    )
    report = replace(
        evaluate.compare_hosts(hosts, fleet_peers.find_peer_outliers(request, hosts)), strict=request.strict
    )
    report_output.write_report(request, report, form)
    return exit_code(report.findings, request.strict)


def _stream_hosts(request: HostsReportOptions | ReplayOptions, site: SiteSettings, bench: FleetEvaluator) -> int:
    """Print a document for each host as soon as it is judged, and keep none; return the worst exit code."""
    import click

    from envcheck.cli import recordings
    from envcheck.core import language
    from envcheck.core.errors import CHECK_FAILED, SUCCESS, UNDETERMINED
    from envcheck.core.facts import Facts
    from envcheck.report import HostReport, document
    from envcheck.report.summary import exit_code

    language.use_program_language()
    codes: set[int] = set()

    def render(host: JudgedHost) -> tuple[str, int]:
        report = HostReport(host.findings, Facts(), host.name, host.has_answered)
        return document.render_host_line(report), exit_code(host.findings, request.strict)

    def show(host: JudgedHost) -> None:
        line, code = render(host)
        click.echo(line, nl=False)
        codes.add(code)

    if isinstance(request, ReplayOptions):
        for line, code in recordings.judge_each(
            request.replay, lambda path: render(recordings.judge_file(path, bench))
        ):
            click.echo(line, nl=False)
            codes.add(code)
    else:
        ask_each_host(request, lambda output: show(bench.judge_output(output)), site.questions)
    return next((code for code in (CHECK_FAILED, UNDETERMINED) if code in codes), SUCCESS)


def ask_each_host(
    request: FleetOptions, each: Callable[[HostOutput], Any], questions: tuple[Question, ...]
) -> list[Any]:
    """Return the result of `each` for every host, in their order; computed in one thread while others respond."""
    from concurrent.futures import Future, ThreadPoolExecutor

    from envcheck.core import process
    from envcheck.fleet import collector, hosts
    from envcheck.report import screen

    names = hosts.resolve_hosts(request.hosts, request.hostfile, request.exclude)
    errand = collector.CollectRequest(request.device, questions, request.fanout, request.host_timeout_s)
    made: dict[str, Future[Any]] = {}
    pool = ThreadPoolExecutor(1)
    try:
        with (
            process.terminate_children_on_error(),
            screen.show_progress(_("collecting facts from the hosts"), len(names)) as step,
        ):

            def done(said: HostOutput) -> None:
                made[said.host] = pool.submit(each, said)
                step()

            collector.ask_hosts(names, errand, done)
        return [made[name].result() for name in names]
    finally:
        pool.shutdown(cancel_futures=True)
