"""Many hosts on the HTML page: hosts with issues first, healthy ones collapsed; shared findings appear once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envcheck.core.facts import VendorFacts
from envcheck.core.host_names import name_hosts
from envcheck.core.language import translate
from envcheck.core.messages import _, fill
from envcheck.core.model import Status
from envcheck.report.bars import build_bars
from envcheck.report.contents import DoctorReport, FindingGroup, HostReport, group_findings, group_key, list_problems
from envcheck.report.page_labels import get_labels
from envcheck.report.page_machine import (
    DeviceLinks,
    ShownFinding,
    count_statuses,
    describe_host,
    describe_links,
    show_finding,
)
from envcheck.report.plain_text import area_state
from envcheck.report.summary import (
    AMONG_HOSTS,
    decide_verdict,
    effective_status,
    get_area_title,
    is_healthy,
    list_common_values,
    next_step,
    safe,
    summarise_findings,
)

HOSTS_LIMIT = 256  # hosts with their own section, the worst first
WORDINGS_LIMIT = 8  # wordings of one check; --json has all
KINDS_LIMIT = 4  # topologies, those of most hosts first
EVIDENCE_LIMIT = 4  # lines of a host's own evidence, if it differs from that of the others


Texts = Mapping[tuple[str, ...], tuple[str, tuple[str, ...]]]  # key of a finding → its anchor, and the evidence there


@dataclass(frozen=True)
class SharedFinding:
    """A finding with its hosts, shortened; `at` is its anchor in the page, `wordings` the wordings by hosts."""

    at: str
    shown: ShownFinding
    hosts: str
    wordings: list[tuple[str, str]]
    more: int = 0


@dataclass(frozen=True)
class FindingReference:
    """A host's wording of a finding that is shown once, at anchor `at`; evidence only if the host's own differs."""

    at: str
    state: str
    name: str
    seen: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Observation:
    """The result of a check, and its hosts; no hosts means all of them."""

    name: str
    seen: str
    hosts: str


@dataclass(frozen=True)
class HostRow:
    """A row of the host table; `cells` are the states of the areas in the columns, empty if an area is missing."""

    name: str
    at: str
    state: str
    says: str
    cells: list[str]
    references: list[FindingReference]
    counts: list[tuple[str, int]]
    step: str
    command: str
    machine: dict[str, Any]


def describe_hosts(report: DoctorReport) -> dict[str, Any]:
    """Return the template's values for many hosts."""
    groups = group_findings(report.hosts)
    texts = {group_key(group.finding): (f"finding-{n}", group.finding.evidence) for n, group in enumerate(groups)}
    columns = _list_columns(report)
    ranked = sorted(report.hosts, key=_rank_host)
    troubled = [h for h in ranked if not is_healthy(h)]
    return {
        "columns": [get_area_title(key) for key in columns],
        "rows": [_build_row(report, n, host, columns, texts) for n, host in enumerate(troubled)],
        "parts": min(len(troubled), HOSTS_LIMIT),
        "well": [_summarise_host(host) for host in ranked if is_healthy(host)],
        "well_hosts": safe(translate(name_hosts(host.name for host in ranked if is_healthy(host)))),
        "total": len(report.hosts),
        "odd": [
            SharedFinding(f"shared-{f.name}-{n}", show_finding(part, {}), "", [])
            for f in sorted(report.shared, key=lambda f: -f.status)
            for n, part in enumerate(list_problems(f))
        ],
        "groups": [_describe_group(texts[group_key(group.finding)][0], group) for group in groups],
        "tried": [show_finding(f, {}) for f in report.shared if not f.status.is_problem],
        "common": list_common_values(report),
        "links": list(_list_links(report.hosts)),
        **{name: list(_group_observations(report.hosts, status)) for name, status in PASSED.items()},
        "waived": list(_group_observations(report.hosts, None)),
    }


def _rank_host(host: HostReport) -> tuple[int, int]:
    """The worst first, then those with the most issues."""
    worst = decide_verdict(host.all_findings)
    return -worst, -sum(effective_status(f) is worst for f in host.all_findings if worst.is_problem)


PASSED = {"passed": Status.OK, "blocked": Status.BLOCKED, "idle": Status.NOT_APPLICABLE}


def _list_columns(report: DoctorReport) -> list[str]:
    """Each area once, in the order of the hosts; the comparison of the hosts comes first."""
    seen = dict.fromkeys(f.name.partition(".")[0] for host in report.hosts for f in host.findings)
    return [AMONG_HOSTS, *(key for key in seen if key != AMONG_HOSTS)]


