"""From the parts that checks yield to results: one for each check and vendor, or machine, with exactly one status."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from envcheck.core.model import Finding, Remedy, Status

Parts = Mapping[tuple[str, str], Sequence[Finding]]


def merge_parts(parts: Iterable[Finding]) -> list[Finding]:
    """One finding for each check and vendor, at the place of its first part: the worst part, the others as details."""
    groups = _group_parts(parts)
    return [group[0] if len(group) == 1 else _merge(group) for group in groups.values()]


def resolve_causes(parts: Sequence[Finding], selected: Collection[str]) -> list[Finding]:
    """The parts, where those that name a cause are BLOCKED by it if it failed.

    A cause is named by the check at the root of the chain, and is told once.  Where no cause failed, what was judged
    all the same stands as it is, and what could not be judged is UNKNOWN, or NOT_APPLICABLE as its cause is: BLOCKED,
    it would look as if somebody else told of it.
    """
    groups = _group_parts(parts)
    named: dict[str, list[tuple[str, Sequence[Finding]]]] = {}
    for (name, device), group in groups.items():
        named.setdefault(name, []).append((device, group))
    return [_resolve(part, named, selected) if part.blocked_by else part for part in parts]


def _group_parts(parts: Iterable[Finding]) -> dict[tuple[str, str], list[Finding]]:
    groups: dict[tuple[str, str], list[Finding]] = {}
    for part in parts:
        groups.setdefault((part.name, part.device), []).append(part)
    return groups


def _merge(group: Sequence[Finding]) -> Finding:
    """The first of the worst; max() takes the first of equals."""
    worst = max(group, key=lambda part: part.status)
    return replace(worst, details=tuple(part for part in group if part is not worst))


Named = Mapping[str, Sequence[tuple[str, Sequence[Finding]]]]


def _resolve(part: Finding, named: Named, selected: Collection[str]) -> Finding:
    root = _find_root(part, named)
    if part.status.is_problem:
        if root is None or root.status < part.status:
            return replace(part, blocked_by="")
        seen = f"{part.seen}; explained by {root.name}"
        return replace(part, status=Status.BLOCKED, seen=seen, remedy=None, blocked_by=root.name)
    if root is not None:
        return replace(part, seen=_join(part, f"not checked because {root.name} failed"), blocked_by=root.name)
    if part.blocked_by not in selected:
        remedy = Remedy("Select that check as well.", (f"envcheck doctor --only {part.blocked_by}",))
        seen = _join(part, f"not checked because {part.blocked_by} was not selected")
        return replace(part, status=Status.UNKNOWN, seen=seen, remedy=remedy, blocked_by="")
    if all(cause.status is Status.NOT_APPLICABLE for cause in _causes(part, named)):
        seen = _join(part, f"depends on {part.blocked_by}, which does not apply")
        return replace(part, status=Status.NOT_APPLICABLE, seen=seen, blocked_by="")
    seen = _join(part, f"cannot be checked, though {part.blocked_by} did not fail")
    return replace(part, status=Status.UNKNOWN, seen=seen, blocked_by="")


def _join(part: Finding, clause: str) -> str:
    return f"{part.seen}; {clause}" if part.seen else clause


def _find_root(part: Finding, named: Named, passed: frozenset[str] = frozenset()) -> Finding | None:
    """The worst of what failed first, through causes that are blocked themselves; None where none of them failed."""
    causes = _causes(part, named)
    failed = [cause for cause in causes if cause.status.is_problem and not cause.blocked_by]
    if not failed:
        further = (cause for cause in causes if cause.blocked_by and cause.blocked_by not in passed)
        roots = (_find_root(cause, named, passed | {part.blocked_by}) for cause in further)
        failed = [root for root in roots if root is not None]
    return max(failed, key=lambda cause: cause.status, default=None)


def _causes(part: Finding, named: Named) -> list[Finding]:
    """The parts of the check that is named: of the same vendor, or where either of the two is the machine's."""
    return [
        cause
        for device, group in named.get(part.blocked_by, ())
        if device == part.device or not device or not part.device
        for cause in group
    ]
