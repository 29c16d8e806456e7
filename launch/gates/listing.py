"""Text output of `envcheck train --gates`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envcheck.core import language
from envcheck.core.language import width
from envcheck.core.language.localized_findings import localize_findings
from envcheck.core.messages import Message, _, join, ngettext
from envcheck.core.model import Finding, Status
from envcheck.report import Style, safe


def render_gates(found: Sequence[Finding], style: Style) -> str:
    """Return a line per gate, evidence and remedy of those with problems, and the verdict."""
    lines = [line for finding in localize_findings([*_group_blocked(found)]) for line in _finding_lines(finding, style)]
    shown = "\n".join([*lines, "", *_wrap_text(language.translate(describe_verdict(found)), style, "", "  ")]) + "\n"
    return style.fit(shown)


def _group_blocked(found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings; those that were not checked are one line, after the gate that blocks them."""
    blocked: dict[str, list[Finding]] = {}
    for finding in found:
        if finding.status is Status.BLOCKED:
            blocked.setdefault(finding.blocked_by, []).append(finding)
    causes = {finding.name for finding in found}
    for finding in found:
        if finding.status is not Status.BLOCKED or finding.blocked_by not in causes:
            yield finding
            if mine := blocked.get(finding.name):
                names = join(", ", (each.name for each in mine))
                yield Finding(names, Status.BLOCKED, _("not checked because {cause} failed", cause=finding.name))


def _finding_lines(finding: Finding, style: Style) -> Iterator[str]:
    mark = style.render_mark(finding.status)
    first, *rest = _wrap_text(
        language.translate(_("{name}: {seen}", name=finding.name, seen=safe(finding.seen))), style, "    ", "      "
    )
    yield from (mark + first[3:], *rest)
    if not finding.status.is_problem:
        return
    for line in finding.evidence:
        yield from _wrap_text(safe(language.translate(line)), style, "      | ", "        ")
    if finding.remedy:
        words = f"{language.translate(finding.remedy.label)}{safe(finding.remedy.words)}"
        yield from _wrap_text(words, style, "      ", "        ")
        yield from (
            f"        $ {safe(command)}" for command in finding.remedy.commands
        )  # not wrapped, for copy and paste


def _wrap_text(words: str, style: Style, first: str, later: str) -> list[str]:
    return width.wrap_text(words, max(20, style.width - 1), first, later)


def describe_verdict(found: Sequence[Finding]) -> Message:
    """Return whether `envcheck train` would start, and how many gates failed or are unknown."""
    failed, unknown = (sum(f.status is s for f in found) for s in (Status.FAIL, Status.UNKNOWN))
    if failed:
        return ngettext(
            "{count} preflight check failed; `envcheck train` would not start the training.",
            "{count} preflight checks failed; `envcheck train` would not start the training.",
            failed,
        )
    if unknown:
        return ngettext(
            "No preflight check failed, {count} is unknown; `envcheck train` would report it and start, "
            "with --fail-on-unknown it would not.",
            "No preflight check failed, {count} are unknown; `envcheck train` would report them and start, "
            "with --fail-on-unknown it would not.",
            unknown,
        )
    return _("All preflight checks passed; `envcheck train` would start the training.")
