"""For people who prefer to look: one page that is whole in itself, with the machine as a picture.

What a tool or a host says is text to the template, which escapes it; beside that the page forbids itself, by its
content security policy, to load anything or to run any script or style but its own two.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.language import exact, say
from envcheck.core.model import Finding, Status
from envcheck.core.version import __version__
from envcheck.report import bars, palette, tiles, topology
from envcheck.report.page_words import WORDS, words
from envcheck.report.style import MARKS
from envcheck.report.summary import (
    Report,
    counted,
    exit_code,
    group_blocked,
    next_step,
    problems,
    safe,
    summary,
    title,
    verdict,
)
from envcheck.report.text import area_line, area_state
from envcheck.vendors import VENDORS

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
EVIDENCE_LIMIT = 40  # lines; --json has them all
MARK = {**{status.name.lower(): mark for status, mark in MARKS.items()}, "waived": "~"}


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
    """One vendor's devices and how they are tied together."""

    title: str
    tiles: list[tiles.Tile]
    ghosts: list[str]
    more: int
    columns: list[tuple[str, str]]
    rows: list[tuple[str, list[topology.Cell]]]
    graph: topology.Graph | None
    kinds: list[tuple[str, str]]


def render(report: Report) -> str:
    environment = _environment()
    style = environment.get_template("page.css").render(
        light=palette.LIGHT, dark=palette.DARK, states=palette.STATES, links=palette.LINKS
    )
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    page = environment.get_template("page.html").render(
        **_context(report), style=_ours(style), script=_ours(script), style_hash=_hash(style), script_hash=_hash(script)
    )
    return page + "\n"


def _ours(text: str) -> Markup:
    """Not to be escaped: it comes from our own files, and from nowhere else."""
    from markupsafe import Markup

    return Markup(text)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=lambda name: name is None or name.endswith(".html"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _context(report: Report) -> dict[str, Any]:
    findings, facts = report.findings, report.facts
    areas = list(_areas(findings))
    step, _, command = _next(report).partition("\n")
    return {
        "at": "",  # before each id, where several machines stand in one page
        "lang": report.lang if report.lang in WORDS else "en",
        "w": SimpleNamespace(**words(report.lang)),
        "mark": MARK,
        "host": safe((facts.host.hostname if facts.host else None) or ""),
        "job": f"{safe(facts.wanted.recipe)} {safe(facts.wanted.method)}" if facts.wanted else "",
        "made": report.made,
        "state": verdict(findings).name.lower(),
        "says": summary(findings),
        "counts": _counts(findings),
        "step": step,
        "command": command,
        "areas": areas,
        "worst_areas": sorted(areas, key=lambda area: -Status[area.state.upper()]),
        "cards": [_cards(facts, v, findings) for v in facts.vendors],
        "machine": _machine(facts),
        "bars": list(bars.bars(facts, findings, words(report.lang))),
        "version": __version__,
        "exit_code": exit_code(findings, report.strict),
    }


def _next(report: Report) -> str:
    said = words(report.lang)
    if verdict(report.findings) is Status.NOT_APPLICABLE:
        return f"{said['nothing_judged']}\nenvcheck doctor --list-checks"
    return (
        next_step(report.findings)
        or f"{said['nothing_to_do']} {say(report.next_command.words)}\n{report.next_command.command}"
    )


def _counts(findings: Sequence[Finding]) -> list[tuple[str, int]]:
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
            wrong=[_shown(part, blocked if n == 0 else {}) for f in ranked for n, part in enumerate(problems(f))],
            well=[_shown(f, {}) for f in ranked if f.status is Status.OK],
            blocked=[_shown(f, {}) for f in ranked if f.status is Status.BLOCKED],
            idle=[_shown(f, {}) for f in ranked if f.status is Status.NOT_APPLICABLE],
        )


def _shown(finding: Finding, blocked: Mapping[str, list[str]]) -> Shown:
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
    tied = v.topology if v.topology and len(v.topology.names) > 1 else None
    columns, rows = topology.matrix(tied) if tied else ([], [])
    states = [tile.state for tile in shown] if tied and len(tied.names) == len(v.devices) else []
    seen = {(cell.kind, cell.text) for _, row in rows for cell in row if cell.kind != "self"}
    kinds = [(link, ", ".join(sorted(t for k, t in seen if k == link))) for link in palette.LINKS]
    return Cards(
        title=say(v.vendor.title),
        tiles=shown,
        ghosts=tiles.ghosts(v),
        more=max(0, len(v.devices) - len(shown)),
        columns=columns,
        rows=rows,
        graph=topology.graph(tied, states) if tied else None,
        kinds=[pair for pair in kinds if pair[1]],
    )


def _machine(facts: Facts) -> list[str]:
    host = facts.host
    if host is None:
        return []
    return [safe(text) for text in (host.os, host.kernel, host.architecture) if text]
