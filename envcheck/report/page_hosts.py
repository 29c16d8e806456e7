"""Many hosts as the page draws them: those with trouble first, the well ones folded; what several share, once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envcheck.core.facts import VendorFacts
from envcheck.core.host_names import fold_hosts
from envcheck.core.language import say
from envcheck.core.model import Status
from envcheck.report.bars import bars
from envcheck.report.contents import FindingGroup, HostReport, Report, group_findings, group_key, problems
from envcheck.report.page_machine import (
    Links,
    Shown,
    count_statuses,
    describe_host,
    describe_links,
    show_finding,
)
from envcheck.report.page_words import words
from envcheck.report.summary import (
    AMONG_HOSTS,
    common_rows,
    counted,
    is_well,
    next_step,
    safe,
    summary,
    title,
    verdict,
)
from envcheck.report.text import area_state

HOSTS_LIMIT = 256  # with a part of their own, the worst first
WORDINGS_LIMIT = 8  # of what one check saw; --json has them all
KINDS_LIMIT = 4  # of how devices are tied together, those of most hosts first
EVIDENCE_LIMIT = 4  # lines, of a host's own evidence where it differs from that of the others


Texts = Mapping[tuple[str, ...], tuple[str, tuple[str, ...]]]  # key of a finding → its place, and the evidence there


@dataclass(frozen=True)
class Shared:
    """A finding with the hosts that have it, folded; `at` is its place in the page, `wordings` are by hosts."""

    at: str
    shown: Shown
    hosts: str
    wordings: list[tuple[str, str]]
    more: int = 0


@dataclass(frozen=True)
class Reference:
    """A host's own words for a finding whose text is told once, at `at`; evidence where it is the host's own."""

    at: str
    state: str
    name: str
    seen: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Seen:
    """What a check saw, and on which hosts; without hosts it is all of them."""

    name: str
    seen: str
    hosts: str


@dataclass(frozen=True)
class Row:
    """A host in the page; `cells` are the states of the columns' areas, "" where it has none."""

    name: str
    at: str
    state: str
    says: str
    cells: list[str]
    references: list[Reference]
    counts: list[tuple[str, int]]
    step: str
    command: str
    machine: dict[str, Any]


def describe_hosts(report: Report) -> dict[str, Any]:
    """All that the template for many hosts needs."""
    groups = group_findings(report.hosts)
    texts = {group_key(group.finding): (f"finding-{n}", group.finding.evidence) for n, group in enumerate(groups)}
    columns = _columns(report)
    ranked = sorted(report.hosts, key=_rank)
    troubled = [h for h in ranked if not is_well(h)]
    return {
        "columns": [title(key) for key in columns],
        "rows": [_row(report, n, host, columns, texts) for n, host in enumerate(troubled)],
        "parts": min(len(troubled), HOSTS_LIMIT),
        "well": [_figures(host, report.lang) for host in ranked if is_well(host)],
        "well_hosts": safe(fold_hosts(host.name for host in ranked if is_well(host))),
        "total": len(report.hosts),
        "odd": [
            Shared(f"shared-{f.name}-{n}", show_finding(part, {}), "", [])
            for f in sorted(report.shared, key=lambda f: -f.status)
            for n, part in enumerate(problems(f))
        ],
        "groups": [_group(texts[group_key(group.finding)][0], group) for group in groups],
        "tried": [show_finding(f, {}) for f in report.shared if not f.status.is_problem],
        "common": common_rows(report),
        "links": list(_links(report.hosts)),
        **{name: list(_seen_alike(report.hosts, status)) for name, status in PASSED.items()},
        "waived": list(_seen_alike(report.hosts, None)),
    }


def _rank(host: HostReport) -> tuple[int, int]:
    """The worst first, then those with most of it."""
    worst = verdict(host.all_findings)
    return -worst, -sum(counted(f) is worst for f in host.all_findings if worst.is_problem)


PASSED = {"passed": Status.OK, "blocked": Status.BLOCKED, "idle": Status.NOT_APPLICABLE}


def _columns(report: Report) -> list[str]:
    """Each area once, as the hosts have them; what is found among the hosts comes first."""
    seen = dict.fromkeys(f.name.partition(".")[0] for host in report.hosts for f in host.findings)
    return [AMONG_HOSTS, *(key for key in seen if key != AMONG_HOSTS)]


