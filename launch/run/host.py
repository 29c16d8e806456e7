"""A training on this host, by a virtual environment or by what the container around us holds."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from envcheck.core import process as runner
from envcheck.core.errors import StepError
from envcheck.job.command import TrainingCommand
from installers.recipes.recipe import Recipe
from installers.software import sources
from installers.state import environment
from installers.targets.target import VenvTarget
from launch.programs import container_agent, place_probe
from launch.run.launcher import argv
from launch.run.process_tree import ProcessTree, end_survivors
from launch.run.record import checkpoints
from launch.targets.clean_environment import CleanEnvironment
from launch.targets.stage import StageFacts, StageQuestion, answered, question

GRACE_S = 8.0


@dataclass(frozen=True)
class HostStage:
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

    def look(self, asked: StageQuestion) -> StageFacts:
        env = environment.read(self.folder) if self.folder else None
        said = place_probe.look(question(asked, str(Path(asked.workdir or ".").absolute()), str(asked.runs)))
        # Of memory and /dev/shm the facts tell, which may be those of a simulated machine.
        said |= {"marks": {}, "shm_bytes": None, "shm_free_bytes": None, "memory_bytes": None}
        return StageFacts(
            **answered(said),
            missing=tuple(environment.ready(self.recipe, self.folder, self._versions())) if self.folder else (),
            python=(env.python or "") if env else "",
            packages=env.packages if env else {},
        )

    def _versions(self) -> dict[str, str]:
        """The clones' commits and the sums of what was built, as far as files tell."""
        assert self.folder
        commits = {each.directory: place_probe.commit(Path(each.directory)) for each in self.recipe.checkouts}
        made = sources.sums(VenvTarget(self.folder), self.recipe.builds)
        return {**{directory: commit for directory, commit in commits.items() if commit}, **made}

    def mark(self, run: Path) -> str:
        return str(run)

    def start(self, command: TrainingCommand, clean: CleanEnvironment, run: Path) -> HostTraining:
        words = argv(command)
        (run / "log").mkdir(container_agent.PRIVATE, exist_ok=True)
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
        return HostTraining(child, run)


class HostTraining:
    """A launcher that is our child."""

    def __init__(self, child: subprocess.Popen[bytes], run: Path) -> None:
        self.child, self.run, self.family = child, run, ProcessTree(child.pid)

    def poll(self) -> int | None:
        return self.child.poll()

    def end(self, save_s: float = 0.0, hurry: Callable[[], bool] = lambda: False) -> None:
        """The launcher first, which ends its workers; then whoever is left of this run, in whatever session."""
        if save_s and self.child.poll() is None:
            self._ask(time.monotonic() + save_s, hurry)
        if self.child.poll() is None:
            runner.end(self.child, GRACE_S)
        end_survivors(self.run)
        container_agent.sweep(self.run / "log")

    def _ask(self, until: float, hurry: Callable[[], bool]) -> None:
        """SIGTERM to the workers, or to a program that is none's worker; launchers end theirs sooner than they save."""
        workers = list(self.family.alive.values()) or [psutil.Process(self.child.pid)]
        for process in workers:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGTERM)
        while self.child.poll() is None and time.monotonic() < until and not hurry():
            time.sleep(0.1)

    def outputs(self) -> list[str]:
        return checkpoints(self.run / "output")
