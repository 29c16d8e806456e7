"""What the rules read: the file's scripts and configurations, the jobs they start, and the machine meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from envcheck.lint.jobs import Job, alone, jobs_of
from envcheck.lint.machine import Machine
from envcheck.lint.model import UNKNOWN, Command, Config, Script, Source, Word

# What gives away for which cards a script is, the surest first.
_SIGNS = {
    "npu": r"--npus\b|--device[ =\"']+npu|/dev/davinci|ascend|\bnpu-smi|-npu[:\s\-_]|torch[_-]npu|HCCL_",
    "iluvatar": r"iluvatar|ixuca|\bixsmi\b|corex",
    "nvidia": r"nvidia-smi|--gpus[ =]all|nvcr\.io|cuda-\d|\+cu1|NVIDIA_VISIBLE",
}


@dataclass(frozen=True)
class Paper:
    """`device` is the vendor that is meant: as asked, else by the script's own words, else ""; `machine` the facts."""

    source: Source
    scripts: tuple[Script, ...] = ()
    configs: tuple[Config, ...] = ()
    machine: Machine = field(default_factory=Machine)
    asked: str = "auto"
    document: bool = False

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        found = [job for script in self.scripts for job in jobs_of(script, self.configs)]
        started = {id(job.config) for job in found}
        trainings = (each for each in self.configs if each.family in ("llamafactory", "paddle", "swift"))
        return (*found, *(alone(each) for each in trainings if id(each) not in started and each.entries))

    @cached_property
    def device(self) -> str:
        if self.asked != "auto":
            return self.asked
        scores = {name: len(re.findall(pattern, self._code, re.IGNORECASE)) for name, pattern in _SIGNS.items()}
        best = max(scores, key=lambda name: scores[name])
        return best if scores[best] else ""

    @cached_property
    def _code(self) -> str:
        """The blocks without their comments."""
        blocks = [*(each.block for each in self.scripts), *(each.block for each in self.configs)]
        raw = b"\n".join(block.raw for block in blocks).decode("utf-8", "replace")
        return re.sub(r"(?m)^\s*#.*$", "", raw)

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


WRAPPERS = {
    "sudo": "ugpCD",
    "env": "uC",
    "nohup": "",
    "exec": "a",
    "time": "fo",
    "nice": "n",
    "stdbuf": "ioe",
    "setsid": "",
    "command": "",
    "taskset": "c",
    "numactl": "mNCp",
    "timeout": "ks",
    "ionice": "cn",
}
_TAKES_ONE = ("timeout", "taskset")  # a word of their own before the command: the limit, the mask


def unwrapped(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words of the program that is started in the end: without sudo, env, nohup, timeout and the like."""
    for _ in range(6):
        name = words[0].text.rpartition("/")[2] if words and words[0].known else ""
        if name not in WRAPPERS or len(words) < 2:
            return words
        at = 1
        while at < len(words) and (words[at].text.startswith("-") or (name == "env" and "=" in words[at].text)):
            flag = words[at].text
            takes = flag[:1] == "-" and flag[:2] != "--" and len(flag) == 2 and flag[1] in WRAPPERS[name]
            at += 1 + takes
        if name in _TAKES_ONE and at < len(words) and (name == "timeout" or words[at - 1].text not in ("-c",)):
            at += 1
        words = words[at:]
    return words


def bare(command: Command) -> str:
    """The name of the program, without what wraps it."""
    words = unwrapped(command.words)
    return words[0].text.rpartition("/")[2] if words and words[0].known else ""


def number(text: str | None) -> int | None:
    """A whole number as options have it: 8, "8", 1_000 and 1e3 are none that every parser takes."""
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,12}", text.strip()) else None


def figure(text: str | None) -> float | None:
    try:
        return float(text) if text is not None and UNKNOWN not in text else None
    except ValueError:
        return None
