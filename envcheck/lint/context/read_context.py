"""Reads a file into what the rules judge: its blocks, their scripts and configurations, the trainings they start."""

from __future__ import annotations

import re

from envcheck.core.lint.context import LintContext, commands_of
from envcheck.core.lint.model import Config, Script, Source
from envcheck.core.lint.script_container import ScriptContainer
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import ENGINES
from envcheck.scripts import configs, source
from envcheck.scripts.companion_config import lend
from envcheck.scripts.docker_commands import containers_of_commands
from envcheck.scripts.interpreter import compose, dockerfiles, walker
from envcheck.scripts.jobs import alone, jobs_of
from envcheck.scripts.pip_commands import installs_of
from envcheck.scripts.vendor_words import vendor_words

FAMILIES_ALONE = ("llamafactory", "paddle", "swift", "accelerate")


def read_context(file: Source, machine: TargetMachine, device: str = "auto", kind: str = "") -> LintContext:
    """`device` is the vendor that is meant, "auto" for what the file and the machine say; `kind` the file's, "" for
    what its name and text say.
    """
    blocks = source.blocks(file, kind)
    walked = walker.walk(blocks)
    read: list[Config] = [configs.read(block) for block in blocks if block.kind in ("yaml", "json")]
    for script in walked:
        read += configs.of_heredocs(file, script)
    document = source.kind_of(file, kind) == "document"
    if document:  # keys of other programs: only what is known to be a training's
        read = [config for config in read if config.family]
    builds = [dockerfiles.read(block) for block in blocks if block.kind == "dockerfile"]
    services = [compose.read(config.block) for config in read if config.family == "compose"]
    scripts = (*walked, *(s for each in builds for s in each.scripts), *(s for _, each in services for s in each))
    described = (*(c for each in builds for c in each.containers), *(c for each, _ in services for c in each))
    jobs = _jobs(scripts, tuple(read), machine)
    if device == "auto":
        by_machine = machine if jobs and not document else TargetMachine()
        device = _meant(_code(scripts, tuple(read), described), by_machine)
    return LintContext(
        file,
        scripts,
        tuple(read),
        machine,
        device,
        document,
        (*containers_of_commands(commands_of(scripts, *ENGINES)), *described),
        described,
        tuple(step for each in builds for step in each.steps),
        tuple(installs_of(scripts)),
        jobs,
    )


def _jobs(scripts: tuple[Script, ...], configs_: tuple[Config, ...], machine: TargetMachine) -> tuple[TrainingJob, ...]:
    found = [lend(job, machine, configs_) for script in scripts for job in jobs_of(script, configs_)]
    started = {id(job.config) for job in found}
    trainings = (each for each in configs_ if each.family in FAMILIES_ALONE)
    return (*found, *(alone(each) for each in trainings if id(each) not in started and each.entries))


def _code(scripts: tuple[Script, ...], configs_: tuple[Config, ...], described: tuple[ScriptContainer, ...]) -> str:
    """The blocks without their comments, and the images."""
    blocks = [*(each.block for each in scripts), *(each.block for each in configs_)]
    raw = b"\n".join(block.raw for block in blocks).decode("utf-8", "replace")
    images = (container.image.text for container in described if container.image)
    return "\n".join([re.sub(r"(?m)^\s*#.*$", "", raw), *images])


def _meant(code: str, machine: TargetMachine) -> str:
    """By the words of the code.  Of several vendors it is that of the machine, as where there is no sign at all: a
    training that names no cards starts on those that the machine has, where they are of one vendor.
    """
    signs = {name: words.signs for name, words in vendor_words().items() if words.signs}  # the surest vendor first
    scores = {name: len(re.findall(pattern, code, re.IGNORECASE)) for name, pattern in signs.items()}
    signed = [name for name in sorted(scores, key=lambda name: -scores[name]) if scores[name]]
    if len(signed) == 1:
        return signed[0]
    found = machine.vendors or ()
    one = found[0] if len(found) == 1 else ""
    return one if not signed or one in signed else signed[0]
