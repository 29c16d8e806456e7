"""--metrics-file: the state of a run as Prometheus text, for node_exporter's textfile collector."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.core.units import MIB
from envcheck.report.prometheus import render_metric
from launch.logs.training_step import TrainingStep
from launch.run import states

SUFFIX = ".prom"  # other files are not read by node_exporter
WRITE_EVERY_S = 5.0
STATES = (states.RUNNING, states.SUCCEEDED, states.FAILED, states.STOPPED, states.UNSTARTED)


def check_metrics_path(path: Path | None) -> Path | None:
    """Return the absolute path; UsageError if node_exporter would not read it."""
    if path is None:
        return None
    if path.suffix != SUFFIX:
        raise UsageError(
            _("--metrics-file {path}: node_exporter reads only files that end in .prom", path=path),
            _("use {path}", path=path.with_suffix(SUFFIX)),
        )
    if not path.expanduser().absolute().parent.is_dir():
        raise UsageError(
            _("--metrics-file {path}: the folder does not exist", path=path),
            _("use the folder of --collector.textfile.directory"),
        )
    return path.expanduser().absolute()


class MetricsFile:
    """Writes the metrics of a run, at most every WRITE_EVERY_S and at its end; errors never end a run."""

    def __init__(self, path: Path | None, labels: Mapping[str, str], planned: int | None = None) -> None:
        self.path, self.labels, self.planned = path, dict(labels), planned
        self.began, self.stepped = time.time(), 0.0
        self.last: TrainingStep | None = None
        self._due = 0.0

    def add_step(self, step: TrainingStep) -> None:
        """Take the newest step."""
        self.last, self.stepped = step, time.time()
        if time.monotonic() >= self._due:
            self.write_state(states.RUNNING)

    def write_state(self, state: str) -> None:
        """Replace the file."""
        if self.path is None:
            return
        self._due = time.monotonic() + WRITE_EVERY_S
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            fresh.write_text("".join(f"{line}\n" for line in self._render_lines(state)), "utf-8")
            fresh.chmod(0o644)  # node_exporter is another user
            fresh.replace(self.path)

    def _render_lines(self, state: str) -> Iterator[str]:
        yield from render_metric(
            "envcheck_run_state",
            "1 for the state of the run, 0 for the others.",
            [({**self.labels, "state": name}, int(name == state)) for name in STATES],
        )
        for name, (words, value) in self._list_values().items():
            if value is not None:
                yield from render_metric(f"envcheck_run_{name}", words, [(self.labels, value)])

    def _list_values(self) -> dict[str, tuple[str, float | None]]:
        step = self.last
        found: dict[str, tuple[str, float | None]] = {
            "start_timestamp_seconds": ("Start of the run, in seconds since 1970.", self.began),
            "planned_steps": ("Planned number of steps.", self.planned),
        }
        if step is not None:
            found |= {
                "last_step_timestamp_seconds": ("Time of the last step, in seconds since 1970.", self.stepped),
                "step": ("Number of the last step.", step.step),
                "loss": ("Loss of the last step.", step.loss),
                "grad_norm": ("Gradient norm of the last step.", step.grad_norm),
                "learning_rate": ("Learning rate of the last step.", step.learning_rate),
                "tokens_per_second": ("Tokens per second of the job.", step.tokens_per_s),
                "samples_per_second": ("Samples per second of the job.", step.samples_per_s),
                "device_memory_bytes": (
                    "Peak memory of a device as the program reports it.",
                    None if step.memory_mib is None else step.memory_mib * MIB,
                ),
            }
        return found