def _build_row(report: DoctorReport, number: int, host: HostReport, columns: Sequence[str], texts: Texts) -> HostRow:
    """The next step is the host's own, if it has one: a difference from the other hosts is often its consequence."""
    found = host.all_findings
    own = host.findings if any(effective_status(f).is_problem for f in host.findings) else found
    words, _, command = next_step(own).partition("\n")
    states = {key: [f for f in found if f.name.partition(".")[0] == key] for key in columns}
    return HostRow(
        name=safe(host.name),
        at=f"host-{host.name}" if re.fullmatch(r"[\w.-]+", host.name, re.ASCII) else f"other-{number}",
        state=decide_verdict(found).name.lower(),
        says=summarise_findings(found),
        cells=[area_state(some).name.lower() if some else "" for some in states.values()],
        references=list(_list_references(host, texts)),
        counts=count_statuses(found),
        step=words,
        command=command,
        machine=describe_host(host),
    )


def _list_references(host: HostReport, texts: Texts) -> Iterator[FindingReference]:
    """The references of a host, the worst first."""
    own = [part for f in host.findings if not f.waived for part in list_problems(f)]
    for part in sorted(own, key=lambda f: -f.status):
        at, shared_evidence = texts[group_key(part)]
        lines = part.evidence[:EVIDENCE_LIMIT] if part.evidence != shared_evidence else ()
        state, shown = part.status.name.lower(), tuple(safe(line) for line in lines)
        yield FindingReference(at, state, safe(part.name), safe(part.seen), shown)
    for f in host.outlier:
        yield FindingReference(f"shared-{f.name}-0", f.status.name.lower(), safe(f.name), "", ())


def _summarise_host(host: HostReport) -> tuple[str, str]:
    """A healthy host in one line: its devices and free space."""
    said = get_labels()
    return safe(host.name), " · ".join([*(_describe_devices(v) for v in host.facts.vendors),
                                        *(f"{bar.name}{said['colon']}{bar.text}"
                                          for bar in build_bars(host.facts, host.findings, said))])  # fmt: skip


def _describe_devices(v: VendorFacts) -> str:
    """For example: 8 × Huawei Ascend, ≤ 45 °C."""
    warmth = [d.temperature_c for d in v.devices if d.temperature_c is not None]
    devices = _("{count} × {name}", count=len(v.devices), name=fill(v.vendor.title))
    if not warmth:
        return translate(devices)
    return translate(_("{devices}, ≤ {celsius:g} °C", devices=devices, celsius=max(warmth)))


def _describe_group(at: str, group: FindingGroup) -> SharedFinding:
    """Each wording with its hosts, if there are several."""
    wordings = [(safe(translate(name_hosts(hosts))), safe(seen)) for seen, hosts in group.seen.items()]
    several = wordings if len(wordings) > 1 else []
    more = max(0, len(several) - WORDINGS_LIMIT)
    return SharedFinding(
        at, show_finding(group.finding, {}), safe(translate(name_hosts(group.hosts))), several[:WORDINGS_LIMIT], more
    )


def _group_observations(hosts: Sequence[HostReport], status: Status | None) -> Iterator[Observation]:
    """The results of checks with this status, each wording once; without a status, the waived ones."""
    found: dict[str, dict[str, list[str]]] = {}
    for host in hosts:
        for f in host.findings:
            if (f.waived != "") if status is None else (f.status is status and not f.waived):
                seen = translate(_("{seen} (waived {reason})", seen=f.seen, reason=f.waived)) if f.waived else f.seen
                found.setdefault(f.name, {}).setdefault(seen, []).append(host.name)
    for name, wordings in found.items():
        for seen, names in list(wordings.items())[:WORDINGS_LIMIT]:
            yield Observation(
                safe(name), safe(seen), "" if len(names) == len(hosts) else safe(translate(name_hosts(names)))
            )
        if len(wordings) > WORDINGS_LIMIT:
            yield Observation(safe(name), f"+ {len(wordings) - WORDINGS_LIMIT}", "")


def _list_links(hosts: Sequence[HostReport]) -> Iterator[DeviceLinks]:
    """Each topology of the devices once, with its hosts."""
    found: dict[str, tuple[VendorFacts, list[str]]] = {}
    for host in hosts:
        for v in host.facts.vendors:
            found.setdefault(repr((v.name, v.topology)), (v, []))[1].append(host.name)
    ranked = sorted(found.values(), key=lambda pair: -len(pair[1]))
    shown = (describe_links(v, {}, safe(translate(name_hosts(names)))) for v, names in ranked)
    yield from [links for links in shown if links][:KINDS_LIMIT]
