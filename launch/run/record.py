"""What is left of a run: one JSON document in its folder, replaced whole at every writing; no secrets."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from envcheck.core.errors import UNFIT, EnvcheckError, StepError
from envcheck.core.facts import Facts
from envcheck.core.model import Finding
from envcheck.core.secrets import blank_value, blank_words, redact
from envcheck.core.units import MIB
from envcheck.core.version import SCHEMA_VERSION, __version__
from envcheck.report.summary import findings_outcome
from launch.logs.step import TrainingStep
from launch.planner import fit
from launch.programs import container_agent
from launch.run.launcher import Ending, argv

if TYPE_CHECKING:
    from envcheck.job.command import TrainingCommand
    from launch.gates.context import GateContext
    from launch.targets.clean_environment import CleanEnvironment

NAME = "run.json"
Record = dict[str, Any]


def folder(runs: Path, recipe: str, now: datetime) -> Path:
    """A new folder runs/<time>-<recipe>; the time is UTC, and a second run of the same second gets a number."""
    name = f"{now:%Y%m%d-%H%M%S}-{recipe}"
    for number in range(1, 100):
        path = runs / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise EnvcheckError(f"{runs} holds a hundred runs of this second", "wait a moment, then repeat")


def write(run: Path, record: Record) -> None:
    """Under a temporary name, to the disk, then renamed; raises OSError."""
    fresh = run / f".{NAME}.new"
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.write(as_text(record))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(run / NAME)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def keep(run: Path, record: Record) -> None:
    """The same, with a sentence where it cannot be done."""
    try:
        write(run, record)
    except OSError as err:
        why = f"the record {run / NAME} cannot be written: {(err.strerror or str(err)).lower()}"
        raise StepError(why, "make room, or name another folder with --runs") from None


def refused(seen: GateContext, found: Sequence[Finding]) -> Record:
    """What did not begin, since gates are closed."""
    said = {"state": "refused", "exit": {"code": UNFIT, "status": None}, "gates": findings(found)}
    return {**head(seen), **said, **findings_outcome(found, UNFIT)}


def unstarted(code: int) -> Record:
    """What ended before its run was begun."""
    return {"schema": SCHEMA_VERSION, "state": "unstarted", "exit": {"code": code, "status": None}}


def as_text(record: Record) -> str:
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def time_text(now: datetime) -> str:
    return now.astimezone(timezone.utc).isoformat(timespec="seconds")


def facts(known: Facts) -> Record:
    """What was known of the machine; of the tools' answers only how they ended, their text is doctor's."""
    plain = dataclasses.asdict(dataclasses.replace(known, answers={}, environment=None))
    plain["answers"] = {key: answer.outcome.value for key, answer in known.answers.items()}
    plain["environment"] = environment(known.environment or {})
    for one, its in zip(plain["vendors"], known.vendors, strict=True):
        one["vendor"] = its.name  # envcheck's own record of it is nothing that was found on the machine
    if known.wanted:
        plain["wanted"]["environment"] = environment(known.wanted.environment)
    return _safe(plain)  # type: ignore[no-any-return]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: blank_value(name, text) for name, text in sorted(variables.items())}


def findings(found: Sequence[Finding]) -> list[Record]:
    told = [{**dataclasses.asdict(f), "status": f.status.name} for f in found]
    return [_safe({key: value for key, value in one.items() if key not in ("accepted", "details")}) for one in told]


def head(seen: GateContext) -> Record:
    """Which job it is."""
    return {
        "schema": SCHEMA_VERSION,
        "recipe": seen.recipe.name,
        "model": seen.recipe.models[0],
        "method": seen.job.method,
        "device": seen.device,
    }


def beginning(
    seen: GateContext,
    found: tuple[Finding, ...],
    run: Path,
    made: TrainingCommand,
    tidy: CleanEnvironment,
    now: datetime,
) -> Record:
    """What is known before the first process starts."""
    return {
        "state": "running",
        "started": time_text(now),
        "pid": os.getpid(),
        "pid_began": psutil.Process().create_time(),
        "folder": str(run),
        "container": seen.stage.container or None,
        "command": list(blank_words(argv(made))),
        "environment": environment({**made.environment, **made.prepend}),
        "left_out": {"stale": list(tidy.stale), "secret": list(tidy.secret)},
        "proxies": sorted(n for n in tidy.environment if n.lower().endswith("_proxy")),
        "plan": {
            "nodes": seen.job.nodes,
            "processes": seen.job.processes,
            "steps": dict(seen.job.steps),
            "parallel": dict(seen.job.parallel),
            "data": list(seen.sight.sizes),
        },
        "versions": {"envcheck": __version__, "python": platform.python_version(), "environment": seen.sight.python}
        | {"packages": dict(seen.sight.packages)},
        "gates": findings(found),
        "facts": facts(seen.facts),
        "memory": fit.record(seen.facts.wanted.fit if seen.facts.wanted else None),
    }


def ending(end: Ending, code: int) -> Record:
    """The part of a record that is known when all is over; `code` is envcheck's own, `status` the launcher's."""
    return {
        "state": end.how,
        "exit": {"code": code, "status": end.status},
        "seconds": round(end.seconds, 1),
        "first_failed_worker": dataclasses.asdict(end.failed) if end.failed else None,
        "launcher_lines": [] if end.how == "finished" else list(end.launcher_lines),
        "loss": losses(end.steps),
        "tokens_per_s": _middle([s.tokens_per_s for s in end.steps]),
        "peak_memory_mib": {"host": round(end.peak_bytes / MIB), "worker": _most(end.steps)},
        "stopped": findings([end.stopped])[0] if end.stopped else None,
        "cards": dict(end.cards),
        "left": list(end.left),
    }


def losses(steps: Sequence[TrainingStep]) -> list[list[float | None]]:
    return [[s.step, _finite(s.loss)] for s in steps]


def measured(end: Ending, device: str) -> int | None:
    """Bytes of the fullest card: what its program reserved, as the plan counts; else by how much the vendor's tool saw
    it fill up.  On the CPU the programs tell of host memory, which is another thing."""
    most = _most(end.steps) or end.cards.get("grown_mib")
    return round(most * MIB) if most and device != "cpu" else None


def checkpoints(output: Path) -> list[str]:
    """The checkpoint folders of a run, oldest first; what a broken save left (a dot in front) is none."""
    return [str(output / name) for name in container_agent.outputs(output)]


def _most(steps: Sequence[TrainingStep]) -> float | None:
    return max((s.memory_mib for s in steps if s.memory_mib is not None), default=None)


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 1) if known else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _safe(value: Any) -> Any:
    """Strings without secrets, numbers that JSON knows, everything else as JSON has it."""
    if isinstance(value, str):
        return redact(str(value))
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, Mapping):
        return {str(key): _safe(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_safe(inner) for inner in value]
    return value
