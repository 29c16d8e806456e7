"""A training on this host, by a virtual environment or by what the container around us holds."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from envcheck import runner
from envcheck.errors import StepError
from installers import environment
from installers.recipes.recipe import Recipe
from launch import situation
from launch.clean import Clean
from launch.command import Command
from launch.family import Family, survivors
from launch.launcher import argv
from launch.record import checkpoints
from launch.stage import Sight

GRACE_S = 8.0


@dataclass(frozen=True)
class Here:
    """`folder` is the virtual environment, None where the recipe's software stands in the container around us."""

    recipe: Recipe
    folder: Path | None

    @property
    def title(self) -> str:
        return f"{self.folder} on this host" if self.folder else "the container around us"

    @property
    def container(self) -> str:
        return ""

    def values(self, run: Path | None) -> dict[str, str]:
        found = {"python": str(self.folder / "bin" / "python")} if self.folder else {}
        return found if run is None else {**found, "output": str(run / "output"), "log_dir": str(run / "log")}

    def look(self, paths: Sequence[str], workdir: str, runs: Path) -> Sight:
        env = environment.read(self.folder) if self.folder else None
        return Sight(
            environment=dict(os.environ),
            missing=tuple(environment.ready(self.recipe, self.folder)) if self.folder else (),
            sizes=situation.sizes(paths, Path(workdir or ".").absolute()),
            free_bytes=situation.free_bytes(runs),
            python=(env.python or "") if env else "",
            packages=env.packages if env else {},
        )

    def mark(self, run: Path) -> str:
        return str(run)

    def start(self, command: Command, clean: Clean, run: Path) -> Started:
        words = argv(command)
        (run / "log").mkdir(exist_ok=True)
        with (run / "log" / "launcher.log").open("ab") as log:
            try:
                child = runner.start(
                    words,
                    env=dict(clean.environment),
                    cwd=Path(command.workdir or run),
                    stdout=log.fileno(),
                    stderr=subprocess.STDOUT,
                )
            except OSError as err:
                raise StepError(f"cannot start {words[0]}: {err.strerror or err}", f"see {run}/run.json") from None
        return Started(child, run)


class Started:
    """A launcher that is our child."""

    def __init__(self, child: subprocess.Popen[bytes], run: Path) -> None:
        self.child, self.run, self.family = child, run, Family(child.pid)

    def poll(self) -> int | None:
        return self.child.poll()

    def end(self) -> None:
        """The launcher first, which ends its workers; then whoever is left of this run, in whatever session."""
        if self.child.poll() is None:
            runner.end(self.child, GRACE_S)
        for sign in (signal.SIGTERM, signal.SIGKILL):
            left = survivors(self.run)
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(sign)
            if left:
                psutil.wait_procs(left, timeout=3)

    def outputs(self) -> list[str]:
        return checkpoints(self.run / "output")
