"""The record of a run: run.json in its folder, replaced atomically at each write, without secrets."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import errno
import json
import math
import os
import platform
import secrets
import statistics
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from envcheck.core import messages
from envcheck.core.errors import CHECK_FAILED, StepError, describe_os_error
from envcheck.core.facts import Facts
from envcheck.core.messages import _
from envcheck.core.model import Finding
from envcheck.core.secrets import redact_text, redact_variable, redact_words
from envcheck.core.units import MIB
from envcheck.core.version import SCHEMA_VERSION, __version__
from envcheck.report.summary import describe_outcome
from installers.recipes.own_recipe import find_own_job
from launch.logs.training_step import TrainingStep, decode_number, encode_number
from launch.planner import recipe_fit
from launch.programs import container_agent
from launch.run import states
from launch.run.launcher import TrainingEnd, build_argv

if TYPE_CHECKING:
    from envcheck.job.command import TrainingCommand
    from launch.gates.context import GateContext
    from launch.targets.clean_environment import CleanEnvironment

NAME = "run.json"
RESERVE, RESERVE_BYTES = ".reserve", 2 << 20  # the record of a run of 100,000 steps
FULL_DISK_S, RETRY_S, FULL = 60.0, 0.5, (errno.ENOSPC, errno.EDQUOT)
Record = dict[str, Any]


def create_folder(runs: Path, recipe: str, now: datetime) -> Path:
    """Create and return the folder TIME-RECIPE-NUMBER (UTC); the random number makes ids unique in all folders."""
    while True:
        path = runs / f"{now:%Y%m%d-%H%M%S}-{recipe}-{secrets.token_hex(2)}"
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path


def reserve_space(run: Path) -> None:
    """Reserve the space of the final record, so that a disk that fills up does not lose it; errors are ignored."""
    with contextlib.suppress(OSError), (run / RESERVE).open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)


def save_final_record(run: Path, record: Record) -> None:
    """Like `save_record`, but on a full disk use the reserved space, then wait for space up to FULL_DISK_S."""
    until = time.monotonic() + FULL_DISK_S
    while True:
        try:
            write_record(run, record)
            break
        except OSError as err:
            (run / RESERVE).unlink(missing_ok=True)
            if err.errno not in FULL or time.monotonic() > until:
                save_record(run, record)
                break
            time.sleep(RETRY_S)
    (run / RESERVE).unlink(missing_ok=True)


def write_record(run: Path, record: Record) -> None:
    """Write the record to a temporary file, sync and rename it; raises OSError."""
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


def save_record(run: Path, record: Record) -> None:
    """Like `write_record`, but raises StepError with a next step."""
    try:
        write_record(run, record)
    except OSError as err:
        why = _(
            "cannot write the record {path}: {reason}",
            path=run / NAME,
            reason=describe_os_error(err),
        )
        raise StepError(why, _("free disk space, or choose another folder with --runs")) from None


def build_refused_record(seen: GateContext, found: Sequence[Finding], code: int = CHECK_FAILED) -> Record:
    """Return the record of a training that failed or unknown gates prevented."""
    said = {"state": states.REFUSED, "exit": {"code": code, "status": None}, "gates": list_findings(found)}
    return {**list_head_values(seen), **said, **describe_outcome(found, code)}


def build_unstarted_record(code: int) -> Record:
    """Return the record of a command that failed before the run was created."""
    return {"schema": SCHEMA_VERSION, "state": states.UNSTARTED, "exit": {"code": code, "status": None}}


def as_text(record: Record) -> str:
    """Return the record as JSON text."""
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def format_time(now: datetime) -> str:
    """Return the time in UTC, ISO 8601, with seconds."""
    return now.astimezone(timezone.utc).isoformat(timespec="seconds")


def list_error_values(why: str | None) -> Record:
    """Return what went wrong as a sentence, and as a message that is translated when it is shown."""
    if not why:
        return {"error": None}
    return {"error": redact_text(str(why)), "error_message": _to_safe_json(messages.describe(why))}


def list_facts(known: Facts) -> Record:
    """Return the facts of the machine as JSON values, with the outcome of each tool but not its output."""
    plain = dataclasses.asdict(dataclasses.replace(known, answers={}, environment=None))
    plain["answers"] = {key: answer.outcome.value for key, answer in known.answers.items()}
    plain["environment"] = list_environment(known.environment or {})
    for one, its in zip(plain["vendors"], known.vendors, strict=True):
        one["vendor"] = its.name  # only the name: the vendor record is not a fact of the machine
    if known.wanted:
        plain["wanted"]["environment"] = list_environment(known.wanted.environment)
    return _to_safe_json(plain)  # type: ignore[no-any-return]


def list_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without secrets, sorted by name."""
    return {name: redact_variable(name, text) for name, text in sorted(variables.items())}


def list_findings(found: Sequence[Finding]) -> list[Record]:
    """Return the findings as JSON values; `message` has the template of `seen`, `checks` are the names of details."""
    return [_to_safe_json(_list_finding_values(finding)) for finding in found]


def _list_finding_values(finding: Finding) -> Record:
    row = dataclasses.asdict(dataclasses.replace(finding, details=(), accepted=None))
    del row["details"], row["accepted"]
    checks = {"checks": [each.name for each in finding.details]} if finding.details else {}
    return {**row, "status": finding.status.name, "message": messages.describe(finding.seen), **checks}