def _row(report: Report, number: int, host: HostReport, columns: Sequence[str], texts: Texts) -> Row:
    """What to do first is the host's own, where it has something: being unlike others often follows from it."""
    found = host.all_findings
    own = host.findings if any(counted(f).is_problem for f in host.findings) else found
    words, _, command = next_step(own).partition("\n")
    states = {key: [f for f in found if f.name.partition(".")[0] == key] for key in columns}
    return Row(
        name=safe(host.name),
        at=f"host-{host.name}" if re.fullmatch(r"[\w.-]+", host.name, re.ASCII) else f"other-{number}",
        state=verdict(found).name.lower(),
        says=summary(found),
        cells=[area_state(some).name.lower() if some else "" for some in states.values()],
        references=list(_references(host, texts)),
        counts=count_statuses(found),
        step=words,
        command=command,
        machine=describe_host(host, report.lang),
    )


def _references(host: HostReport, texts: Texts) -> Iterator[Reference]:
    """The worst first."""
    own = [part for f in host.findings if not f.waived for part in problems(f)]
    for part in sorted(own, key=lambda f: -f.status):
        at, told = texts[group_key(part)]
        lines = part.evidence[:EVIDENCE_LIMIT] if part.evidence != told else ()
        state, shown = part.status.name.lower(), tuple(safe(line) for line in lines)
        yield Reference(at, state, safe(part.name), safe(part.seen), shown)
    for f in host.outlier:
        yield Reference(f"shared-{f.name}-0", f.status.name.lower(), safe(f.name), "", ())


def _figures(host: HostReport, lang: str) -> tuple[str, str]:
    """A well host in a line: its devices and what is free."""
    said = words(lang)
    return safe(host.name), " · ".join([*(_devices(v) for v in host.facts.vendors),
                                        *(f"{bar.name}{said['colon']}{bar.text}"
                                          for bar in bars(host.facts, host.findings, said))])  # fmt: skip


def _devices(v: VendorFacts) -> str:
    """As in 8 × Huawei Ascend, 45 °C at most."""
    warmth = [d.temperature_c for d in v.devices if d.temperature_c is not None]
    return f"{len(v.devices)} × {say(v.vendor.title)}{f', ≤ {max(warmth):g} °C' if warmth else ''}"


def _group(at: str, group: FindingGroup) -> Shared:
    """Each wording with its hosts, where there are several."""
    wordings = [(safe(fold_hosts(hosts)), safe(seen)) for seen, hosts in group.seen.items()]
    several = wordings if len(wordings) > 1 else []
    more = max(0, len(several) - WORDINGS_LIMIT)
    return Shared(at, show_finding(group.finding, {}), safe(fold_hosts(group.hosts)), several[:WORDINGS_LIMIT], more)


def _seen_alike(hosts: Sequence[HostReport], status: Status | None) -> Iterator[Seen]:
    """What checks with this status saw, each wording once; without a status what is waived."""
    found: dict[str, dict[str, list[str]]] = {}
    for host in hosts:
        for f in host.findings:
            if (f.waived != "") if status is None else (f.status is status and not f.waived):
                seen = f"{f.seen}{say('; waived ')}{f.waived}" if f.waived else f.seen
                found.setdefault(f.name, {}).setdefault(seen, []).append(host.name)
    for name, wordings in found.items():
        for seen, names in list(wordings.items())[:WORDINGS_LIMIT]:
            yield Seen(safe(name), safe(seen), "" if len(names) == len(hosts) else safe(fold_hosts(names)))
        if len(wordings) > WORDINGS_LIMIT:
            yield Seen(safe(name), f"+ {len(wordings) - WORDINGS_LIMIT}", "")


def _links(hosts: Sequence[HostReport]) -> Iterator[Links]:
    """How devices are tied together, each way once with its hosts."""
    found: dict[str, tuple[VendorFacts, list[str]]] = {}
    for host in hosts:
        for v in host.facts.vendors:
            found.setdefault(repr((v.name, v.topology)), (v, []))[1].append(host.name)
    ranked = sorted(found.values(), key=lambda pair: -len(pair[1]))
    shown = (describe_links(v, {}, safe(fold_hosts(names))) for v, names in ranked)
    yield from [links for links in shown if links][:KINDS_LIMIT]
