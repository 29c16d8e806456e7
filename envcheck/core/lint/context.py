"""What a rule reads: the file's scripts and configurations, the trainings they start, and the machine meant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from envcheck.core.lint.model import Command, Config, Script, Source
from envcheck.core.lint.pip_install import PipInstall
from envcheck.core.lint.script_container import ScriptContainer
from envcheck.core.lint.script_recipe import ScriptRecipe
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import AWAY, ENGINES, bare


@dataclass(frozen=True)
class LintContext:
    """`device` is the vendor that is meant: as asked, else by the script's words, else the machine's one, else "".

    `containers` are those of docker run, then those of compose files and Dockerfiles, which are `described`: no
    command starts them.  `steps` are the scripts of a Dockerfile's RUN, among the others.  `recipe` is that of a script
    which envcheck wrote.
    """

    source: Source
    scripts: tuple[Script, ...] = ()
    configs: tuple[Config, ...] = ()
    machine: TargetMachine = field(default_factory=TargetMachine)
    device: str = ""
    document: bool = False
    containers: tuple[ScriptContainer, ...] = ()
    described: tuple[ScriptContainer, ...] = ()
    steps: tuple[Script, ...] = ()
    installs: tuple[PipInstall, ...] = ()
    jobs: tuple[TrainingJob, ...] = ()
    recipe: ScriptRecipe | None = None

    def container_of(self, job: TrainingJob) -> ScriptContainer | None:
        """What it is started in: by its command, or the service whose key stands nearest above it."""
        if not job.command.elsewhere and bare(job.command) not in ENGINES:
            return None
        run = [each for each in self.containers if each.command.start <= job.start < each.command.end]
        services = [each for each in self.described if each.service and each.command.start <= job.start]
        merged = any(entry.name == "<<" for config in self.configs for entry in config.entries)
        found = run or ([] if merged else services)
        return max(found, key=lambda each: each.command.start) if found else None

    def away(self, job: TrainingJob) -> bool:
        """Whether it starts on another machine than the script: by ssh, or where a scheduler puts it."""
        if any(text.startswith("#SBATCH") for _, _, text in job.script.comments):
            return True
        return any(start <= job.start < end for start, end in self._away)

    @cached_property
    def _away(self) -> list[tuple[int, int]]:
        return [(command.start, command.end) for _, command in self.commands(*AWAY)]

    def commands(self, *names: str) -> Iterator[tuple[Script, Command]]:
        """All commands, or those of programs of these names."""
        return commands_of(self.scripts, *names)

    @property
    def here(self) -> bool | None:
        """The machine that was looked at is one for which the script is: it has such cards, or it names none."""
        found = self.machine.vendors
        if found is None:
            return None
        wanted = self.device or "cpu"
        return wanted == "cpu" or wanted in found

    @property
    def unasked(self) -> str:
        """Why the machine at hand gives no answer: nobody asked one, or it is not such a one as the script is for."""
        which = "this" if self.machine.live else "that"
        if self.here is False:
            return f"{which} machine has no {self.device}, which the script is for"
        return f"{which} machine does not say" if self.machine.live else "that machine is not this one"


def commands_of(scripts: tuple[Script, ...], *names: str) -> Iterator[tuple[Script, Command]]:
    """All commands of the scripts, or those of programs of these names, however they are wrapped."""
    for script in scripts:
        for command in script.commands:
            if not names or bare(command) in names:
                yield script, command