def list_head_values(seen: GateContext) -> Record:
    """Return the fields that identify the job."""
    return {
        "schema": SCHEMA_VERSION,
        "recipe": seen.recipe.name,
        "model": seen.recipe.models[0],
        "method": seen.job.method,
        "device": seen.device,
        **({"own": _to_safe_json(own.as_json())} if (own := find_own_job(seen.recipe)) else {}),
    }


def build_start_record(
    seen: GateContext,
    found: tuple[Finding, ...],
    run: Path,
    made: TrainingCommand,
    tidy: CleanEnvironment,
    now: datetime,
) -> Record:
    """Return the fields known before the start."""
    return {
        "state": states.STARTING,
        "started": format_time(now),
        "pid": os.getpid(),
        "pid_started": psutil.Process().create_time(),
        "folder": str(run),
        "container": seen.stage.container or None,
        "command": list(redact_words(build_argv(made))),
        "environment": list_environment({**made.environment, **made.prepend}),
        "dropped_variables": {"stale": list(tidy.stale), "secret": list(tidy.secret)},
        "proxies": sorted(n for n in tidy.environment if n.lower().endswith("_proxy")),
        "plan": {
            "nodes": seen.job.nodes,
            "processes": seen.job.processes,
            "steps": dict(seen.job.steps),
            "parallel": dict(seen.job.parallel),
            "data": list(seen.sight.sizes),
            **({"devices": list(seen.choice.numbers)} if seen.choice else {}),
        },
        "versions": {"envcheck": __version__, "python": platform.python_version(), "environment": seen.sight.python}
        | {"packages": dict(seen.sight.packages)},
        "gates": list_findings(found),
        "facts": list_facts(seen.facts),
        "memory": recipe_fit.list_peak_values(seen.facts.wanted.fit if seen.facts.wanted else None),
    }


def build_end_values(end: TrainingEnd, code: int) -> Record:
    """Return the fields known after the end; `code` is envcheck's exit code."""
    return {
        **states.list_end_values(end.how),
        "exit": {"code": code, "status": end.status},
        "seconds": round(end.seconds, 1),
        "first_failed_worker": dataclasses.asdict(end.failed) if end.failed else None,
        "launcher_lines": [] if end.how == states.SUCCEEDED else list(end.launcher_lines),
        **summarize_steps(end.steps),
        "peak_memory_mib": {"host": round(end.peak_bytes / MIB), "worker": _peak_memory_mib(end.steps)},
        "stopped": list_findings([end.stopped])[0] if end.stopped else None,
        "cards": dict(end.cards),
        "leftover_pids": list(end.left),
    }


def summarize_steps(steps: Sequence[TrainingStep]) -> Record:
    """Return the losses and the speed of the steps."""
    return {"loss": list_losses(steps), "tokens_per_s": _median_or_none([s.tokens_per_s for s in steps])}


def list_losses(steps: Sequence[TrainingStep]) -> list[list[float | str | None]]:
    """Return [step, loss] pairs, as `encode_number` does; None for unnumbered steps."""
    return [[s.step, encode_number(s.loss)] for s in steps]


def read_losses(said: Mapping[str, Any]) -> list[tuple[int | None, float]]:
    """Return the (step, loss) pairs of a record; NaN for a loss that is null."""
    loss = said.get("loss")
    points = [pair for pair in loss if isinstance(pair, list) and len(pair) == 2] if isinstance(loss, list) else []
    return [
        (step if isinstance(step, int) else None, decode_number(value))
        for step, value in points
        if value is None or isinstance(value, (int, float)) or value in ("inf", "-inf")
    ]


def measured_peak_bytes(end: TrainingEnd, device: str) -> int | None:
    """Return the peak memory in bytes of the fullest card, comparable with the plan; None if unknown or on the CPU.

    This is the memory reserved by the program, else the growth reported by the vendor's tool.
    """
    most = _peak_memory_mib(end.steps) or end.cards.get("increase_mib")
    return round(most * MIB) if most and device != "cpu" else None


def list_checkpoints(output: Path) -> list[str]:
    """Return the paths of the checkpoints in an output folder, oldest first.

    Behind a link there is the folder of a user's own job, which may hold those of earlier trainings.
    """
    names = container_agent.list_checkpoints(output)
    if output.is_symlink():
        names = [name for name in names if _is_newer(output / name, output.lstat().st_mtime)]
    return [str(output / name) for name in names]


def _is_newer(folder: Path, began: float) -> bool:
    """Whether the folder or a file in it was written after that time, with a margin for coarse clocks."""
    with contextlib.suppress(OSError):
        return max(each.stat().st_mtime for each in (folder, *folder.iterdir())) >= began - 2
    return False


def _peak_memory_mib(steps: Sequence[TrainingStep]) -> float | None:
    return max((s.memory_mib for s in steps if s.memory_mib is not None), default=None)


def _median_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 1) if known else None


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _to_safe_json(value: Any) -> Any:
    """Return the value as JSON values, without secrets and without numbers that are not finite."""
    if isinstance(value, enum.Enum):  # str() of a text enumeration is its member's name
        return _to_safe_json(value.value)
    if isinstance(value, str):
        return redact_text(str(value))
    if isinstance(value, float):
        return _finite_or_none(value)
    if isinstance(value, Mapping):
        return {str(key): _to_safe_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_safe_json(inner) for inner in value]
    return value
