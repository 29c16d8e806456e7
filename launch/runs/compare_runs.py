"""`envcheck runs compare`: differences of two runs in configuration, speed, loss and memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from envcheck.core.language import translate
from envcheck.core.messages import Message, _, verbatim
from envcheck.core.units import format_gib, format_mib
from envcheck.core.version import SCHEMA_VERSION
from launch.logs.training_step import encode_number, format_duration
from launch.rendering.argument_rows import parse_rows
from launch.run.record import read_losses
from launch.runs.run_pages import replace_unprintable
from launch.runs.run_state import Run

TITLES = {
    "job": _("job"),
    "option": _("option"),
    "environment": _("environment"),
    "plan": _("plan"),
    "package": _("package"),
    "version": _("version"),
}
OF_RUN = ("command", "output_dir", "output", "log_dir", "logging_dir", "config")  # differ in every run
SHOWN = 60  # characters of a value


@dataclass(frozen=True)
class ConfigurationDifference:
    """A value that differs; None: not set."""

    area: str
    name: str
    first: str | None
    second: str | None


@dataclass(frozen=True)
class ResultComparison:
    """A measured value of both runs, None if unknown; `change` is the relative difference of the second."""

    name: str
    first: float | None
    second: float | None
    change: float | None = None


@dataclass(frozen=True)
class RunComparison:
    """Two runs and how they differ."""

    first: Run
    second: Run
    differences: tuple[ConfigurationDifference, ...] = ()
    results: tuple[ResultComparison, ...] = ()


def compare_runs(first: Run, second: Run) -> RunComparison:
    """Return the differences of the runs' records."""
    ours, theirs = _list_configuration(first), _list_configuration(second)
    different = [
        ConfigurationDifference(area, name, ours.get((area, name)), theirs.get((area, name)))
        for area, name in dict.fromkeys([*ours, *theirs])
        if ours.get((area, name)) != theirs.get((area, name))
    ]
    here, there = _list_results(first), _list_results(second)
    results = tuple(_compare_values(name, here[name], there[name]) for name in here)
    return RunComparison(first, second, tuple(different), results)


def _compare_values(name: str, first: float | None, second: float | None) -> ResultComparison:
    known = [value for value in (first, second) if value is not None and math.isfinite(value)]
    change = (known[1] - known[0]) / abs(known[0]) if len(known) == 2 and known[0] else None
    return ResultComparison(name, first, second, None if change is None else round(change, 4))


def _list_configuration(run: Run) -> dict[tuple[str, str], str]:
    said, found = run.said, {}
    for key in ("recipe", "model", "method", "device", "container"):
        found["job", key] = str(said.get(key) or "")
    found |= {("option", name): text for name, text in _list_options(run)}
    found |= {("environment", name): text for name, text in _iterate_texts(said.get("environment"))}
    found |= {("plan", name): text for name, text in _iterate_texts(said.get("plan"))}
    versions = said.get("versions")
    if isinstance(versions, dict):
        found |= {("package", name): text for name, text in _iterate_texts(versions.get("packages"))}
        found |= {("version", name): text for name, text in _iterate_texts(versions) if name != "packages"}
    return found


def _list_options(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the options of the command without those that name the run's own folder."""
    command = run.said.get("command")
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    for name, values in parse_rows(words).items():
        text = " ".join(values).replace(run.get_text("folder") or str(run.folder), "{run}")
        if name not in OF_RUN:
            yield name, text


def _iterate_texts(values: Any) -> Iterator[tuple[str, str]]:
    for name, value in values.items() if isinstance(values, dict) else ():
        yield str(name), str(value)


def _list_results(run: Run) -> dict[str, float | None]:
    said = run.said
    values = [loss for _step, loss in read_losses(said)]
    memory, peak = _as_mapping(said.get("memory")), _as_mapping(said.get("peak_memory_mib"))
    return {
        "seconds": _as_number(said.get("seconds")),
        "steps": float(len(values)) if values else None,
        "tokens_per_s": _as_number(said.get("tokens_per_s")),
        "first_loss": values[0] if values else None,
        "last_loss": values[-1] if values else None,
        "lowest_loss": min(filter(math.isfinite, values), default=None),
        "card_memory_bytes": _as_number(memory.get("measured_bytes")),
        "worker_memory_mib": _as_number(peak.get("worker")),
        "host_memory_mib": _as_number(peak.get("host")),
    }


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _as_number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


RESULT_TITLES = {
    "seconds": _("duration"),
    "steps": _("logged steps"),
    "tokens_per_s": _("tokens/s"),
    "first_loss": _("first loss"),
    "last_loss": _("last loss"),
    "lowest_loss": _("lowest loss"),
    "card_memory_bytes": _("memory of a card"),
    "worker_memory_mib": _("memory of a worker"),
    "host_memory_mib": _("host memory"),
}


def as_values(found: RunComparison) -> dict[str, Any]:
    """Return the comparison as JSON values."""
    return {
        "schema": SCHEMA_VERSION,
        "runs": [{"id": run.id, "folder": str(run.folder), "state": run.state} for run in (found.first, found.second)],
        "differences": [asdict(one) for one in found.differences],
        "results": [_as_json_values(asdict(one)) for one in found.results],
    }


def _as_json_values(result: Mapping[str, Any]) -> dict[str, Any]:
    return {k: encode_number(v) if isinstance(v, float) else v for k, v in result.items()}


def render_comparison(found: RunComparison) -> str:
    """Return the comparison as text."""
    lines = [
        f"{found.first.id} ({translate(found.first.state)})",
        f"{found.second.id} ({translate(found.second.state)})",
        "",
    ]
    for one in found.differences:
        lines.append(f"{translate(TITLES[one.area])} {one.name}: {_shorten(one.first)} -> {_shorten(one.second)}")
    if not found.differences:
        lines.append(translate(_("The configurations are equal.")))
    lines.append("")
    for result in found.results:
        if result.first is not None or result.second is not None:
            values = [translate(_format_value(result.name, value)) for value in (result.first, result.second)]
            change = "" if result.change is None else f" ({result.change:+.1%})"
            lines.append(f"{translate(RESULT_TITLES[result.name])}: {values[0]} -> {values[1]}{change}")
    return "\n".join(replace_unprintable(line) for line in lines)


def _shorten(text: str | None) -> str:
    if text is None:
        return translate(_("not set"))
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _format_value(name: str, value: float | None) -> Message:
    if value is None:
        return _("unknown")
    if name == "seconds":
        return format_duration(value)
    if name == "card_memory_bytes":
        return verbatim(format_gib(value))
    if name.endswith("_mib"):
        return verbatim(format_mib(value))
    return verbatim(f"{round(value, 4):g}")
