"""--waive NAME --because REASON: skip one gate for one run, with a recorded reason; there is no way to skip all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from envcheck.checks import CHECKS
from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.model import Finding, Status
from envcheck.core.secrets import redact_text

MAX_REASON = 500  # characters
# Gates that cannot be waived, and why.
NEVER_WAIVED: Mapping[str, str] = {
    "command": _("the command is incomplete; --dry-run shows what is missing"),
    "environment": _("the software is not installed; --provision installs it"),
    "container": _("the container to start it in is not available"),
    "folder": _("the run cannot write its logs and record; choose another folder with --runs"),
    "doctor": _("it summarizes many checks; waive the failed one by its name"),
    "variables": _("it never fails; left-over variables are only removed"),
    "bubble": _("it never fails; it only reports how long the cards are idle"),
}


@dataclass(frozen=True)
class GateWaiver:
    """A waiver for a gate or a check of doctor, with its reason."""

    name: str
    because: str

    def __str__(self) -> str:
        return _("{name}: {because}", name=self.name, because=self.because)


def parse_waivers(names: Sequence[str], reasons: Sequence[str], gates: Iterable[str]) -> tuple[GateWaiver, ...]:
    """Return the waivers in the given order; UsageError for unknown names and missing reasons."""
    if len(names) != len(reasons):
        words = _("each --waive needs one --because; got {names} and {reasons}", names=len(names), reasons=len(reasons))
        raise UsageError(words, _('give one reason per waiver: --waive NAME --because "..."'))
    known = (*gates, *(check.name for check in CHECKS))
    made = tuple(
        GateWaiver(_check_name(name, known), _clean_reason(why)) for name, why in zip(names, reasons, strict=True)
    )
    for waiver in made:
        if [other.name for other in made].count(waiver.name) > 1:
            raise UsageError(_("--waive {name} is given twice", name=waiver.name), _("use only one of them"))
    return made


def _check_name(text: str, known: Sequence[str]) -> str:
    name = text.strip().lower().removeprefix("gate.")
    if name in NEVER_WAIVED:
        raise UsageError(
            _("gate.{name} cannot be waived: {firm}", name=name, firm=NEVER_WAIVED[name]), _("remove --waive")
        )
    if name not in known:
        step = suggestions.suggest(
            name, known, _("list the preflight checks of the job with `envcheck train ... --gates`")
        )
        raise UsageError(_("unknown preflight check {text!r}", text=text[:60]), step)
    return name


def _clean_reason(text: str) -> str:
    said = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not said or len(said) > MAX_REASON:
        what = (
            _("--because is longer than {longest} characters", longest=MAX_REASON) if said else _("--because is empty")
        )
        raise UsageError(what, _("state the reason for the record"))
    return redact_text(said)


def list_waivable_names(shut: Iterable[Finding]) -> tuple[str, ...]:
    """Return the names for --waive of these failed gates; for gate.doctor those of its failed checks."""
    found = []
    for finding in (f for f in shut if f.name.startswith("gate.")):  # findings of the rendezvous cannot be waived
        name = finding.name.removeprefix("gate.")
        found += [each.name for each in finding.details] if name == "doctor" else [name]
    return tuple(name for name in dict.fromkeys(found) if name not in NEVER_WAIVED)


def waive_checks(found: Iterable[Finding], waivers: Sequence[GateWaiver]) -> tuple[Finding, ...]:
    """Return doctor's findings, with waived failures as warnings."""
    return tuple(_waive_finding(f, waivers, f.name) for f in found)


def waive_gates(found: Iterable[Finding], waivers: Sequence[GateWaiver]) -> tuple[Finding, ...]:
    """Return the gates' findings, with waived failures as warnings that state the reason."""
    return tuple(_waive_finding(f, waivers, f.name.removeprefix("gate.")) for f in found)


def _waive_finding(finding: Finding, waivers: Sequence[GateWaiver], name: str) -> Finding:
    why = next((waiver.because for waiver in waivers if waiver.name == name), None)
    if why is None or finding.status is not Status.FAIL:
        return finding
    return replace(finding, status=Status.WARN, seen=_("waived ({why}): {seen}", why=why, seen=finding.seen))


def list_effective_waivers(before: Iterable[Finding], waivers: Sequence[GateWaiver]) -> tuple[str, ...]:
    """Return the waivers that apply to a failed finding, as text for the record."""
    shut = {f.name.removeprefix("gate.") for f in before if f.status is Status.FAIL}
    return tuple(str(waiver) for waiver in waivers if waiver.name in shut)
