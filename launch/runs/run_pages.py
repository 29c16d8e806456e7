"""Output of `envcheck runs`: table of runs, page of a run, JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from envcheck.core.language import translate
from envcheck.core.language.width import display_width, remove_extra_blanks
from envcheck.core.messages import Message, _, fill, join, mark, ngettext, restore
from envcheck.core.units import format_gib
from envcheck.core.version import SCHEMA_VERSION
from envcheck.explain.localize import translate_recorded_headline
from installers.recipes.catalogue import TALKS
from launch.logs.training_step import format_duration
from launch.run import run_text, trackers
from launch.run.record import read_losses
from launch.run.states import LOST, ORPHANED, UNKNOWN
from launch.runs import orphan
from launch.runs.backends import find_backend, find_scheduler
from launch.runs.run_state import Run

MEMORY = {mark("planned per card"): "predicted", mark("measured"): "measured"}
STATES = {
    LOST: _("lost: the supervisor was killed or the machine went down"),
    ORPHANED: _("orphaned: the supervisor was killed, but the training's processes are still running"),
    UNKNOWN: _("unknown: the run belongs to another user or host"),
}


def as_json(runs: Sequence[Run]) -> str:
    """Return a summary of the runs as JSON."""
    return json.dumps({"schema": SCHEMA_VERSION, "runs": [_list_summary_values(run) for run in runs]}, indent=1)


def _list_summary_values(run: Run) -> dict[str, Any]:
    """Return the main fields of a run; `show --json` has all."""
    keys = ("recipe", "model", "method", "device", "container", "started", "ended", "seconds", "exit")
    return {"id": run.id, "folder": str(run.folder), "state": run.state} | {key: run.said.get(key) for key in keys}


def as_table(runs: Sequence[Run], width: int) -> str:
    """Return the runs as a table; below 80 columns without method and loss."""
    if not runs:
        return translate(
            _("No runs yet. Start one, for example: envcheck train --model tiny --method lora --provision")
        )
    heads = [translate(head) for head in (_("run"), _("state"), _("method"), _("duration"), _("loss"))]
    rows = [
        heads,
        *(
            [r.id, translate(r.state), r.get_text("method"), translate(_describe_duration(r)), _describe_loss(r)]
            for r in runs
        ),
    ]
    return _align_columns([[row[0], row[1], row[3]] for row in rows] if width < 80 else rows)


def _align_columns(rows: Sequence[Sequence[str]]) -> str:
    cells = [[replace_unprintable(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    padded = [[cell + " " * (w - display_width(cell)) for cell, w in zip(row, widths, strict=True)] for row in cells]
    return "\n".join("  ".join(row).rstrip() for row in padded)


def as_page(run: Run, now: str = "") -> str:
    """Return the main facts of a run as text; `now` is the progress of an active run."""
    said = run.said
    status = said.get("exit") if isinstance(said.get("exit"), dict) else {}
    rows = [
        (_("run"), run.id),
        (
            _("state"),
            (translate(STATES[run.state]) if run.state in STATES else translate(run.state)) + _describe_exit(status),
        ),
        (
            _choose_verb(run),
            translate(_describe_training(run)),
        ),
        (_("device"), run.get_text("device") + _describe_container(run.get_text("container"))),
        (_("job"), remove_extra_blanks(_describe_job(run))),
        (
            _("started"),
            translate(_("{time}, {duration}", time=run.get_text("started"), duration=_describe_duration(run))),
        ),
        (_("processes"), _describe_processes(run)),
        (_("progress"), now),
        (_("loss"), _describe_loss(run)),
        (_("reason"), _describe_reason(said)),
        (_("warnings"), _describe_warnings(said)),
        (_("memory"), _describe_memory(said)),
        (_("worker"), _describe_worker(said.get("first_failed_worker"))),
        _find_first_diagnosis(said),
        (_("checkpoint"), next(iter(_select_texts(said.get("checkpoints"))[-1:]), "")),
        *((one["kind"], one.get("path") or one.get("link", "")) for one in _list_trackers(run)),
        (_("waived"), translate(join(", ", _select_texts(said.get("waived"))))),
        (_("record"), str(run.folder / "run.json")),
        (_("logs"), str(run.folder if find_backend(run.said) else run.folder / "log")),
    ]
    return "\n".join(run_text.format_row(name, replace_unprintable(text)) for name, text in rows if text)


def _describe_training(run: Run) -> Message:
    """Return model and method, with the recipe or with the file of a user's own job."""
    model, method, own = run.get_text("model"), run.get_text("method"), run.said.get("own")
    if isinstance(own, dict):
        unknown = _("unknown")
        known = {
            "model": model if model != "unknown" else unknown,
            "method": method if method != "unknown" else unknown,
        }
        return _("model {model}, method {method}, own job {source}", **known, source=str(own.get("source")))
    recipe = run.get_text("recipe")
    return _("{model}, method {method}, recipe {recipe}", model=model, method=method, recipe=recipe)


