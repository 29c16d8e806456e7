"""--waive NAME --because WHY: a person opens one gate, for one run, on the record.  Nothing opens all of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from envcheck.checks import CHECKS
from envcheck.core.errors import UsageError
from envcheck.core.model import Finding, Status
from envcheck.core.secrets import redact

LONGEST = 500  # characters of a reason
# Gates that nobody can open, and why.
FIRM: Mapping[str, str] = {
    "command": "what is not said cannot be started; --dry-run shows what is missing",
    "environment": "what is not installed cannot be started; --provision installs it",
    "container": "there is nowhere to start it",
    "folder": "the run has no place for its logs and its record; --runs names another",
    "doctor": "it stands for many checks: waive the one that failed, by its own name",
    "variables": "it never closes: left-over variables are left out",
    "bubble": "it never closes: it tells how long the cards wait",
}


@dataclass(frozen=True)
class GateWaiver:
    """`name` is a gate's, or that of one of doctor's checks."""

    name: str
    because: str

    def __str__(self) -> str:
        return f"{self.name}: {self.because}"


def asked(names: Sequence[str], reasons: Sequence[str], gates: Iterable[str]) -> tuple[GateWaiver, ...]:
    """The pairs, in the order in which they were given; UsageError for anything that opens nothing."""
    if len(names) != len(reasons):
        words = f"{len(names)} --waive beside {len(reasons)} --because"
        raise UsageError(words, 'each gate has its own reason: --waive NAME --because "..."')
    known = (*gates, *(check.name for check in CHECKS))
    made = tuple(GateWaiver(_name(name, known), _reason(why)) for name, why in zip(names, reasons, strict=True))
    for waiver in made:
        if [other.name for other in made].count(waiver.name) > 1:
            raise UsageError(f"--waive {waiver.name} is said twice", "say it once")
    return made


def _name(text: str, known: Sequence[str]) -> str:
    name = text.strip().removeprefix("gate.")
    if name in FIRM:
        raise UsageError(f"gate.{name} cannot be waived: {FIRM[name]}", "leave --waive out")
    if name not in known:
        near = difflib.get_close_matches(name, known, 1, 0.6)
        step = f"did you mean {near[0]}?" if near else "docs/train.md has the table of gates"
        raise UsageError(f"there is no gate {text[:60]!r}", step)
    return name


def _reason(text: str) -> str:
    said = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not said or len(said) > LONGEST:
        what = "says nothing" if not said else f"has more than {LONGEST} characters"
        raise UsageError(f"--because {what}", "who reads the record later wants to know why")
    return redact(said)


def names(shut: Iterable[Finding]) -> tuple[str, ...]:
    """What --waive would open of these closed gates; of gate.doctor the checks that failed."""
    found = []
    for finding in (f for f in shut if f.name.startswith("gate.")):  # the nodes' meeting closes as well
        name = finding.name.removeprefix("gate.")
        found += [line.partition(":")[0] for line in finding.evidence] if name == "doctor" else [name]
    return tuple(name for name in dict.fromkeys(found) if name not in FIRM)


def checks(found: Iterable[Finding], waivers: Sequence[GateWaiver]) -> tuple[Finding, ...]:
    """Doctor's findings, those that were waived as warnings."""
    return tuple(_opened(f, waivers, f.name) for f in found)


def gates(found: Iterable[Finding], waivers: Sequence[GateWaiver]) -> tuple[Finding, ...]:
    """The gates, those that were waived as warnings, with the reason."""
    return tuple(_opened(f, waivers, f.name.removeprefix("gate.")) for f in found)


def _opened(finding: Finding, waivers: Sequence[GateWaiver], name: str) -> Finding:
    why = next((waiver.because for waiver in waivers if waiver.name == name), None)
    if why is None or finding.status is not Status.FAIL:
        return finding
    return replace(finding, status=Status.WARN, seen=f"waived, since {why}: {finding.seen}")


def opened(before: Iterable[Finding], waivers: Sequence[GateWaiver]) -> tuple[str, ...]:
    """For the record: the waivers that opened something that was closed."""
    shut = {f.name.removeprefix("gate.") for f in before if f.status is Status.FAIL}
    return tuple(str(waiver) for waiver in waivers if waiver.name in shut)
