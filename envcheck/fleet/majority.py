"""Count the values of compared properties and report the hosts in the minority."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from envcheck.core.host_names import name_hosts
from envcheck.core.messages import Message, _, join
from envcheck.core.model import Finding, manual
from envcheck.fleet.consistency import COMPARED_PROPERTIES, ComparedProperty, Values
from envcheck.fleet.outlier import Outlier
from envcheck.report.contents import Vote

SHOWN = 3  # subjects listed in one message


def count_votes(values_by_host: Mapping[str, Mapping[str, Values]]) -> list[Vote]:
    """Return a vote for each subject, from values by host and property."""
    by_line = {
        line: {host: values[line.name] for host, values in values_by_host.items() if line.name in values}
        for line in COMPARED_PROPERTIES
    }
    return [vote for line, values in by_line.items() for vote in _count_property(line, values)]


def find_outliers(found: Iterable[Vote]) -> list[Outlier]:
    """Return a finding for each disagreement; subjects that split the hosts alike, such as packages, are merged."""
    groups: dict[tuple[str, tuple[tuple[str, ...], ...]], list[Vote]] = {}
    for vote in found:
        if not vote.is_unanimous:
            groups.setdefault((vote.name, tuple(sorted(vote.values.values()))), []).append(vote)
    return [Outlier(_build_finding(alike), _list_outvoted(alike[0])) for alike in groups.values()]


def _list_outvoted(vote: Vote) -> tuple[str, ...]:
    return () if vote.most is None else tuple(host for hosts in vote.minority_values.values() for host in hosts)


def _build_finding(alike: Sequence[Vote]) -> Finding:
    lines = [_describe_vote(vote) for vote in alike]
    more = _("; {more} more with the same difference", more=len(lines) - SHOWN) if lines[SHOWN:] else ""
    seen = _("{differences}{more}", differences=join("; ", lines[:SHOWN]), more=more)
    remedy = manual(alike[0].words)
    return Finding(alike[0].name, alike[0].status, seen, remedy, tuple(lines[SHOWN:][:50]), "the vote of the hosts")


def _describe_vote(vote: Vote) -> Message:
    held = [*vote.minority_values.items(), *([(vote.most, vote.values[vote.most])] if vote.most is not None else [])]
    shown = [_("{version} on {hosts}", version=_cut(value), hosts=name_hosts(hosts)) for value, hosts in held]
    return _(
        "{subject}: {votes}{others}",
        subject=vote.subject,
        votes=join(", ", shown[:4]),
        others=_(" and {more} more", more=len(shown) - 4) if shown[4:] else "",
    )


def _cut(value: str) -> str:
    return value if len(value) <= 80 else value[:80]


def _count_property(line: ComparedProperty, by_host: Mapping[str, Values]) -> Iterator[Vote]:
    for subject in sorted({subject for values in by_host.values() for subject in values}):
        by_value: dict[str, list[str]] = {}
        for host, values in by_host.items():
            value = values.get(subject, line.absent)
            if value is not None:
                by_value.setdefault(value, []).append(host)
        yield _decide_vote(line, subject, by_value)


def _decide_vote(line: ComparedProperty, subject: str, by_value: Mapping[str, list[str]]) -> Vote:
    ranked = sorted(by_value.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    half = sum(len(hosts) for hosts in by_value.values()) / 2
    most = ranked[0][0] if len(ranked[0][1]) > half else None
    return Vote(line.name, subject, most, {value: tuple(hosts) for value, hosts in ranked}, line.status, line.words)
