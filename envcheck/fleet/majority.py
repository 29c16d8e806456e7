"""The vote on what ought to be equal on all hosts of a fleet, which names the odd ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from envcheck.core.host_names import fold_hosts
from envcheck.core.model import Finding, Remedy
from envcheck.fleet.consistency import TABLE, Values, Voted
from envcheck.fleet.outlier import Odd
from envcheck.report.contents import Vote

SHOWN = 3  # subjects in a sentence


def votes(told: Mapping[str, Mapping[str, Values]]) -> list[Vote]:
    """All subjects of the table over host → values(facts)."""
    by_line = {line: {host: said[line.name] for host, said in told.items() if line.name in said} for line in TABLE}
    return [vote for line, said in by_line.items() for vote in _line(line, said)]


def odd(found: Iterable[Vote]) -> list[Odd]:
    """What is not agreed, the odd hosts first; subjects that split the hosts alike (packages) are told together."""
    groups: dict[tuple[str, tuple[tuple[str, ...], ...]], list[Vote]] = {}
    for vote in found:
        if not vote.agreed:
            groups.setdefault((vote.name, tuple(sorted(vote.values.values()))), []).append(vote)
    return [Odd(_finding(alike), _outvoted(alike[0])) for alike in groups.values()]


def _outvoted(vote: Vote) -> tuple[str, ...]:
    return () if vote.most is None else tuple(host for hosts in vote.others.values() for host in hosts)


def _finding(alike: Sequence[Vote]) -> Finding:
    lines = [_sentence(vote) for vote in alike]
    more = f"; {len(lines) - SHOWN} more differ so" if lines[SHOWN:] else ""
    seen, remedy = "; ".join(lines[:SHOWN]) + more, Remedy(alike[0].words)
    return Finding(alike[0].name, alike[0].status, seen, remedy, tuple(lines[SHOWN:][:50]), "the vote of the hosts")


def _sentence(vote: Vote) -> str:
    shown = [f"{value[:80]} on {fold_hosts(hosts)}" for value, hosts in vote.others.items()]
    if vote.most is not None:
        shown.append(f"{vote.most[:80]} on {fold_hosts(vote.values[vote.most])}")
    return f"{vote.subject}: {', '.join(shown[:4])}{f' and {len(shown) - 4} more' if shown[4:] else ''}"


def _line(line: Voted, told: Mapping[str, Values]) -> Iterator[Vote]:
    for subject in sorted({subject for said in told.values() for subject in said}):
        by_value: dict[str, list[str]] = {}
        for host, said in told.items():
            value = said.get(subject, line.absent)
            if value is not None:
                by_value.setdefault(value, []).append(host)
        yield _vote(line, subject, by_value)


def _vote(line: Voted, subject: str, by_value: Mapping[str, list[str]]) -> Vote:
    ranked = sorted(by_value.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    half = sum(len(hosts) for hosts in by_value.values()) / 2
    most = ranked[0][0] if len(ranked[0][1]) > half else None
    return Vote(line.name, subject, most, {value: tuple(hosts) for value, hosts in ranked}, line.status, line.words)
