"""The one door from checks to a report: findings, in the chosen language.  Checks know English alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envcheck.core import language
from envcheck.core.model import Finding, Remedy


def localised(findings: Sequence[Finding]) -> list[Finding]:
    """What a person reads of them; names, commands, sources and evidence stay as they are."""
    return list(findings) if language.chosen() == "en" else [_said(finding) for finding in findings]


def _said(f: Finding) -> Finding:
    remedy = Remedy(language.say(f.remedy.words), f.remedy.commands) if f.remedy else None
    details = tuple(map(_said, f.details))
    return replace(f, seen=language.say(f.seen), remedy=remedy, waived=_waived(f), details=details)


def _waived(f: Finding) -> str:
    """The reason is the site's own words."""
    it = f.accepted
    return language.say("until {}: {}").format(it.until, it.reason) if it else language.say(f.waived)
