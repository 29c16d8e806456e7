"""One machine on the HTML page: areas with findings, devices, links and disks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import device_label
from envcheck.core.language import translate
from envcheck.core.messages import join
from envcheck.core.model import Finding, Status
from envcheck.report import bars, palette, tiles, topology
from envcheck.report.contents import HostReport, list_problems
from envcheck.report.page_labels import get_labels
from envcheck.report.plain_text import area_state, describe_area
from envcheck.report.summary import describe_blocked, effective_status, get_area_title, group_blocked, safe
from envcheck.vendors import VENDORS

EVIDENCE_LIMIT = 40  # lines; --json has all


@dataclass(frozen=True)
class ShownFinding:
    """A finding as the page shows it."""

    name: str
    state: str
    seen: str
    device: str
    label: str
    words: str
    commands: tuple[str, ...]
    evidence: tuple[str, ...]
    more: int
    source: str
    blocks: str
    waived: str


@dataclass(frozen=True)
class PageArea:
    """An area of checks: `says` is its summary line; the findings are split into problems, passed, blocked and not
    applicable.
    """

    key: str
    title: str
    state: str
    says: str
    wrong: list[ShownFinding]
    well: list[ShownFinding]
    blocked: list[ShownFinding]
    idle: list[ShownFinding]


@dataclass(frozen=True)
class VendorCards:
    """One vendor's devices, the worst first, and their links; `ghosts` are addresses that the tool does not list."""

    title: str
    tiles: list[tiles.Tile]
    ghosts: list[str]
    more: int
    links: DeviceLinks | None


@dataclass(frozen=True)
class DeviceLinks:
    """The links between devices; `hosts` names the hosts that share them, if the page shows several."""

    title: str
    hosts: str
    columns: list[tuple[str, str]]
    rows: list[tuple[str, list[topology.MatrixCell]]]
    graph: topology.TopologyGraph
    kinds: list[tuple[str, str]]


def describe_host(host: HostReport) -> dict[str, Any]:
    """Return the template's values for one machine: areas and devices, the worst first."""
    facts, found = host.facts, host.all_findings
    return {
        "job": f"{safe(facts.wanted.recipe)} {safe(facts.wanted.method)}" if facts.wanted else "",
        "areas": sorted(_list_areas(found), key=lambda area: -Status[area.state.upper()]),
        "cards": [_describe_cards(facts, v, found) for v in facts.vendors],
        "machine": _describe_system(facts),
        "bars": bars.build_bars(facts, found, get_labels()),
    }


def count_statuses(findings: Sequence[Finding]) -> list[tuple[str, int]]:
    """Return how many findings have each status, the worst first and the waived last."""
    counts = [(s.name.lower(), sum(f.status is s and not f.waived for f in findings)) for s in reversed(Status)]
    counts.append(("waived", sum(bool(f.waived) for f in findings)))
    return [pair for pair in counts if pair[1]]


def _list_areas(findings: Sequence[Finding]) -> Iterator[PageArea]:
    blocked = group_blocked(findings)
    for key, some in groupby(findings, key=lambda f: f.name.partition(".")[0]):
        all_of_it = list(some)
        ranked = sorted(all_of_it, key=lambda f: -effective_status(f))
        yield PageArea(
            key=safe(key),
            title=get_area_title(key),
            state=area_state(all_of_it).name.lower(),
            says=describe_area(all_of_it),
            wrong=[
                show_finding(part, blocked if n == 0 else {}) for f in ranked for n, part in enumerate(list_problems(f))
            ],
            well=[show_finding(f, {}) for f in ranked if f.status is Status.OK],
            blocked=[show_finding(f, {}) for f in ranked if f.status is Status.BLOCKED],
            idle=[show_finding(f, {}) for f in ranked if f.status is Status.NOT_APPLICABLE],
        )


def show_finding(finding: Finding, blocked: Mapping[str, list[str]]) -> ShownFinding:
    """Return a finding as the page shows it; `blocked` maps a check to those that it blocks."""
    remedy = finding.remedy
    return ShownFinding(
        name=safe(finding.name),
        state=finding.status.name.lower(),
        seen=safe(finding.seen),
        device=translate(VENDORS[finding.device].title) if finding.device in VENDORS else "",
        label=translate(remedy.label) if remedy else "",
        words=safe(remedy.words) if remedy else "",
        commands=tuple(safe(command) for command in remedy.commands) if remedy else (),
        evidence=tuple(safe(line) for line in finding.evidence[:EVIDENCE_LIMIT]),
        more=max(0, len(finding.evidence) - EVIDENCE_LIMIT),
        source=safe(translate(finding.source)),
        blocks=translate(describe_blocked(names)) if (names := blocked.get(finding.name)) else "",
        waived=safe(finding.waived),
    )


def _describe_cards(facts: Facts, v: VendorFacts, findings: Sequence[Finding]) -> VendorCards:
    shown = tiles.build_tiles(facts, v, findings)
    links = describe_links(v, {tile.number: tile.state for tile in shown})
    return VendorCards(
        translate(v.vendor.title), shown, tiles.list_unlisted_addresses(v), max(0, len(v.devices) - len(shown)), links
    )


def describe_links(v: VendorFacts, states: Mapping[str, str], hosts: str = "") -> DeviceLinks | None:
    """Return the links of a vendor's devices, None for fewer than two; `states` by device number colour the graph."""
    tied = v.topology
    if tied is None or len(tied.names) < 2:
        return None
    columns, rows = topology.build_matrix(tied)
    colours = [states.get(device_label(d), "") for d in v.devices] if len(tied.names) == len(v.devices) else []
    seen = {(cell.kind, cell.text) for _, row in rows for cell in row if cell.kind != "self"}
    kinds = [(link, translate(join(", ", sorted(t for k, t in seen if k == link)))) for link in palette.LINKS]
    graph = topology.build_graph(tied, colours if all(colours) else [])
    return DeviceLinks(translate(v.vendor.title), hosts, columns, rows, graph, [pair for pair in kinds if pair[1]])


def _describe_system(facts: Facts) -> list[str]:
    host = facts.host
    if host is None:
        return []
    return [safe(text) for text in (host.os, host.kernel, host.architecture) if text]
