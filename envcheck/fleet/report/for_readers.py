"""The fleet for Prometheus, with a label `host` on each series, and as Markdown for an issue or a chat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from envcheck.core.host_names import fold_hosts
from envcheck.core.language import say
from envcheck.core.model import Finding
from envcheck.core.version import __version__
from envcheck.fleet import majority
from envcheck.fleet.evaluate import Alike, Fleet, Host, alike
from envcheck.fleet.report import summary as told
from envcheck.fleet.report.options import FleetReportOptions
from envcheck.report import markdown, prometheus
from envcheck.report.style import MARKS
from envcheck.report.summary import exit_code, problems, safe, summary, verdict

Samples = Callable[[Host], Iterable[prometheus.Sample]]


def render_prometheus(fleet: Fleet, asked: FleetReportOptions) -> str:
    """For a look from one machine at all: not for each node's own collector, which knows its host."""
    code = exit_code(fleet.findings, asked.strict)
    lines = [
        *_metric("envcheck_info", "Which envcheck looked.", [({"version": __version__}, 1)]),
        *_metric(
            "envcheck_examined_timestamp_seconds",
            "When the hosts were examined, in seconds since 1970.",
            [({}, asked.made.timestamp())],
        ),
        *_metric("envcheck_exit_code", "0 fit; 1 a check failed; 3 a check could not run.", [({}, code)]),
        *_metric(
            "envcheck_host_answered",
            "Whether the host answered, 1 or 0.",
            [({"host": safe(h.name)}, int(h.answered)) for h in fleet.hosts],
        ),
        *_metric(
            "envcheck_fleet_status",
            f"The status of a check among the hosts ({prometheus.STATUSES}): 1.",
            prometheus._statuses(fleet.odd),
        ),
        *_hosts(
            fleet,
            "envcheck_check_status",
            f"The status of a check ({prometheus.STATUSES}): 1, or 0 where a waiver accepts it.",
            _statuses,
        ),
        *_hosts(fleet, "envcheck_checks", "Checks by status; waived ones apart.", _counts),
    ]
    for name, (words, figure) in prometheus.DEVICE.items():
        lines += _hosts(fleet, name, words, partial(_figures, figure))
    return "".join(line + "\n" for line in lines)


_metric = prometheus._metric


def _hosts(fleet: Fleet, name: str, words: str, samples: Samples) -> Iterator[str]:
    told = [({"host": safe(h.name), **labels}, value) for h in fleet.hosts for labels, value in samples(h)]
    return _metric(name, words, told)


def _statuses(host: Host) -> Iterator[prometheus.Sample]:
    return prometheus._statuses(host.findings)


def _counts(host: Host) -> Iterator[prometheus.Sample]:
    return prometheus._counts(host.findings)


def _figures(figure: Callable[..., float | None], host: Host) -> Iterator[prometheus.Sample]:
    return prometheus._figures(host.facts.vendors if host.facts else (), figure)


def render_markdown(fleet: Fleet, asked: FleetReportOptions) -> str:
    wrong = alike(fleet.hosts)
    words, _, command = told.step(fleet, wrong).partition("\n")
    lines = [
        f"# {_words(told.head(fleet))}",
        "",
        f"**{MARKS[verdict(fleet.findings)]} {_words(summary(fleet.findings))}** ({_words(say(told.well(fleet)))})",
        "",
        f"{say('Next: ')}{_words(words)}",
        *(markdown._code([command]) if command else ()),
        *_common(fleet.votes),
        *_section(say("Odd ones"), [line for f in fleet.wrong for part in problems(f) for line in _finding(part, "")]),
        *_section(say("Hosts"), [line for one in wrong for line in _alike(one)]),
        *_section(say("Between the hosts"), [f"* {_words(f.name)}{say(': ')}{_words(f.seen)}" for f in fleet.well]),
    ]
    return "\n".join(lines) + "\n"


_words = markdown._words


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {_words(title)}", *([] if lines[0] == "" else [""]), *lines] if lines else []


def _common(votes: Sequence[majority.Vote]) -> list[str]:
    rows = [v for v in votes if v.name in told.ROWS and v.most is not None]
    lines = [
        f"| {_words(say(safe(v.subject)))} | {_words(v.most or '')} | {_words(fold_hosts(v.values[v.most or '']))} |"
        for v in rows
    ]
    return _section(say("Common"), ["| | | |", "| --- | --- | --- |", *lines]) if rows else []


def _alike(one: Alike) -> Iterator[str]:
    yield from _finding(one.finding, fold_hosts(one.hosts), len(one.seen))
    if len(one.seen) > 1:
        yield from (
            "",
            *(f"* {_words(fold_hosts(hosts))}{say(': ')}{_words(seen)}" for seen, hosts in one.seen.items()),
        )


def _finding(finding: Finding, hosts: str, wordings: int = 1) -> Iterator[str]:
    where = f"{_words(hosts)}{say(': ')}" if hosts else ""
    seen = f"{say(': ')}{_words(finding.seen)}" if wordings == 1 else ""
    yield from ("", f"{where}**{MARKS[finding.status]} {_words(finding.name)}**{seen}")
    if finding.evidence:
        yield from markdown._code(finding.evidence)
    if finding.remedy:
        yield from ("", _words(finding.remedy.words))
        if finding.remedy.commands:
            yield from markdown._code(finding.remedy.commands)
