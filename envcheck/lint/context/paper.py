"""What the rules read: the file's scripts and configurations, the jobs they start, and the machine meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from envcheck.core.lint.model import UNKNOWN, Command, Config, Script, Source
from envcheck.lint.context.package_versions import Install, installs
from envcheck.scripts.companion_config import lend
from envcheck.scripts.containers import ENGINES, Container, of_commands
from envcheck.scripts.interpreter.inner import AWAY
from envcheck.scripts.jobs import Job, alone, jobs_of
from envcheck.scripts.machine import Machine
from envcheck.scripts.wrappers import bare

FAMILIES_ALONE = ("llamafactory", "paddle", "swift", "accelerate")
# What gives away for which cards a script is, the surest first.
_SIGNS = {
    "npu": r"--npus\b|--device[ =\"']+npu|/dev/davinci|ascend|\bnpu-smi|-npu[:\s\-_]|torch[_-]npu|HCCL_",
    "iluvatar": r"iluvatar|ixuca|\bixsmi\b|corex",
    "nvidia": r"nvidia-smi|--gpus[ =]all|nvcr\.io|cuda-\d|NVIDIA_VISIBLE",
}


@dataclass(frozen=True)
class Paper:
    """`device` is the vendor that is meant: as asked, else by the script's words, else the machine's one, else "".

    `described` are containers that no command starts; `steps` the scripts of a Dockerfile's RUN, among the others.
    """

    source: Source
    scripts: tuple[Script, ...] = ()
    configs: tuple[Config, ...] = ()
    machine: Machine = field(default_factory=Machine)
    asked: str = "auto"
    document: bool = False
    described: tuple[Container, ...] = ()
    steps: tuple[Script, ...] = ()

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """By docker run, then those of compose files and Dockerfiles."""
        return (*of_commands(self.commands(*ENGINES)), *self.described)

    @cached_property
    def installs(self) -> tuple[Install, ...]:
        return tuple(installs(self.scripts))

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        found = [
            lend(job, self.machine, self.configs) for script in self.scripts for job in jobs_of(script, self.configs)
        ]
        started = {id(job.config) for job in found}
        trainings = (each for each in self.configs if each.family in FAMILIES_ALONE)
        return (*found, *(alone(each) for each in trainings if id(each) not in started and each.entries))

    def container_of(self, job: Job) -> Container | None:
        """What it is started in: by its command, or the service whose key stands nearest above it."""
        if not job.command.elsewhere and bare(job.command) not in ENGINES:
            return None
        run = [each for each in self.containers if each.command.start <= job.start < each.command.end]
        services = [each for each in self.described if each.service and each.command.start <= job.start]
        merged = any(entry.name == "<<" for config in self.configs for entry in config.entries)
        found = run or ([] if merged else services)
        return max(found, key=lambda each: each.command.start) if found else None

    def away(self, job: Job) -> bool:
        """Whether it starts on another machine than the script: by ssh, or where a scheduler puts it."""
        if any(text.startswith("#SBATCH") for _, _, text in job.script.comments):
            return True
        return any(start <= job.start < end for start, end in self._away)

    @cached_property
    def _away(self) -> list[tuple[int, int]]:
        return [(command.start, command.end) for _, command in self.commands(*AWAY)]

    @cached_property
    def device(self) -> str:
        if self.asked != "auto":
            return self.asked
        scores = {name: len(re.findall(pattern, self._code, re.IGNORECASE)) for name, pattern in _SIGNS.items()}
        signed = [name for name in sorted(scores, key=lambda name: -scores[name]) if scores[name]]
        if not signed or (len(signed) > 1 and self._of_machine in signed):  # of several, the cards that are there
            return self._of_machine
        return signed[0]

    @property
    def _of_machine(self) -> str:
        """A training that names no cards starts on those that the machine has, where they are of one vendor."""
        found = (self.machine.vendors or ()) if self.jobs and not self.document else ()
        return found[0] if len(found) == 1 else ""

    @cached_property
    def _code(self) -> str:
        """The blocks without their comments."""
        blocks = [*(each.block for each in self.scripts), *(each.block for each in self.configs)]
        raw = b"\n".join(block.raw for block in blocks).decode("utf-8", "replace")
        images = (container.image.text for container in self.described if container.image)
        return "\n".join([re.sub(r"(?m)^\s*#.*$", "", raw), *images])

    def commands(self, *names: str) -> Iterator[tuple[Script, Command]]:
        for script in self.scripts:
            for command in script.commands:
                if not names or bare(command) in names:
                    yield script, command

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


def number(text: str | None) -> int | None:
    """A whole number as options have it: 8, "8", 1_000 and 1e3 are none that every parser takes."""
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,12}", text.strip()) else None


def figure(text: str | None) -> float | None:
    try:
        return float(text) if text is not None and UNKNOWN not in text else None
    except ValueError:
        return None
