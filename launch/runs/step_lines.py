"""`envcheck runs follow --json`: the steps and the end of a run as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from envcheck.core.version import SCHEMA_VERSION
from launch.logs.training_step import TrainingStep, encode_number
from launch.runs.run_state import Run


class StepLines:
    """Prints each step as a line of JSON; `write` gets the line."""

    def __init__(self, run: Run, write: Callable[[str], None]) -> None:
        self.run, self.write = run, write

    def __call__(self, step: TrainingStep) -> None:
        values = {name: encode_number(value) for name, value in asdict(step).items() if value is not None}
        self._write_line("step", values)

    def write_end(self, run: Run) -> None:
        """Print how the run ended."""
        status = run.said.get("exit")
        self._write_line("end", {"state": run.state, "exit": status if isinstance(status, dict) else None})

    def close(self) -> None:
        """Do nothing: each step was printed at once."""

    def _write_line(self, event: str, values: dict[str, Any]) -> None:
        self.write(json.dumps({"schema": SCHEMA_VERSION, "event": event, "run": self.run.id, **values}))
