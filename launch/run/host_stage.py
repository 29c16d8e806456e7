"""A training on this host: in a virtual environment, or in the container that envcheck itself runs in."""

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
from envcheck.core.errors import StepError, describe_os_error
from envcheck.core.messages import Message, _
from envcheck.job.command import TrainingCommand
from installers.recipes.own_recipe import find_own_job
from installers.recipes.recipe import Recipe
from installers.software import sources
from installers.state import environment
from installers.targets.target import VenvTarget
from launch.programs import container_agent, place_probe
from launch.run.launcher import build_argv
from launch.run.process_tree import ProcessTree, end_survivors
from launch.run.record import list_checkpoints
from launch.targets.clean_environment import CleanEnvironment
from launch.targets.stage import StageFacts, StageQuestion, build_probe_request, parse_probe_answer

GRACE_S = 8.0


@dataclass(frozen=True)
class HostStage:
    """This host; `folder` is the virtual environment, None for the user's own environment, or the one of the container
    that envcheck runs in.
    """

    recipe: Recipe
    folder: Path | None

    @property
    def title(self) -> Message:
        """Name for messages."""
        if find_own_job(self.recipe) is not None:
            return _("your own environment on this host")
        return _("{folder} on this host", folder=self.folder) if self.folder else _("the current container")

    @property
    def container(self) -> str:
        """Always ""."""
        return ""

    def placeholder_values(self, run: Path | None) -> dict[str, str]:
        """Return the interpreter, and with a run its output and log folders, for placeholders of the command."""
        found = {"python": str(self.folder / "bin" / "python")} if self.folder else {}
        return found if run is None else {**found, "output": str(run / "output"), "log_dir": str(run / "log")}

    def collect_facts(self, asked: StageQuestion) -> StageFacts:
        """Inspect this host and the virtual environment."""
        env = environment.read_environment(self.folder) if self.folder else None
        said = place_probe.probe_place(
            build_probe_request(asked, str(Path(asked.workdir or ".").absolute()), str(asked.runs))
        )
        # Memory and /dev/shm are in the machine's facts, which may be simulated.
        said |= {"marks": {}, "shm_bytes": None, "shm_free_bytes": None, "memory_bytes": None}
        return StageFacts(
            **parse_probe_answer(said),
            missing=tuple(environment.list_missing(self.recipe, self.folder, self._read_versions()))
            if self.folder
            else (),
            python=(env.python or "") if env else "",
            packages=env.packages if env else {},
        )

    def _read_versions(self) -> dict[str, str]:
        """Return commits of git checkouts and checksums of built packages."""
        assert self.folder
        commits = {each.directory: place_probe.read_commit(Path(each.directory)) for each in self.recipe.checkouts}
        made = sources.list_sums(VenvTarget(self.folder), self.recipe.builds)
        return {**{directory: commit for directory, commit in commits.items() if commit}, **made}

    def run_mark(self, run: Path) -> str:
        """Return the path of the run folder."""
        return str(run)

    def start_training(self, command: TrainingCommand, clean: CleanEnvironment, run: Path) -> HostTraining:
        """Start the launcher as a child process; StepError if it cannot be executed."""
        words = build_argv(command)
        (run / "log").mkdir(container_agent.PRIVATE, exist_ok=True)
        with (run / "log" / "launcher.log").open("ab") as log:
            try:
                child = runner.start_process(
                    words,
                    env=dict(clean.environment),
                    cwd=Path(command.workdir or run),
                    stdout=log.fileno(),
                    stderr=subprocess.STDOUT,
                )
            except OSError as err:
                raise StepError(
                    _("cannot start {program}: {reason}", program=words[0], reason=describe_os_error(err)),
                    _("see the command in {path}", path=run / "run.json"),
                ) from None
        own = command.keeps_environment and command.outputs
        return HostTraining(child, run, Path(command.workdir, command.outputs[0]) if own else run / "output")


class HostTraining:
    """A training whose launcher is a child process of envcheck."""

    def __init__(self, child: subprocess.Popen[bytes], run: Path, output: Path | None = None) -> None:
        self.child, self.run, self.family = child, run, ProcessTree(child.pid)
        self.output, self.began = output or run / "output", time.time()

    def poll(self) -> int | None:
        """Return the launcher's exit status, negative for a signal; None while it runs."""
        return self.child.poll()

    def end_training(self, save_s: float = 0.0, hurry: Callable[[], bool] = lambda: False) -> None:
        """End the launcher, which ends its workers, then all remaining processes of the run in any session."""
        if save_s and self.child.poll() is None:
            self._request_stop(time.monotonic() + save_s, hurry)
        if self.child.poll() is None:
            runner.terminate_group(self.child, GRACE_S)
        end_survivors(self.run)
        container_agent.remove_environment_dumps(self.run / "log")

    def _request_stop(self, until: float, hurry: Callable[[], bool]) -> None:
        """Send SIGTERM to the workers (not the launcher, which would end them before they save), and wait."""
        workers = list(self.family.alive.values()) or [psutil.Process(self.child.pid)]
        for process in workers:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGTERM)
        while self.child.poll() is None and time.monotonic() < until and not hurry():
            time.sleep(0.1)

    def list_checkpoints(self) -> list[str]:
        """Return the paths of this training's checkpoints, oldest first; the folder may hold those of earlier ones."""
        return [path for path in list_checkpoints(self.output) if _is_newer(Path(path), self.began)]


def _is_newer(path: Path, began: float) -> bool:
    """Whether a file in the folder, or the folder, was written after that time, with a margin for coarse clocks."""
    with contextlib.suppress(OSError):
        return max(each.stat().st_mtime for each in (path, *path.iterdir())) >= began - 2
    return False
