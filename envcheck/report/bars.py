"""The host as the page draws it: a bar for its memory and for each disk, marked where a check finds it wanting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from envcheck.checks.host.engine import nearest_disk, root_folder
from envcheck.core.facts import Disk, Facts
from envcheck.core.model import Finding, Status
from envcheck.core.units import GIB, MIB
from envcheck.report.summary import counted, safe

DISKS_LIMIT = 8
MEMORY = ("host.memory", "job.host_memory")
SHARED = ("host.shm", "job.shm")
TOLD_BY_LEAST = (".", "home", "/")  # host.disk tells of the one with the least room


@dataclass(frozen=True)
class Bar:
    """A share of something: `percent` is filled, `text` says it in words, `state` is warn, fail or nothing."""

    name: str
    text: str
    percent: float
    state: str = ""


def bars(facts: Facts, findings: Sequence[Finding], said: Mapping[str, str]) -> Iterator[Bar]:
    """Memory of the host and room on its disks, as much as is told; `said` are the page's words."""
    places = {"home": said["place_home"], ".": said["place_here"]}
    host = facts.host
    if host and host.memory_total_bytes and host.memory_available_bytes is not None:
        used = host.memory_total_bytes - host.memory_available_bytes
        yield _bar(said["host_memory"], used, host.memory_total_bytes, _state(findings, MEMORY))
    for path, disk in list((facts.disks or {}).items())[:DISKS_LIMIT]:
        if disk.total_bytes and disk.free_bytes is not None:
            name, used = places.get(path, safe(path)), disk.total_bytes - disk.free_bytes
            yield _bar(name, used, disk.total_bytes, _state(findings, _judged_by(facts, path, disk)))


def _judged_by(facts: Facts, path: str, disk: Disk) -> Iterator[str]:
    """The checks that tell of this disk."""
    disks = facts.disks or {}
    room = [d.free_bytes for p, d in disks.items() if p in TOLD_BY_LEAST and d.free_bytes is not None]
    if path == "/dev/shm":
        yield from SHARED
    if path in TOLD_BY_LEAST and disk.free_bytes == min(room, default=None):
        yield "host.disk"
    if path == next((p for p in (".", "/") if p in disks), None):
        yield "job.disk"
    if path == nearest_disk(facts, root_folder(facts)):
        yield "engine.disk"


def _state(findings: Sequence[Finding], names: Iterator[str] | tuple[str, ...]) -> str:
    about = set(names)
    worst = max((counted(f) for f in findings if f.name in about), default=Status.OK)
    return worst.name.lower() if worst >= Status.WARN else ""


def _bar(name: str, used: int, total: int, state: str) -> Bar:
    unit, name_of_unit = (GIB, "GiB") if total >= GIB else (MIB, "MiB")
    text = f"{used / unit:,.1f} / {total / unit:,.1f} {name_of_unit}".replace(".0 ", " ")
    return Bar(name, text, round(min(100.0, max(0.0, 100 * used / total)), 1), state)
