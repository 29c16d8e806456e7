"""Merge the parts that checks yield into results: one per check and vendor (or machine), with exactly one status."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from envcheck.core.messages import Message, _
from envcheck.core.model import Finding, Status, diagnose

Parts = Mapping[tuple[str, str], Sequence[Finding]]


def merge_parts(parts: Iterable[Finding]) -> list[Finding]:
    """Return one finding per check and vendor, in place of its first part: the worst part, the others as details."""
    groups = _group_parts(parts)
    return [group[0] if len(group) == 1 else _merge_group(group) for group in groups.values()]


def resolve_causes(parts: Sequence[Finding], selected: Collection[str]) -> list[Finding]:
    """Return the parts; those that name a cause are BLOCKED by it if it failed.

    The check at the root of the chain is named.  If no cause failed, a part that was evaluated keeps its status; a part
    that could not be evaluated is UNKNOWN, or NOT_APPLICABLE if its cause is: BLOCKED would suggest that another
    finding reports it.
    """
    groups = _group_parts(parts)
    named: dict[str, list[tuple[str, Sequence[Finding]]]] = {}
    for (name, device), group in groups.items():
        named.setdefault(name, []).append((device, group))
    return [_resolve_part(part, named, selected) if part.blocked_by else part for part in parts]


def _group_parts(parts: Iterable[Finding]) -> dict[tuple[str, str], list[Finding]]:
    groups: dict[tuple[str, str], list[Finding]] = {}
    for part in parts:
        groups.setdefault((part.name, part.device), []).append(part)
    return groups


def _merge_group(group: Sequence[Finding]) -> Finding:
    """The first of the worst parts: max() returns the first of equals."""
    worst = max(group, key=lambda part: part.status)
    return replace(worst, details=tuple(part for part in group if part is not worst))


PartsByCheck = Mapping[str, Sequence[tuple[str, Sequence[Finding]]]]


def _resolve_part(part: Finding, named: PartsByCheck, selected: Collection[str]) -> Finding:
    root = _find_root(part, named)
    if part.status.is_problem:
        if root is None or root.status < part.status:
            return replace(part, blocked_by="")
        seen = _("{seen}; caused by {name}", seen=part.seen, name=root.name)
        return replace(part, status=Status.BLOCKED, seen=seen, remedy=None, blocked_by=root.name)
    if root is not None:
        return replace(
            part,
            seen=_append_clause(part, _("not checked because of {name}", name=root.name)),
            blocked_by=root.name,
        )
    if part.blocked_by not in selected:
        remedy = diagnose(_("Run that check as well."), f"envcheck doctor --only {part.blocked_by}")
        seen = _append_clause(part, _("not checked because {blocked_by} was not selected", blocked_by=part.blocked_by))
        return replace(part, status=Status.UNKNOWN, seen=seen, remedy=remedy, blocked_by="")
    if all(cause.status is Status.NOT_APPLICABLE for cause in _find_causes(part, named)):
        seen = _append_clause(part, _("depends on {blocked_by}, which does not apply", blocked_by=part.blocked_by))
        return replace(part, status=Status.NOT_APPLICABLE, seen=seen, blocked_by="")
    seen = _append_clause(part, _("cannot determine, although {blocked_by} did not fail", blocked_by=part.blocked_by))
    return replace(part, status=Status.UNKNOWN, seen=seen, blocked_by="")


def _append_clause(part: Finding, clause: Message) -> Message:
    return _("{seen}; {clause}", seen=part.seen, clause=clause) if part.seen else clause


def _find_root(part: Finding, named: PartsByCheck, passed: frozenset[str] = frozenset()) -> Finding | None:
    """The worst of the first failures, through causes that are blocked themselves; None if none failed."""
    causes = _find_causes(part, named)
    failed = [cause for cause in causes if cause.status.is_problem and not cause.blocked_by]
    if not failed:
        further = (cause for cause in causes if cause.blocked_by and cause.blocked_by not in passed)
        roots = (_find_root(cause, named, passed | {part.blocked_by}) for cause in further)
        failed = [root for root in roots if root is not None]
    return max(failed, key=lambda cause: cause.status, default=None)


def _find_causes(part: Finding, named: PartsByCheck) -> list[Finding]:
    """The parts of the named check: of the same vendor, or any if one of the two concerns the machine."""
    return [
        cause
        for device, group in named.get(part.blocked_by, ())
        if device == part.device or not device or not part.device
        for cause in group
    ]
