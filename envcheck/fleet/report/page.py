"""The fleet as one page that is whole in itself: a grid of hosts and areas, and in the same file each host's own page.

Which of them is shown is the address's fragment, by the style sheet alone: it works without a script.  The parts are
those of the page of one machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from envcheck.core.facts import Facts
from envcheck.core.host_names import fold_hosts
from envcheck.core.model import Finding, Status
from envcheck.core.version import __version__
from envcheck.fleet.evaluate import Alike, Fleet, Host, alike
from envcheck.fleet.report import summary as told
from envcheck.fleet.report.options import FleetReportOptions
from envcheck.report import page, palette
from envcheck.report.page_words import WORDS, words
from envcheck.report.summary import Report, counted, exit_code, problems, safe, summary, title, verdict
from envcheck.report.text import area_state

PAGES_LIMIT = 256  # hosts with a page of their own, the worst first; of 30 KB each
AREA = "fleet"


@dataclass(frozen=True)
class Cell:
    """One area of one host; `area` is empty where it has no page to lead to."""

    state: str
    area: str


@dataclass(frozen=True)
class Row:
    name: str
    at: str
    state: str
    cells: list[Cell | None]
    context: dict[str, Any] | None


@dataclass(frozen=True)
class Told:
    """A finding as the page shows it, and the hosts that it is about, folded."""

    shown: page.Shown
    hosts: str
    wordings: list[tuple[str, str]]


def render_html(fleet: Fleet, asked: FleetReportOptions) -> str:
    strict, lang, made = asked.strict, asked.lang, asked.made
    environment = page._environment()
    colours = {"light": palette.LIGHT, "dark": palette.DARK, "states": palette.STATES, "links": palette.LINKS}
    style = "".join(environment.get_template(name).render(**colours) for name in ("page.css", "fleet.css"))
    script = (page.TEMPLATES / "page.js").read_text(encoding="utf-8")
    parts = {"style": page._ours(style), "script": page._ours(script)}
    hashes = {"style_hash": page._hash(style), "script_hash": page._hash(script)}
    text = environment.get_template("fleet.html").render(**_context(fleet, strict, lang, made), **parts, **hashes)
    return text + "\n"


def _context(fleet: Fleet, strict: bool, lang: str, made: datetime) -> dict[str, Any]:
    found, wrong = fleet.findings, alike(fleet.hosts)
    words_told, _, command = told.step(fleet, wrong).partition("\n")
    columns = _columns(fleet)
    return {
        "at": "",
        "lang": lang if lang in WORDS else "en",
        "w": SimpleNamespace(**words(lang)),
        "mark": page.MARK,
        "hosts": safe(fold_hosts(host.name for host in fleet.hosts)),
        "made": made,
        "state": verdict(found).name.lower(),
        "says": summary(found),
        "counts": page._counts([*(one.finding for one in wrong), *fleet.wrong]),
        "well": sum(map(fleet.is_well, fleet.hosts)),
        "total": len(fleet.hosts),
        "step": words_told,
        "command": command,
        "columns": [(key, title(key)) for key in columns],
        "rows": list(_rows(fleet, columns, strict, lang, made)),
        "odd": [Told(page._shown(part, {}), "", []) for f in fleet.wrong for part in problems(f)],
        "between": [page._shown(f, {}) for f in fleet.well],
        "alike": [_alike(one) for one in wrong],
        "common": [
            (safe(v.subject), safe(v.most or ""), safe(fold_hosts(v.values[v.most or ""])))
            for v in fleet.votes
            if v.name in told.ROWS and v.most is not None
        ],
        "version": __version__,
        "exit_code": exit_code(found, strict),
    }


def _columns(fleet: Fleet) -> list[str]:
    """Each area once, as the hosts have them; what is told among hosts comes first."""
    seen = dict.fromkeys(f.name.partition(".")[0] for host in fleet.hosts for f in host.findings)
    return [AREA, *(key for key in seen if key != AREA)]


def _rows(fleet: Fleet, columns: Sequence[str], strict: bool, lang: str, made: datetime) -> Iterator[Row]:
    """In the hosts' order."""
    judged = {host.name: [*fleet.named.get(host.name, ()), *host.findings] for host in fleet.hosts}
    worst_first = sorted(judged, key=lambda name: -max(map(counted, judged[name]), default=Status.OK))
    with_page = set(worst_first[:PAGES_LIMIT])
    for number, host in enumerate(fleet.hosts):
        found = judged[host.name]
        at = f"host-{host.name}-" if re.fullmatch(r"[\w.-]+", host.name, re.ASCII) else f"other-{number}-"
        states = _states(found)
        shown = host.name in with_page
        cells = [Cell(states[key], key if shown else "") if key in states else None for key in columns]
        context = _page(host, found, strict, lang, made) if shown else None
        yield Row(safe(host.name), at, verdict(found).name.lower(), cells, context)


def _report(host: Host, found: Sequence[Finding], strict: bool, lang: str, made: datetime) -> Report:
    """The fleet's words on it stand beside those of its area of that name."""
    together = sorted(found, key=lambda f: not f.name.startswith(f"{AREA}."))
    return Report(together, host.facts or Facts(), strict, None, lang, made)


def _page(host: Host, found: Sequence[Finding], strict: bool, lang: str, made: datetime) -> dict[str, Any]:
    """What to do first is the host's own, where it has something: being unlike others often follows from it."""
    context = page._context(_report(host, found, strict, lang, made))
    own = _report(host, host.findings, strict, lang, made)
    if verdict(host.findings) is not Status.NOT_APPLICABLE:
        context["step"], _, context["command"] = page._next(own).partition("\n")
    return context


def _states(found: Sequence[Finding]) -> Mapping[str, str]:
    areas: dict[str, list[Finding]] = {}
    for f in found:
        areas.setdefault(f.name.partition(".")[0], []).append(f)
    return {key: area_state(some).name.lower() for key, some in areas.items()}


def _alike(one: Alike) -> Told:
    """Each wording with its hosts, where there are several."""
    wordings = [(safe(fold_hosts(hosts)), safe(seen)) for seen, hosts in one.seen.items()] if one.seen.keys() else []
    several = len(wordings) > 1
    return Told(page._shown(one.finding, {}), safe(fold_hosts(one.hosts)), wordings[:40] if several else [])
