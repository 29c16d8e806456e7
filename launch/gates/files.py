"""Disk and files."""

from __future__ import annotations

from collections.abc import Callable

from envcheck.model import Finding, Remedy, Severity
from envcheck.units import GIB, MIB, gib
from launch.command import Command
from launch.gates.answers import answer
from launch.situation import Situation

OUTPUT_BYTES = 200 * MIB  # logs, record and checkpoints of the smallest model, with room to spare


def disk(s: Situation) -> Finding:
    """Room for logs, checkpoints and the record."""
    wants = max(OUTPUT_BYTES, int((s.job.disk_gib or 0) * GIB))
    has = s.sight.free_bytes
    seen = f"{'unknown' if has is None else gib(has)} free at {s.runs}, the run wants {gib(wants)}"
    words = "Make room, or name another folder with --runs."
    return answer("gate.disk", None if has is None else has >= wants, seen, words, f"df -h {s.runs}")


def data(s: Situation) -> Finding:
    """Every file that the job reads is there and holds something."""
    if s.stage.container and (s.sight.missing or s.sight.obstacle):
        words = "They are wanted in the recipe's container: look again when it is there."
        return Finding("gate.data", Severity.UNKNOWN, f"{s.stage.container} is not there to look into", Remedy(words))
    missing = [path for path, size in s.sight.sizes.items() if not size]
    if not missing:
        return Finding("gate.data", Severity.OK, ", ".join(s.sight.sizes) or "the job names no files")
    where = f" in {s.stage.container}" if s.stage.container else ""
    place = f"{s.command.workdir or 'here'}{where}"
    seen = f"missing or empty: {len(missing)} of {len(s.sight.sizes)} files, seen from {place}"
    lines = (f"{p} {'is not there or not readable' if s.sight.sizes[p] is None else 'is empty'}" for p in missing)
    words = " ".join(words for words, of in _SOURCES if any(of(s.command, path) for path in missing))
    return Finding("gate.data", Severity.FAIL, seen, Remedy(words), tuple(lines))


_SOURCES: tuple[tuple[str, Callable[[Command, str], bool]], ...] = (
    ("The scripts come with the vendor's toolkit: install it.", lambda made, path: path in made.scripts),
    ("Fetch the model from its hub into that folder.", lambda made, path: path.endswith("/config.json")),
    ("Put the data there, or name others with --data.", lambda made, path: path in made.data and made.own_data),
    ("Put the data there.", lambda made, path: path in made.data and not made.own_data),
    (
        "The rest comes with the project: envcheck provision --dry-run shows how to get it.",
        lambda made, path: path not in (*made.scripts, *made.data) and not path.endswith("/config.json"),
    ),
)
