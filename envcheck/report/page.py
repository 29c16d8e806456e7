"""The HTML page: self-contained, of one machine with its devices, or of many hosts.

The template escapes all output of tools and hosts.  In addition, the page's content security policy forbids external
resources, and any script or style but its own two.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from envcheck.core.host_names import name_hosts
from envcheck.core.language import translate
from envcheck.core.version import __version__
from envcheck.report import page_hosts, page_labels, palette
from envcheck.report.contents import DoctorReport, HostReport
from envcheck.report.page_machine import count_statuses, describe_host
from envcheck.report.style import MARKS
from envcheck.report.summary import (
    choose_advice,
    decide_verdict,
    exit_code,
    list_distinct_problems,
    safe,
    summarise_findings,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
MARK = {**{status.name.lower(): mark for status, mark in MARKS.items()}, "waived": "~"}


def render(report: DoctorReport) -> str:
    """Return the report as one HTML page."""
    environment = _make_environment()
    style = environment.get_template("page.css").render(
        light=palette.LIGHT, dark=palette.DARK, states=palette.STATES, links=palette.LINKS
    )
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    page = environment.get_template("page.html").render(
        **_build_context(report),
        style=_mark_safe(style),
        script=_mark_safe(script),
        style_hash=_hash_source(style),
        script_hash=_hash_source(script),
    )
    return page + "\n"


def _mark_safe(text: str) -> Markup:
    """Do not escape: the text comes from our own files, and from nowhere else."""
    from markupsafe import Markup

    return Markup(text)


@lru_cache(maxsize=1)
def _make_environment() -> Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=lambda name: name is None or name.endswith(".html"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _hash_source(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _build_context(report: DoctorReport) -> dict[str, Any]:
    """The values of the template; `host` is the local machine, `hosts` the part about several hosts."""
    found = [f for _, f in list_distinct_problems(report)] if report.local_host is None else report.findings
    step, command = choose_advice(report)
    return {
        "lang": report.lang,
        "w": SimpleNamespace(**page_labels.get_labels()),
        "counted": page_labels.counted,
        "of_all": page_labels.of_all,
        "pill": page_labels.pill,
        "mark": MARK,
        "made": report.made,
        "state": decide_verdict(report.findings).name.lower(),
        "says": summarise_findings(report.findings),
        "counts": count_statuses(found),
        "step": step,
        "command": command,
        "version": __version__,
        "exit_code": exit_code(report.findings, report.strict),
        "name": safe(translate(name_hosts(h.name for h in report.hosts)))
        if report.local_host is None
        else _get_host_name(report.local_host),
        "host": describe_host(report.local_host) if report.local_host else None,
        "many": None if report.local_host else page_hosts.describe_hosts(report),
    }


def _get_host_name(host: HostReport) -> str:
    return safe((host.facts.host.hostname if host.facts.host else None) or "")
