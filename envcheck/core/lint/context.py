"""The input of a rule: the file's scripts and configurations, their training jobs, and the target host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from envcheck.core.lint.pip_install import PipInstall
from envcheck.core.lint.script_container import ScriptContainer
from envcheck.core.lint.script_model import ConfigBlock, ShellCommand, ShellScript, ShellWord, SourceFile
from envcheck.core.lint.script_recipe import ScriptRecipe
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import ENGINES, OTHER_MACHINE_COMMANDS, program_name
from envcheck.core.messages import Message, _


@dataclass(frozen=True)
class LintContext:
    """`device` is the vendor: as requested, else by the script's words, else the host's only vendor, else "".

    `containers` are those of docker run, followed by those of compose files and Dockerfiles, which are also in
    `described`: no command starts them.  `steps` are the scripts of a Dockerfile's RUN instructions, also in `scripts`.
    `reader` is the job of another file that reads this configuration.  `recipe` is set for a script that envcheck
    wrote.  `launching` are sourced files that start a training, which is not in `jobs`; `unread` are sourced files that
    were not read.
    """

    source: SourceFile
    scripts: tuple[ShellScript, ...] = ()
    configs: tuple[ConfigBlock, ...] = ()
    machine: TargetMachine = field(default_factory=TargetMachine)
    device: str = ""
    document: bool = False
    containers: tuple[ScriptContainer, ...] = ()
    described: tuple[ScriptContainer, ...] = ()
    steps: tuple[ShellScript, ...] = ()
    installs: tuple[PipInstall, ...] = ()
    jobs: tuple[TrainingJob, ...] = ()
    reader: TrainingJob | None = None
    recipe: ScriptRecipe | None = None
    launching: tuple[ShellWord, ...] = ()
    unread: tuple[ShellWord, ...] = ()
    jobs_left_out: int = 0  # training commands beyond the limit, which are not judged

    def find_container(self, job: TrainingJob) -> ScriptContainer | None:
        """Return the container that runs the job: of its command, or the nearest service above it; None on the host."""
        if not job.command.elsewhere and program_name(job.command) not in ENGINES:
            return None
        run = [each for each in self.containers if each.command.start <= job.start < each.command.end]
        services = [each for each in self.described if each.service and each.command.start <= job.start]
        merged = any(entry.name == "<<" for config in self.configs for entry in config.entries)
        found = run or ([] if merged else services)
        return max(found, key=lambda each: each.command.start) if found else None

    def is_remote(self, job: TrainingJob) -> bool:
        """Return whether the job runs on another host: by ssh, or in a scheduler."""
        if any(text.startswith("#SBATCH") for _unused, _unused, text in job.script.comments):
            return True
        return any(start <= job.start < end for start, end in self._remote_spans)

    @cached_property
    def _remote_spans(self) -> list[tuple[int, int]]:
        return [(command.start, command.end) for _unused, command in self.find_commands(*OTHER_MACHINE_COMMANDS)]

    def find_commands(self, *names: str) -> Iterator[tuple[ShellScript, ShellCommand]]:
        """Return all commands, or those of programs with these names."""
        if not names:
            return find_script_commands(self.scripts)
        found = (each for name in dict.fromkeys(names) for each in self._programs.get(name, ()))
        return ((script, command) for _unused, script, command in sorted(found, key=lambda each: each[0]))

    @cached_property
    def _programs(self) -> dict[str, list[tuple[int, ShellScript, ShellCommand]]]:
        """The commands by their programs, numbered: most rules ask for a few programs."""
        found: dict[str, list[tuple[int, ShellScript, ShellCommand]]] = {}
        for number, (script, command) in enumerate(find_script_commands(self.scripts)):
            found.setdefault(program_name(command), []).append((number, script, command))
        return found

    @property
    def is_for_this_machine(self) -> bool | None:
        """Whether the target host has the script's devices, or the script needs none; None if unknown."""
        found = self.machine.vendors
        if found is None:
            return None
        wanted = self.device or "cpu"
        return wanted == "cpu" or wanted in found

    @property
    def unknown_reason(self) -> Message:
        """Why the target host gives no answer: no facts, or another device than the script's."""
        if self.is_for_this_machine is False and self.machine.live:
            return _("the script is for {device}, and this host has no such device", device=self.device)
        if self.is_for_this_machine is False:
            return _("the script is for {device}, and that host has no such device", device=self.device)
        return _("no data from this host") if self.machine.live else _("the target is another host")


def find_script_commands(scripts: tuple[ShellScript, ...], *names: str) -> Iterator[tuple[ShellScript, ShellCommand]]:
    """Yield all commands of the scripts, or those of programs with these names, without their wrappers."""
    for script in scripts:
        for command in script.commands:
            if not names or program_name(command) in names:
                yield script, command
