"""--hosts of doctor and snapshot: many machines over ssh, or a folder of their recordings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envcheck.cli.doctor_options import HostsReportOptions, ReplayOptions
from envcheck.cli.options import FleetOptions
from envcheck.core.errors import UsageError

if TYPE_CHECKING:
    from envcheck.core.facts import Facts
    from envcheck.core.model import Finding, Question
    from envcheck.fleet.evaluate import Bench, Host
    from envcheck.fleet.output import HostOutput
    from envcheck.settings.site_settings import Settings


def doctor(request: HostsReportOptions | ReplayOptions, site: Settings, judge: Callable[[Facts], list[Finding]]) -> int:
    """Ask or replay all, judge each, vote, report; the exit code."""
    from envcheck.cli.commands import fleet_between, report_output
    from envcheck.fleet import evaluate
    from envcheck.report import formats
    from envcheck.report.summary import exit_code

    if request.only or request.skip:
        from envcheck import checks
        from envcheck.checks import custom

        checks.named((*request.only, *request.skip), custom.checks(site))
    form = report_output.choose_format(request)
    fleet_between.refuse(request)
    bench = evaluate.Bench(judge, request.device, form in formats.WITH_FACTS)
    hosts = (
        _replayed(request.replay, bench)
        if isinstance(request, ReplayOptions)
        else each_asked(request, bench.said, site.questions)
    )
    report = replace(evaluate.compare_hosts(hosts, fleet_between.told(request, hosts)), strict=request.strict)
    report_output.write_report(request, report, form)
    return exit_code(report.findings, request.strict)


def each_asked(request: FleetOptions, each: Callable[[HostOutput], Any], questions: tuple[Question, ...]) -> list[Any]:
    """What `each` makes of every host, in the hosts' order; made beside the asking, in one thread."""
    from concurrent.futures import Future, ThreadPoolExecutor

    from envcheck.core import process
    from envcheck.fleet import collector, hosts
    from envcheck.report import screen

    names = hosts.chosen(request.hosts, request.hostfile, request.exclude)
    errand = collector.CollectRequest(request.device, questions, request.fanout, request.deadline)
    made: dict[str, Future[Any]] = {}
    pool = ThreadPoolExecutor(1)
    try:
        with process.no_child_left(), screen.progress("asking the hosts", len(names)) as step:

            def done(said: HostOutput) -> None:
                made[said.host] = pool.submit(each, said)
                step()

            collector.ask(names, errand, done)
        return [made[name].result() for name in names]
    finally:
        pool.shutdown(cancel_futures=True)


def _replayed(folder: Any, bench: Bench) -> list[Host]:
    """Each NAME.json in the folder is a host's recording."""
    from envcheck.collect import snapshot as recording

    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise UsageError(f"{folder} holds no recordings", "envcheck snapshot --hosts node[01-08] -o FOLDER")
    return [bench.answers(path.stem, *recording.load(path)) for path in paths]
