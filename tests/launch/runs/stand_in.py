"""Runs of `envcheck train` with a stand-in program, which needs neither paddle nor a device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("stand_in_program.py")
RECIPE = """
name = "light"
title = "a stand-in"
device = "cpu"
framework = "envcheck"
models = ["light"]
source = "a test"
[hardware]
product = "any"
source = "a test"
[[jobs]]
method = "lora"
title = "none"
source = "a test"
launcher = ["{python}", "{program}"]
arguments = ["--output", "{output}", "--steps", "100000"]
steps = {{ max = 100000 }}
outputs = ["{output}"]
"""
WAIT_S = 60.0


class StandInRuns:
    """Commands in a folder with the recipe, whose environment is provisioned once."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.folder = home, folder
        (folder / "recipes").mkdir(parents=True)
        text = RECIPE.replace("{python}", sys.executable).replace("{program}", str(PROGRAM))
        (folder / "recipes/light.toml").write_text(text.replace("{{", "{").replace("}}", "}"))

    def _variables(self, more: dict[str, str]) -> dict[str, str]:
        return {**os.environ, "ENVCHECK_HOME": str(self.home), "NO_COLOR": "1", **more}

    def run_command(self, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "envcheck", *words]
        return subprocess.run(
            argv, cwd=cwd or self.folder, env=self._variables(env), capture_output=True, text=True, timeout=240
        )

    def train(self, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run_command("train", "--recipe", "light", "--recipes", "recipes", *more, **env)

    def start_training(self, *more: str, **env: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "envcheck", "train", "--recipe", "light", "--recipes", "recipes", *more]
        return subprocess.Popen(
            argv, cwd=self.folder, env=self._variables(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def list_records(self) -> list[dict[str, Any]]:
        """Return the records, oldest first."""
        found = [json.loads(path.read_text()) for path in (self.folder / "runs").glob("*/run.json")]
        return sorted(found, key=lambda said: str(said["started"]))

    @property
    def record(self) -> dict[str, Any]:
        """The only record."""
        (said,) = self.list_records()
        return said

    def wait_for_step(self, step: int) -> None:
        """Wait until the newest run has made the step."""

        def is_made() -> bool:
            logs = sorted((self.folder / "runs").glob("*/log/launcher.log"), key=lambda path: path.stat().st_mtime)
            return bool(logs) and f'"step": {step},' in logs[-1].read_text()

        wait_until(is_made, f"step {step}")


def wait_until(is_true: Callable[[], object], what: str, seconds: float = WAIT_S) -> None:
    """Wait for a condition; fail after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_true():
            return
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s for {what}")


def provision_stand_in(folder: Path) -> Path:
    """Create the environment of the recipe; return the home folder."""
    made = StandInRuns(folder / "home", folder / "first")
    done = made.run_command("provision", "--recipe", "light", "--recipes", "recipes", "--yes")
    assert done.returncode == 0, done.stderr
    return folder / "home"
