"""Runs as a table, and one of them as a page, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from envcheck.core.language import label, say
from envcheck.core.language.width import columns, tidy
from envcheck.core.units import gib
from envcheck.core.version import SCHEMA_VERSION
from installers.recipes.catalogue import TALKS
from launch.logs.step import duration
from launch.run import run_text
from launch.runs.backends import find_backend, find_scheduler
from launch.runs.run_state import LOST, ORPHANED, Run

MEMORY = {"a card planned": "predicted", "measured": "measured"}
STATES = {
    LOST: "lost: its envcheck was killed, or the machine went down",
    ORPHANED: "orphaned: its envcheck was killed, its processes still run; envcheck runs stop ends them",
}


def as_json(runs: Sequence[Run]) -> str:
    return json.dumps({"schema": SCHEMA_VERSION, "runs": [_values(run) for run in runs]}, indent=1)


def _values(run: Run) -> dict[str, Any]:
    """What `show --json` has whole, in short."""
    keys = ("recipe", "model", "method", "device", "container", "started", "ended", "seconds", "exit")
    return {"id": run.id, "folder": str(run.folder), "state": run.state} | {key: run.said.get(key) for key in keys}


def as_table(runs: Sequence[Run], width: int) -> str:
    if not runs:
        return say("no runs yet; envcheck train starts one")
    heads = [label(head) for head in ("run", "state", "method", "for", "loss")]
    rows = [heads, *([r.id, label(r.state), r.text("method"), _long(r), _loss(r)] for r in runs)]
    return _aligned([[row[0], row[1], row[3]] for row in rows] if width < 80 else rows)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    told = [[printable(cell) for cell in row] for row in rows]
    wide = [max(map(columns, cells)) for cells in zip(*told, strict=True)]
    padded = [[cell + " " * (w - columns(cell)) for cell, w in zip(row, wide, strict=True)] for row in told]
    return "\n".join("  ".join(row).rstrip() for row in padded)


def as_page(run: Run, now: str = "") -> str:
    """Everything that a person asks first; the rest stands in the record.  `now` is where a run stands that goes on."""
    said = run.said
    status = said.get("exit") if isinstance(said.get("exit"), dict) else {}
    rows = [
        ("run", run.id),
        ("state", (say(STATES[run.state]) if run.state in STATES else label(run.state)) + _code(status)),
        (_verb(run), say("{} by {}, recipe {}").format(*map(run.text, ("model", "method", "recipe")))),
        ("on", run.text("device") + _inside(run.text("container"))),
        ("job", tidy(_job(run))),
        ("started", f"{run.text('started')}, {_long(run)}"),
        ("now", now),
        ("loss", _loss(run)),
        ("why", _why(said)),
        ("memory", _memory(said)),
        ("worker", _worker(said.get("first_failed_worker"))),
        _diagnosed(said),
        ("checkpoint", next(iter(_texts(said.get("checkpoints"))[-1:]), "")),
        ("waived", ", ".join(_texts(said.get("waived")))),
        ("record", str(run.folder / "run.json")),
        ("logs", str(run.folder if find_backend(run.said) else run.folder / "log")),
    ]
    return "\n".join(run_text.row(name, printable(text)) for name, text in rows if text)


def _verb(run: Run) -> str:
    return "talks with" if run.text("method") in TALKS else "trains"


def _inside(container: str) -> str:
    return say(", in the container {}").format(container) if container else ""


def _job(run: Run) -> str:
    """Where a scheduler has it, and how its nodes ended: 'job 12 has ended, COMPLETED; 2 nodes finished'"""
    scheduler = find_scheduler(run.said)
    if not scheduler:
        return ""
    states = scheduler.states(run)
    counts = {state: states.count(state) for state in states}
    told = [f"{n} {label('nodes' if n > 1 else 'node')} {label(state)}" for state, n in counts.items()]
    return say("; ").join([say(scheduler.standing(run)), *told])


def printable(text: str) -> str:
    """What a stranger's record says moves no cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _code(status: Any) -> str:
    known = isinstance(status, dict) and isinstance(status.get("code"), int)
    return say(" (exit {})").format(status["code"]) if known else ""


def _why(said: dict[str, Any]) -> str:
    error, rule = said.get("error"), said.get("stopped")
    if isinstance(rule, dict) and isinstance(rule.get("seen"), str):
        return f"{rule.get('name')}: {say(rule['seen'])}"
    return say(error) if isinstance(error, str) else ""


def _worker(worker: Any) -> str:
    """'1 failed first, ended by SIGKILL ...'"""
    if not isinstance(worker, dict):
        return ""
    code = worker.get("code")
    return say(f"{worker.get('rank')} failed first, {run_text.ended(code if isinstance(code, int) else None)}")


def _diagnosed(said: dict[str, Any]) -> tuple[str, str]:
    """The first diagnosis, called a cause where it is one."""
    told = said.get("diagnoses")
    first = told[0] if isinstance(told, list) and told and isinstance(told[0], dict) else {}
    text = first.get("says")
    return ("cause" if first.get("kind") == "cause" else "seen", say(text) if isinstance(text, str) else "")


def _memory(said: dict[str, Any]) -> str:
    """'a card planned 30.1 GiB, measured 28.2 GiB'"""
    memory = said.get("memory")
    told = [(word, memory.get(f"{key}_bytes")) for word, key in MEMORY.items()] if isinstance(memory, dict) else []
    known = [f"{label(word)} {gib(size)}" for word, size in told if isinstance(size, (int, float)) and size > 0]
    return say(", ").join(known)


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _long(run: Run) -> str:
    seconds = run.said.get("seconds")
    if isinstance(seconds, (int, float)):
        return duration(seconds)
    began = _time(run.text("started"))
    return duration((datetime.now(timezone.utc) - began).total_seconds()) if run.running and began else "?"


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


def _loss(run: Run) -> str:
    """From the first step to the last one, where the record holds them."""
    loss = run.said.get("loss")
    points = [p for p in loss if isinstance(p, list) and len(p) == 2] if isinstance(loss, list) else []
    values = [p[1] for p in points if isinstance(p[1], (int, float))]
    made = _number(points[-1][0]) or len(points) if points else 0  # a program may tell every tenth step alone
    counted = say("{}, {} steps" if made != 1 else "{}, {} step")
    return counted.format(f"{values[0]:.3f} -> {values[-1]:.3f}", made) if values else ""


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
