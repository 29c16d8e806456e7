"""For people who prefer to look: one page that is whole in itself, of one machine as a picture, or of many hosts.

What a tool or a host says is text to the template, which escapes it; beside that the page forbids itself, by its
content security policy, to load anything or to run any script or style but its own two.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from envcheck.core.host_names import fold_hosts
from envcheck.core.version import __version__
from envcheck.report import page_hosts, palette
from envcheck.report.contents import HostReport, Report
from envcheck.report.page_machine import count_statuses, describe_host
from envcheck.report.page_words import WORDS, words
from envcheck.report.style import MARKS
from envcheck.report.summary import advise, exit_code, problems_once, safe, summary, verdict

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
MARK = {**{status.name.lower(): mark for status, mark in MARKS.items()}, "waived": "~"}


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
    """What the template needs for one host as for many; `host` is this machine, `hosts` the others' part."""
    found = [f for _, f in problems_once(report)] if report.local is None else report.findings
    step, command = advise(report)
    return {
        "lang": report.lang if report.lang in WORDS else "en",
        "w": SimpleNamespace(**words(report.lang)),
        "mark": MARK,
        "made": report.made,
        "state": verdict(report.findings).name.lower(),
        "says": summary(report.findings),
        "counts": count_statuses(found),
        "step": step,
        "command": command,
        "version": __version__,
        "exit_code": exit_code(report.findings, report.strict),
        "name": safe(fold_hosts(h.name for h in report.hosts)) if report.local is None else _host_name(report.local),
        "host": describe_host(report.local, report.lang) if report.local else None,
        "many": None if report.local else page_hosts.describe_hosts(report),
    }


def _host_name(host: HostReport) -> str:
    return safe((host.facts.host.hostname if host.facts.host else None) or "")
