"""`envcheck train --gates`: every gate with what it saw, for a person; the verdict and the exit code are doctor's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envcheck.core import language
from envcheck.core.language import width
from envcheck.core.language.findings import localised
from envcheck.core.model import Finding, Status
from envcheck.report import Style, safe


def text(found: Sequence[Finding], style: Style) -> str:
    """A line for each gate, and below it what opens one that is not open."""
    lines = [line for finding in localised(found) for line in _lines(finding, style)]
    shown = "\n".join([*lines, "", *_wrapped(language.say(verdict(found)), style, "", "  ")]) + "\n"
    return shown if style.unicode else shown.encode("ascii", "replace").decode()


def _lines(finding: Finding, style: Style) -> Iterator[str]:
    mark = style.mark(finding.status)
    first, *rest = _wrapped(f"{finding.name}: {safe(finding.seen)}", style, "    ", "      ")
    yield from (mark + first[3:], *rest)
    if not finding.status.is_problem:
        return
    for line in finding.evidence:
        yield from _wrapped(safe(line), style, "      | ", "        ")
    if finding.remedy:
        words = f"{language.say('next: ')}{safe(finding.remedy.words)}"
        yield from _wrapped(words, style, "      ", "        ")
        yield from (f"        $ {safe(command)}" for command in finding.remedy.commands)  # never wrapped: for pasting


def _wrapped(words: str, style: Style, first: str, later: str) -> list[str]:
    return width.wrap(words, max(20, style.width - 1), first, later)


def verdict(found: Sequence[Finding]) -> str:
    """Whether train would start."""
    shut, untold = (sum(f.status is s for f in found) for s in (Status.FAIL, Status.UNKNOWN))
    if shut:
        return f"{shut} {'gate is' if shut == 1 else 'gates are'} closed: envcheck train would start nothing."
    if untold:
        return f"No gate is closed, and of {untold} nobody can tell: envcheck train would say so and start."
    return "Every gate is open: envcheck train would start."
