"""The view of a run while its supervisor runs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launch import run_view
from launch.run import record
from launch.run.watch import ProgressLine
from launch.watching import choose_monitor


class EndingSupervisor:
    """Trains, describes the end and lives on for a while, all between two looks of the view."""

    def __init__(self, run: Path, log: Path) -> None:
        self.run, self.log, self.polls = run, log, 0

    def poll(self) -> int | None:
        self.polls += 1
        if self.polls == 1:
            steps = [{"step": step, "loss": 0.5, "tokens_per_s": 100.0} for step in (1, 2, 3)]
            (self.run / "log/launcher.log").write_text("".join(f"{json.dumps(step)}\n" for step in steps))
            (self.run / record.RESERVE).unlink()
            self.log.write_text("go on       envcheck train --resume it\n")
        return None if self.polls < 4 else 5


def test_the_end_is_printed_after_the_last_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a supervisor takes its time to exit after it has described the end."""
    run, log = tmp_path / "run", tmp_path / "supervisor.log"
    (run / "log").mkdir(parents=True)
    (run / record.RESERVE).touch()
    monkeypatch.setattr(run_view, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(choose_monitor, "build_monitor", lambda *_unused: SimpleNamespace(show=None))
    monkeypatch.setattr(choose_monitor, "choose_progress_display", lambda *_unused: ProgressLine())
    request: Any = SimpleNamespace(restart=0)
    seen: Any = None
    child: Any = EndingSupervisor(run, log)

    run_view._show_progress(request, seen, run, child, run_view.ViewSignals(child), run_view.SupervisorOutput(log))

    said = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in said] == ["step 1", "step 3", "go on       envcheck train --resume it"]
