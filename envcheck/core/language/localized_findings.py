"""Translates findings for a report; checks create them in English."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envcheck.core import language
from envcheck.core.messages import _, verbatim
from envcheck.core.model import Finding


def localize_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with translated messages; names, commands, sources and evidence are not translated."""
    return (
        list(findings) if language.current_language() == "en" else [_localize_finding(finding) for finding in findings]
    )


def _localize_finding(f: Finding) -> Finding:
    remedy = replace(f.remedy, words=verbatim(language.translate(f.remedy.words))) if f.remedy else None
    details = tuple(map(_localize_finding, f.details))
    return replace(
        f, seen=verbatim(language.translate(f.seen)), remedy=remedy, waived=_localize_waiver(f), details=details
    )


def _localize_waiver(f: Finding) -> str:
    """Return the waiver's text; the reason is the site's own and is not translated."""
    it = f.accepted
    if it is None:
        return language.translate(f.waived)
    return language.translate(_("until {date}: {reason}", date=it.until, reason=it.reason))
