"""Memory and file systems of the host as bars of the HTML page, with the space that checks require."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from envcheck.checks.host.container_engine import engine_root_folder, find_nearest_disk
from envcheck.core.derived.file_systems import group_paths
from envcheck.core.facts import Facts
from envcheck.core.model import Finding, Status
from envcheck.core.units import GIB, MIB
from envcheck.report.summary import effective_status, safe
from envcheck.settings.thresholds import threshold_bytes

DISKS_LIMIT = 8
MEMORY = "memory"


@dataclass(frozen=True)
class Bar:
    """`percent` is the used share, `text` the free space in words, `needs` what the checks require.

    `state` is warn, fail or empty.
    """

    name: str
    text: str
    percent: float
    state: str = ""
    needs: str = ""


def build_bars(facts: Facts, findings: Sequence[Finding], words: Mapping[str, str]) -> list[Bar]:
    """Return bars for the host memory and its known file systems, the worst first.

    `words` are the labels of the page.
    """
    return sorted(_list_bars(facts, findings, words), key=lambda bar: ("fail", "warn", "").index(bar.state))


def _list_bars(facts: Facts, findings: Sequence[Finding], words: Mapping[str, str]) -> Iterator[Bar]:
    for name, paths, free, total in _list_storage(facts, words):
        about = [check for check, (path, _) in CHECKS.items() if path(facts) in paths]
        worst = max((effective_status(f) for f in findings if f.name in about), default=Status.OK)
        needed = max((CHECKS[check][1](facts) for check in about), default=0.0)
        unit, name_of_unit = (GIB, "GiB") if total >= GIB else (MIB, "MiB")
        text = f"{free / unit:,.1f} / {total / unit:,.1f} {name_of_unit}".replace(".0 ", " ")
        yield Bar(
            name,
            words["free"].format(figure=text),
            round(min(100.0, max(0.0, 100 * (total - free) / total)), 1),
            worst.name.lower() if worst >= Status.WARN else "",
            words["needs"].format(figure=f"{needed / GIB:,.4g} GiB") if needed else "",
        )


def _list_storage(facts: Facts, words: Mapping[str, str]) -> Iterator[tuple[str, Sequence[str], int, int]]:
    """Name, paths, free and total bytes."""
    host, names = facts.host, {"home": words["place_home"], ".": words["place_here"]}
    if host and host.memory_total_bytes and host.memory_available_bytes is not None:
        yield words["host_memory"], (MEMORY,), host.memory_available_bytes, host.memory_total_bytes
    for paths, disk in group_paths(facts.disks or {})[:DISKS_LIMIT]:
        listed = words["comma"].join(names.get(p, safe(p)) for p in paths)
        yield listed, paths, disk.free_bytes or 0, disk.total_bytes or 0


def _find_fullest_disk(facts: Facts) -> str | None:
    """The disk that host.disk is about: the one with the least free space."""
    found = {p: d.free_bytes for p in (".", "home", "/") if (d := (facts.disks or {}).get(p))}
    free = {path: n for path, n in found.items() if n is not None}
    return min(free, key=lambda path: free[path], default=None)


def _find_working_folder(facts: Facts) -> str | None:
    return next((p for p in (".", "/") if p in (facts.disks or {})), None)


def _get_card_need(facts: Facts, threshold: str) -> float:
    """Shared memory and image space matter only on a machine with accelerators."""
    return threshold_bytes(facts, threshold) if facts.vendors else 0


def _get_job_need(facts: Facts, resource: str) -> float:
    """`resource` is the field of the job's requirements, in GiB."""
    return (getattr(facts.wanted, resource, None) or 0) * GIB


# Check -> its path, and the bytes that it requires, 0 for none
CHECKS: dict[str, tuple[Callable[[Facts], str | None], Callable[[Facts], float]]] = {
    "host.memory": (lambda _: MEMORY, lambda facts: threshold_bytes(facts, "host.memory.warn_gib")),
    "job.host_memory": (lambda _: MEMORY, lambda facts: _get_job_need(facts, "host_memory_gib")),
    "host.shm": (lambda _: "/dev/shm", lambda facts: _get_card_need(facts, "host.shm.warn_gib")),
    "job.shm": (lambda _: "/dev/shm", lambda facts: _get_job_need(facts, "shm_gib")),
    "host.disk": (_find_fullest_disk, lambda facts: threshold_bytes(facts, "host.disk.warn_gib")),
    "job.disk": (_find_working_folder, lambda facts: _get_job_need(facts, "disk_gib")),
    "engine.disk": (
        lambda facts: find_nearest_disk(facts, engine_root_folder(facts)),
        lambda facts: _get_card_need(facts, "engine.disk.warn_gib"),
    ),
}
