"""What all reports say alike: the verdict, the exit code, the one next step, names of areas, and text made harmless."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from envcheck.errors import FIT, UNFIT, UNTOLD
from envcheck.model import Facts, Finding, Remedy, Severity, VendorFacts
from envcheck.vendors import VENDORS
from probes.text import plain

TEXT_LIMIT = 400
TITLES = {
    "driver": "Driver and tool",
    "devices": "Devices",
    "links": "Links between devices",
    "toolkit": "Toolkit",
    "network": "Network",
    "host": "Host",
    "engine": "Container engine",
    "python": "Python and packages",
    "job": "This job",
}
# Causes that others follow from come first.
ROOTS = ("driver.tool", "driver.whole_answer", "job.device", "devices.present", "engine.reachable")
_SENTENCE = re.compile(r".*?[.](?=\s|$)|.+")
# Bidirectional overrides can make text read as what it is not; the rest of what is not printable goes by isprintable.
_BIDI = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def verdict(findings: Iterable[Finding]) -> Severity:
    """The worst; what does not apply says nothing beside what was judged.  SKIP when nothing was."""
    severities = {f.severity for f in findings}
    return max(severities - {Severity.SKIP} or {Severity.SKIP})


def exit_code(findings: Sequence[Finding], strict: bool = False) -> int:
    """0 fit; 1 something fails; 3 nothing fails but something could not be told, or with `strict` warns."""
    worst = verdict(findings)
    if worst is Severity.FAIL:
        return UNFIT
    untold = any(f.severity is Severity.UNKNOWN for f in findings)
    return UNTOLD if untold or (strict and worst is Severity.WARN) else FIT


def next_step(findings: Sequence[Finding]) -> str:
    """The one thing to do first: what the worst finding advises, in a sentence, and its first command."""
    worst = worst_first(findings)
    if not worst:
        return ""
    remedy = worst[0].remedy or Remedy(f"Look at {worst[0].name}.")
    words = _SENTENCE.match(safe(remedy.words))
    said = words[0].rstrip(".: ") if words else "Look"
    return f"{said}:\n{safe(remedy.commands[0])}" if remedy.commands else f"{said}."


def safe(text: str) -> str:
    """One line without control characters, cut to a bounded length."""
    flat = _BIDI.sub("", plain(text)).replace("\t", " ")
    return "".join(c if c.isprintable() else " " for c in flat).strip()[:TEXT_LIMIT]


def head(facts: Facts) -> str:
    host = facts.host
    cards = [_cards(v) for v in facts.vendors]
    where = f" on {host.hostname}" if host and host.hostname else ""
    job = f", for {facts.wanted.recipe} {facts.wanted.method}" if facts.wanted else ""
    return safe(f"envcheck doctor{where}: {', '.join(cards) or 'no accelerator, examined as cpu'}{job}")


def _cards(v: VendorFacts) -> str:
    if v.devices:
        return f"{len(v.devices)} × {VENDORS[v.name].title}"
    return f"{VENDORS[v.name].title} ({len(v.pci)} on the bus)" if v.pci else VENDORS[v.name].title


COUNTED = {
    Severity.OK: ("ok", "ok"),
    Severity.WARN: ("warning", "warnings"),
    Severity.FAIL: ("failure", "failures"),
    Severity.UNKNOWN: ("not told", "not told"),
}
VERDICTS = {
    Severity.OK: "Fit to train.",
    Severity.SKIP: "Nothing was judged.",
    Severity.UNKNOWN: "Nothing fails, but something could not be told.",
    Severity.WARN: "Fit to train, with warnings.",
    Severity.FAIL: "Not fit to train.",
}


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    wrong = [f for f in findings if f.severity >= Severity.UNKNOWN]
    return sorted(wrong, key=lambda f: (-f.severity, f.name not in ROOTS, f.remedy is None))
