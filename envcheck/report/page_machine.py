"""One machine as the page draws it: its areas with their findings, its devices, links and disks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import label
from envcheck.core.language import exact, say
from envcheck.core.model import Finding, Status
from envcheck.report import bars, palette, tiles, topology
from envcheck.report.contents import HostReport, problems
from envcheck.report.page_words import words
from envcheck.report.summary import counted, group_blocked, safe, title
from envcheck.report.text import area_line, area_state
from envcheck.vendors import VENDORS

EVIDENCE_LIMIT = 40  # lines; --json has them all


@dataclass(frozen=True)
class Shown:
    """A finding as the page shows it."""

    name: str
    state: str
    seen: str
    device: str
    words: str
    commands: tuple[str, ...]
    evidence: tuple[str, ...]
    more: int
    source: str
    blocks: tuple[str, ...]
    waived: str


@dataclass(frozen=True)
class Area:
    key: str
    title: str
    state: str
    says: str
    wrong: list[Shown]
    well: list[Shown]
    blocked: list[Shown]
    idle: list[Shown]


@dataclass(frozen=True)
class Cards:
    """One vendor's devices, the worst first, and how they are tied together."""

    title: str
    tiles: list[tiles.Tile]
    ghosts: list[str]
    more: int
    links: Links | None


@dataclass(frozen=True)
class Links:
    """How devices are tied together; `hosts` have the same, where several hosts are in one page."""

    title: str
    hosts: str
    columns: list[tuple[str, str]]
    rows: list[tuple[str, list[topology.Cell]]]
    graph: topology.Graph
    kinds: list[tuple[str, str]]


def describe_host(host: HostReport, lang: str) -> dict[str, Any]:
    """One machine as the templates draw it: areas and devices, the worst first."""
    facts, found = host.facts, host.all_findings
    return {
        "job": f"{safe(facts.wanted.recipe)} {safe(facts.wanted.method)}" if facts.wanted else "",
        "areas": sorted(_areas(found), key=lambda area: -Status[area.state.upper()]),
        "cards": [_cards(facts, v, found) for v in facts.vendors],
        "machine": _machine(facts),
        "bars": bars.bars(facts, found, words(lang)),
    }


def count_statuses(findings: Sequence[Finding]) -> list[tuple[str, int]]:
    """Worst first, and the waived at the end."""
    told = [(s.name.lower(), sum(f.status is s and not f.waived for f in findings)) for s in reversed(Status)]
    told.append(("waived", sum(bool(f.waived) for f in findings)))
    return [pair for pair in told if pair[1]]


def _areas(findings: Sequence[Finding]) -> Iterator[Area]:
    blocked = group_blocked(findings)
    for key, some in groupby(findings, key=lambda f: f.name.partition(".")[0]):
        all_of_it = list(some)
        ranked = sorted(all_of_it, key=lambda f: -counted(f))
        yield Area(
            key=safe(key),
            title=title(key),
            state=area_state(all_of_it).name.lower(),
            says=area_line(all_of_it),
            wrong=[show_finding(part, blocked if n == 0 else {}) for f in ranked for n, part in enumerate(problems(f))],
            well=[show_finding(f, {}) for f in ranked if f.status is Status.OK],
            blocked=[show_finding(f, {}) for f in ranked if f.status is Status.BLOCKED],
            idle=[show_finding(f, {}) for f in ranked if f.status is Status.NOT_APPLICABLE],
        )


def show_finding(finding: Finding, blocked: Mapping[str, list[str]]) -> Shown:
    remedy = finding.remedy
    return Shown(
        name=safe(finding.name),
        state=finding.status.name.lower(),
        seen=safe(finding.seen),
        device=say(VENDORS[finding.device].title) if finding.device in VENDORS else "",
        words=safe(remedy.words) if remedy else "",
        commands=tuple(safe(command) for command in remedy.commands) if remedy else (),
        evidence=tuple(safe(line) for line in finding.evidence[:EVIDENCE_LIMIT]),
        more=max(0, len(finding.evidence) - EVIDENCE_LIMIT),
        source=safe(exact(finding.source)),
        blocks=tuple(blocked.get(finding.name, ())),
        waived=safe(finding.waived),
    )


def _cards(facts: Facts, v: VendorFacts, findings: Sequence[Finding]) -> Cards:
    shown = tiles.tiles(facts, v, findings)
    links = describe_links(v, {tile.number: tile.state for tile in shown})
    return Cards(say(v.vendor.title), shown, tiles.ghosts(v), max(0, len(v.devices) - len(shown)), links)


def describe_links(v: VendorFacts, states: Mapping[str, str], hosts: str = "") -> Links | None:
    """`states` by the number of a device colour the graph; None where the tool tells of no two devices."""
    tied = v.topology
    if tied is None or len(tied.names) < 2:
        return None
    columns, rows = topology.matrix(tied)
    colours = [states.get(label(d), "") for d in v.devices] if len(tied.names) == len(v.devices) else []
    seen = {(cell.kind, cell.text) for _, row in rows for cell in row if cell.kind != "self"}
    kinds = [(link, ", ".join(sorted(t for k, t in seen if k == link))) for link in palette.LINKS]
    graph = topology.graph(tied, colours if all(colours) else [])
    return Links(say(v.vendor.title), hosts, columns, rows, graph, [pair for pair in kinds if pair[1]])


def _machine(facts: Facts) -> list[str]:
    host = facts.host
    if host is None:
        return []
    return [safe(text) for text in (host.os, host.kernel, host.architecture) if text]
