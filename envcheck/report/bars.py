"""The host's memory and file systems as a page draws them: a bar each, with what a check needs of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from envcheck.checks.host.engine import nearest_disk, root_folder
from envcheck.core.derived.file_systems import group_paths
from envcheck.core.facts import Facts
from envcheck.core.model import Finding, Status
from envcheck.core.units import GIB, MIB
from envcheck.report.summary import counted, safe
from envcheck.settings.thresholds import limit_bytes

DISKS_LIMIT = 8
MEMORY = "memory"


@dataclass(frozen=True)
class Bar:
    """A share of something: `percent` is used, `text` says in words what is free, `needs` what the checks ask for.

    `state` is warn, fail or nothing.
    """

    name: str
    text: str
    percent: float
    state: str = ""
    needs: str = ""


def bars(facts: Facts, findings: Sequence[Finding], words: Mapping[str, str]) -> list[Bar]:
    """Memory of the host and room on its file systems, as much as is known, the worst first.

    `words` are the page's.
    """
    return sorted(_bars(facts, findings, words), key=lambda bar: ("fail", "warn", "").index(bar.state))


def _bars(facts: Facts, findings: Sequence[Finding], words: Mapping[str, str]) -> Iterator[Bar]:
    for name, paths, free, total in _rooms(facts, words):
        about = [check for check, (path, _) in CHECKS.items() if path(facts) in paths]
        worst = max((counted(f) for f in findings if f.name in about), default=Status.OK)
        needed = max((CHECKS[check][1](facts) for check in about), default=0.0)
        unit, name_of_unit = (GIB, "GiB") if total >= GIB else (MIB, "MiB")
        text = f"{free / unit:,.1f} / {total / unit:,.1f} {name_of_unit}".replace(".0 ", " ")
        yield Bar(
            name,
            words["free"].format(text),
            round(min(100.0, max(0.0, 100 * (total - free) / total)), 1),
            worst.name.lower() if worst >= Status.WARN else "",
            words["needs"].format(f"{needed / GIB:,.4g} GiB") if needed else "",
        )


def _rooms(facts: Facts, words: Mapping[str, str]) -> Iterator[tuple[str, Sequence[str], int, int]]:
    """Name, paths, free and total bytes."""
    host, names = facts.host, {"home": words["place_home"], ".": words["place_here"]}
    if host and host.memory_total_bytes and host.memory_available_bytes is not None:
        yield words["host_memory"], (MEMORY,), host.memory_available_bytes, host.memory_total_bytes
    for paths, disk in group_paths(facts.disks or {})[:DISKS_LIMIT]:
        yield ", ".join(names.get(p, safe(p)) for p in paths), paths, disk.free_bytes or 0, disk.total_bytes or 0


def _fullest(facts: Facts) -> str | None:
    """host.disk is about the one with the least room."""
    found = {p: d.free_bytes for p in (".", "home", "/") if (d := (facts.disks or {}).get(p))}
    free = {path: n for path, n in found.items() if n is not None}
    return min(free, key=lambda path: free[path], default=None)


def _working_folder(facts: Facts) -> str | None:
    return next((p for p in (".", "/") if p in (facts.disks or {})), None)


def _of_cards(facts: Facts, threshold: str) -> float:
    """Shared memory and room for images are needs of a machine with cards."""
    return limit_bytes(facts, threshold) if facts.vendors else 0


def _of_job(facts: Facts, resource: str) -> float:
    """`resource` is the field of the named job's requirements, in GiB."""
    return (getattr(facts.wanted, resource, None) or 0) * GIB


# Check -> the path that it is about, and how many bytes it asks for, 0 where it asks for none.
CHECKS: dict[str, tuple[Callable[[Facts], str | None], Callable[[Facts], float]]] = {
    "host.memory": (lambda _: MEMORY, lambda facts: limit_bytes(facts, "host.memory.warn_gib")),
    "job.host_memory": (lambda _: MEMORY, lambda facts: _of_job(facts, "host_memory_gib")),
    "host.shm": (lambda _: "/dev/shm", lambda facts: _of_cards(facts, "host.shm.warn_gib")),
    "job.shm": (lambda _: "/dev/shm", lambda facts: _of_job(facts, "shm_gib")),
    "host.disk": (_fullest, lambda facts: limit_bytes(facts, "host.disk.warn_gib")),
    "job.disk": (_working_folder, lambda facts: _of_job(facts, "disk_gib")),
    "engine.disk": (
        lambda facts: nearest_disk(facts, root_folder(facts)),
        lambda facts: _of_cards(facts, "engine.disk.warn_gib"),
    ),
}