def _describe_processes(run: Run) -> str:
    """Return processes, cards and next steps of an orphaned run."""
    if run.state != ORPHANED:
        return ""
    state = orphan.OrphanState(run, orphan.list_orphan_pids(run), orphan.list_cards(run))
    return translate(_("{state}; {next_steps}", state=orphan.describe_orphan(state), next_steps=_list_next_steps(run)))


def _list_next_steps(run: Run) -> Message:
    return _("{first}, or {second}", first=f"envcheck runs adopt {run.id}", second=f"envcheck runs stop {run.id}")


def describe_orphaned_run(run: Run) -> str:
    """Return processes, cards, step and next steps of an orphaned run, for the line below the table."""
    state, steps = orphan.describe_orphan(orphan.inspect_orphan(run)), _list_next_steps(run)
    text = translate(_("{id} is orphaned: {state}; {next_steps}", id=run.id, state=state, next_steps=steps))
    return replace_unprintable(text)


def _list_trackers(run: Run) -> list[dict[str, str]]:
    """Return the experiment trackers: as recorded, or of an active run as they are now."""
    known = run.said.get("trackers")
    if isinstance(known, list):
        named = [one for one in known if isinstance(one, dict) and one.get("kind") in trackers.KINDS]
        return [{key: value for key, value in one.items() if isinstance(value, str)} for one in named]
    return trackers.list_trackers(run.folder) if run.is_running and not find_backend(run.said) else []


def _choose_verb(run: Run) -> str:
    return _("chat with") if run.get_text("method") in TALKS else _("model")


def _describe_container(container: str) -> str:
    return translate(_(", in container {container}", container=container)) if container else ""


def _describe_job(run: Run) -> str:
    """Return status and node states of a scheduler's job: 'job 12 has ended: COMPLETED; 2 nodes finished'."""
    scheduler = find_scheduler(run.said)
    if not scheduler:
        return ""
    states = scheduler.list_node_states(run)
    counts = {state: states.count(state) for state in states}
    nodes = [
        translate(ngettext("{count} node {state}", "{count} nodes {state}", n, state=fill(state)))
        for state, n in counts.items()
    ]
    return translate(_("; ")).join([translate(scheduler.describe_status(run)), *nodes])


def replace_unprintable(text: str) -> str:
    """Return the text without control characters, which an untrusted record may contain."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _describe_exit(status: Any) -> str:
    known = isinstance(status, dict) and isinstance(status.get("code"), int)
    return translate(_(" (exit code {code})", code=status["code"])) if known else ""


def _describe_reason(said: dict[str, Any]) -> str:
    error, rule = said.get("error"), said.get("stopped")
    why = translate(restore(error, said.get("error_message"))) if isinstance(error, str) else ""
    return _describe_finding(rule) or why


def _describe_warnings(said: dict[str, Any]) -> str:
    """Return the warnings of the training, each after its name."""
    known = said.get("warnings")
    return "; ".join(filter(None, map(_describe_finding, known))) if isinstance(known, list) else ""


def _describe_finding(value: Any) -> str:
    """Return a recorded finding with its name; "" for anything else."""
    if not isinstance(value, dict) or not isinstance(value.get("seen"), str):
        return ""
    seen = restore(value["seen"], value.get("message"))
    return translate(_("{check}: {seen}", check=str(value.get("name")), seen=seen))


def _describe_worker(worker: Any) -> str:
    """'1 failed first, killed by SIGKILL ...'"""
    if not isinstance(worker, dict):
        return ""
    code = worker.get("code")
    return translate(
        _(
            "{worker} failed first, {code}",
            worker=worker.get("rank"),
            code=run_text.describe_exit(code if isinstance(code, int) else None),
        )
    )


def _find_first_diagnosis(said: dict[str, Any]) -> tuple[str, str]:
    """Return (label, headline) of the first diagnosis."""
    found = said.get("diagnoses")
    first = found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else {}
    label = _("cause") if first.get("kind") == "cause" else _("observed")
    return label, translate_recorded_headline(first)


def _describe_memory(said: dict[str, Any]) -> str:
    """'planned per card 30.1 GiB, measured 28.2 GiB'"""
    memory = said.get("memory")
    sizes = [(word, memory.get(f"{key}_bytes")) for word, key in MEMORY.items()] if isinstance(memory, dict) else []
    known = [
        f"{translate(word)} {format_gib(size)}" for word, size in sizes if isinstance(size, (int, float)) and size > 0
    ]
    return translate(_(", ")).join(known)


def _select_texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _describe_duration(run: Run) -> Message:
    seconds = run.said.get("seconds")
    if isinstance(seconds, (int, float)):
        return format_duration(seconds)
    began = _parse_time(run.get_text("started"))
    return (
        format_duration((datetime.now(timezone.utc) - began).total_seconds())
        if run.is_running and began
        else _("unknown")
    )


def _parse_time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


def _describe_loss(run: Run) -> str:
    """Return first and last loss and the number of steps, "" without losses."""
    points = read_losses(run.said)
    if not points:
        return ""
    made = _positive_number(points[-1][0]) or len(points)  # a program may log only every tenth step
    loss = f"{points[0][1]:.3f} -> {points[-1][1]:.3f}"
    return translate(ngettext("{loss}, {count} step", "{loss}, {count} steps", made, loss=loss))


def _positive_number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
