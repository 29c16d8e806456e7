"""A training on this host: in a virtual environment, or in the container that envcheck itself runs in."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from envcheck.collect import answer_sources
from envcheck.core import process as runner
from envcheck.core.messages import Message, _
from envcheck.job.command import PROGRAMS, TrainingCommand
from installers.recipes.own_recipe import uses_own_environment
from installers.recipes.recipe import Recipe
from installers.software import sources
from installers.state import environment
from installers.targets.target import VenvTarget
from launch.programs import container_agent, place_probe
from launch.run.host_training import STATUS_FILE, HostTraining
from launch.run.launcher import build_argv
from launch.targets.clean_environment import MARK, CleanEnvironment
from launch.targets.stage import StageFacts, StageQuestion, build_probe_request, parse_probe_answer


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
        if self.folder is None and uses_own_environment(self.recipe):
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
        request = build_probe_request(asked, str(Path(asked.workdir or ".").absolute()), str(asked.runs))
        said = place_probe.probe_place({**request, "system_root": answer_sources.simulated_root()})
        # Memory and /dev/shm are in the machine's facts, which may be simulated.
        said |= {"marks": {}, "shm_bytes": None, "shm_free_bytes": None, "memory_bytes": None}
        return StageFacts(
            **parse_probe_answer(said),
            missing=tuple(environment.list_missing(self.recipe, self.folder, self._read_versions()))
            if self.folder
            else (),
            is_verified=self.folder is not None,
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
        """Start the launcher below a shim that keeps its exit status; StepError if it cannot be executed."""
        (run / "log").mkdir(container_agent.PRIVATE, exist_ok=True)
        job = {
            "argv": list(build_argv(command)),
            "environment": dict(clean.environment),
            "workdir": str(command.workdir or run),
            "status_file": str(run / STATUS_FILE),
        }
        with (run / "log" / "launcher.log").open("ab") as log:
            shim = runner.start_process(
                (sys.executable, "-I", "-S", str(PROGRAMS / "launcher_shim.py")),
                env={"PATH": os.environ.get("PATH", os.defpath), MARK: str(run)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log.fileno(),
            )
        return HostTraining(shim, job, run)
