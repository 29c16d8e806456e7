"""What all reports say alike: the verdict, the exit code, the one next step, names of areas, and text made harmless."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from envcheck.core.errors import FIT, UNFIT, UNTOLD
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.language import say
from envcheck.core.language.width import tidy
from envcheck.core.model import Finding, Remedy, Status
from envcheck.core.text import plain
from envcheck.report.style import Style

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
    "deep": "Active tests",
    "own": "Your own checks",
    "fleet": "Among the hosts",
}
# Checks that block others come first.
ROOTS = ("driver.tool", "driver.whole_answer", "job.device", "devices.present", "engine.reachable")
_SENTENCE = re.compile(r".*?(?:[.](?=\s|$)|。)|.+")
# Bidirectional overrides can make text read as what it is not; the rest of what is not printable goes by isprintable.
_BIDI = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class NextCommand:
    """What to do where nothing is amiss: in words, and as a command that works as it stands on that machine."""

    words: str = "See which recipe fits this machine:"
    command: str = "envcheck recipes"


@dataclass(frozen=True)
class Report:
    """All that a format may want: `style` is the terminal's, `lang` of the words around the findings, `made` when.

    `job` is the document of the named job, None without one; `assumed_host` says for which other host it is resolved.
    `next_command` is for a machine on which nothing is amiss.
    """

    findings: Sequence[Finding]
    facts: Facts
    strict: bool = False
    style: Style | None = None
    lang: str = "en"
    made: datetime | None = None
    job: Mapping[str, Any] | None = None
    assumed_host: str = ""
    next_command: NextCommand = NextCommand()


def verdict(findings: Iterable[Finding]) -> Status:
    """The worst; what is blocked counts with its cause.  NOT_APPLICABLE when no check applied."""
    statuses = {counted(f) for f in findings}
    if statuses <= {Status.NOT_APPLICABLE}:
        return Status.NOT_APPLICABLE
    return max(statuses - {Status.NOT_APPLICABLE, Status.BLOCKED} or {Status.UNKNOWN})


def exit_code(findings: Sequence[Finding], strict: bool = False) -> int:
    """0 fit; 1 a check failed; 3 none failed but one, or all, could not be determined, or with `strict` warns."""
    worst = verdict(findings)
    if worst is Status.FAIL:
        return UNFIT
    untold = worst in (Status.NOT_APPLICABLE, Status.UNKNOWN) or any(counted(f) is Status.UNKNOWN for f in findings)
    return UNTOLD if untold or (strict and worst is Status.WARN) else FIT


def counted(finding: Finding) -> Status:
    """What it counts as: a finding that a person has accepted counts as well."""
    return Status.OK if finding.waived else finding.status


def group_blocked(findings: Iterable[Finding]) -> dict[str, list[str]]:
    """Which checks are blocked, by the name of the check that failed first: a cause is told once."""
    found: dict[str, list[str]] = {}
    for finding in findings:
        if finding.status is Status.BLOCKED:
            for cause in blocking(finding):
                found.setdefault(cause, []).append(safe(finding.name))
    return {cause: list(dict.fromkeys(names)) for cause, names in found.items()}


def blocking(finding: Finding) -> list[str]:
    """The checks that block it, the first of them first; none where it is not blocked."""
    if finding.status is not Status.BLOCKED:
        return []
    return list(dict.fromkeys(part.blocked_by for part in (finding, *finding.details) if part.blocked_by))


def problems(finding: Finding) -> list[Finding]:
    """What is amiss, each part of it with the check's own status; nothing where all is well."""
    parts = (replace(finding, details=()), *finding.details) if finding.details else (finding,)
    return [replace(part, status=finding.status) for part in parts if part.status.is_problem]


def next_step(findings: Sequence[Finding]) -> str:
    """The one thing to do first: what the worst finding advises, in a sentence, and its first command."""
    worst = worst_first(findings)
    if not worst:
        return ""
    remedy = worst[0].remedy or Remedy(say(f"Look at {safe(worst[0].name)}."))
    words = _SENTENCE.match(safe(remedy.words))
    said = words[0].rstrip(".: 。：") if words else say("Look")
    return f"{said}{say(':')}\n{safe(remedy.commands[0])}" if remedy.commands else f"{said}{say('.')}"


def next_line(findings: Sequence[Finding]) -> str:
    """The next step with its command in one line, for programs."""
    return tidy(next_step(findings).replace("\n", " "))


def summary(findings: Sequence[Finding]) -> str:
    """The verdict in a sentence; a warning beside something untold is no "fit"."""
    worst = verdict(findings)
    unknown = sum(counted(f) is Status.UNKNOWN for f in findings)
    if worst < Status.FAIL and unknown:
        return say(f"No failures, but {unknown} {'check' if unknown == 1 else 'checks'} could not run.")
    return say(VERDICTS[worst])


def aside(text: str) -> str:
    """In brackets, behind a sentence."""
    return f"{say(' (')}{text}{say(')')}"


def title(area: str) -> str:
    return say(TITLES[area]) if area in TITLES else safe(area)


def counts(findings: Iterable[Finding]) -> str:
    """As in 45 passed, 3 warnings, 1 failed, 6 not checked, 12 not applicable, 1 waived."""
    found = list(findings)
    told = {s: sum(f.status is s and not f.waived for f in found) for s in Status}
    words = [say(f"{told[s]} {word if told[s] == 1 else words}") for s, (word, words) in COUNTED.items() if told[s]]
    waived = sum(bool(f.waived) for f in found)
    return say(", ").join(words + [say(f"{waived} waived")] * bool(waived))


def safe(text: str) -> str:
    """One line without control characters, cut to a bounded length."""
    flat = _BIDI.sub("", plain(text[: 8 * TEXT_LIMIT])).replace("\t", " ")
    return "".join(c if c.isprintable() else " " for c in flat).strip()[:TEXT_LIMIT]


def head(facts: Facts) -> str:
    host = facts.host
    cards = [_cards(v) for v in facts.vendors]
    where = say(f"envcheck doctor on {host.hostname}") if host and host.hostname else "envcheck doctor"
    job = say(f", for {facts.wanted.recipe} {facts.wanted.method}") if facts.wanted else ""
    return safe(f"{where}{say(': ')}{say(', ').join(cards) or say('no accelerator, examined as cpu')}{job}")


def _cards(v: VendorFacts) -> str:
    name = say(v.vendor.title)
    if v.devices:
        return f"{len(v.devices)} × {name}"
    return say(f"{name} ({len(v.pci)} on the bus)") if v.pci else name


COUNTED = {
    Status.OK: ("passed", "passed"),
    Status.WARN: ("warning", "warnings"),
    Status.FAIL: ("failed", "failed"),
    Status.UNKNOWN: ("unknown", "unknown"),
    Status.BLOCKED: ("not checked", "not checked"),
    Status.NOT_APPLICABLE: ("not applicable", "not applicable"),
}
VERDICTS = {
    Status.OK: "Fit to train.",
    Status.NOT_APPLICABLE: "No check applies here.",
    Status.UNKNOWN: "The checks could not run.",
    Status.WARN: "Fit to train, with warnings.",
    Status.FAIL: "Not fit to train.",
}


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    wrong = [f for f in findings if counted(f).is_problem]
    return sorted(wrong, key=lambda f: (-f.status, f.name not in ROOTS, f.remedy is None))
