"""Read a file into what the rules evaluate: blocks, scripts, configurations, and the training jobs that they start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from envcheck.core.lint.context import LintContext, find_script_commands
from envcheck.core.lint.script_container import ScriptContainer
from envcheck.core.lint.script_model import ConfigBlock, ShellScript, ShellWord, SourceBlock, SourceFile
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import ENGINES
from envcheck.scripts import config_files, source_file
from envcheck.scripts.companion_config import attach_companion_config
from envcheck.scripts.docker_commands import find_containers
from envcheck.scripts.interpreter import compose, dockerfiles, walker
from envcheck.scripts.interpreter.kubernetes import read_pod_scripts
from envcheck.scripts.known_programs import find_family_read
from envcheck.scripts.made_paths import is_made_by_script, list_makers
from envcheck.scripts.pip_commands import find_pip_installs
from envcheck.scripts.shell_state import ShellSurroundings
from envcheck.scripts.training_jobs import find_first_jobs, find_jobs, make_config_job
from envcheck.scripts.vendor_words import load_vendor_words

# Training commands of a file that the rules judge: each rule compares them with all lines of their scripts, so this
# bounds the work.  The longest published launch script has nine.
MOST_JOBS = 100
_LARGE = 1 << 17  # characters that are searched for a vendor's signs
_CLEAR = 3  # times more signs of one vendor than of the next, and a document is for its cards
FAMILIES_ALONE = ("llamafactory", "paddle", "swift", "accelerate")


def read_context(
    file: SourceFile,
    machine: TargetMachine,
    device: str = "auto",
    kind: str = "",
    reader: TrainingJob | None = None,
) -> LintContext:
    """Return the context of a file.

    `device` is the vendor, "auto" to detect it from file and machine; `kind` the file kind, "" to detect it from name
    and text; `reader` is the job of another file that reads this configuration.
    """
    blocks = source_file.split_blocks(file, kind)
    path = _locate_script(file, blocks, machine)
    walked = walker.walk_blocks(blocks, ShellSurroundings(machine.variables, machine.find_file, path, path))
    read: list[ConfigBlock] = [config_files.parse_config(block) for block in blocks if block.kind in ("yaml", "json")]
    if reader is not None and len(read) == 1:
        read[0].family = find_family_read(reader) or read[0].family
    for script in walked:
        read += config_files.read_heredoc_configs(file, script)
    document = source_file.detect_kind(file, kind) == "document"
    if document:  # keys of other programs: only those of a training
        read = [config for config in read if config.family and not config.error]
    builds = [dockerfiles.read_dockerfile(block) for block in blocks if block.kind == "dockerfile"]
    services = [compose.read_services(config.block) for config in read if config.family == "compose"]
    pods = [read_pod_scripts(config.block) for config in read if config.family == "kubernetes" and not config.error]
    started = [script for each in pods for script in each]
    scripts = (
        *walked,
        *started,
        *(s for each in builds for s in each.scripts),
        *(s for _, each in services for s in each),
    )
    described = (*(c for each in builds for c in each.containers), *(c for each, _ in services for c in each))
    jobs, left = _collect_jobs(scripts, tuple(read), machine)
    sourced = [each for script in scripts for each in script.sourced]
    if device == "auto":
        by_machine = machine if jobs and not document and not pods else TargetMachine()
        device = _guess_vendor(_join_code(scripts, tuple(read), described), by_machine, document)
    return LintContext(
        file,
        scripts,
        tuple(read),
        machine,
        device,
        document,
        (*find_containers(find_script_commands(scripts, *ENGINES)), *described),
        described,
        tuple(step for each in builds for step in each.steps),
        tuple(find_pip_installs(scripts)),
        jobs,
        reader=reader if len(read) == 1 else None,
        launching=tuple(each.word for each in sourced if each.script is not None and _starts_training(each.script)),
        unread=tuple(word for script in scripts for word in _list_unread(script)),
        jobs_left_out=left,
    )


def _locate_script(file: SourceFile, blocks: list[SourceBlock], machine: TargetMachine) -> str:
    """The path of a file that is a script; "" if it runs elsewhere, or if the shell text is a part of the file."""
    is_script = len(blocks) == 1 and blocks[0].kind == "bash" and blocks[0].whole
    is_here = machine.live and machine.folder is not None
    return str(Path(machine.folder or "", Path(file.name).name).absolute()) if is_script and is_here else ""


def _collect_jobs(
    scripts: tuple[ShellScript, ...], configs_: tuple[ConfigBlock, ...], machine: TargetMachine
) -> tuple[tuple[TrainingJob, ...], int]:
    """The jobs that the rules judge, and how many more there are."""
    read, left = find_first_jobs(scripts, configs_, MOST_JOBS)
    found = [attach_companion_config(job, machine, configs_) for job in read]
    started = {id(job.config) for job in found}
    trainings = (each for each in configs_ if each.family in FAMILIES_ALONE and each.entries)
    if not left:  # else a configuration may belong to a job that was not read
        found += [make_config_job(each) for each in trainings if id(each) not in started]
    return tuple(found[:MOST_JOBS]), left + max(0, len(found) - MOST_JOBS)


def _starts_training(script: ShellScript) -> bool:
    return any(job.is_training for job in find_jobs(script, ()))


def _list_unread(script: ShellScript) -> Iterator[ShellWord]:
    """The sourced files that could not be read, without those that the script tests for or makes."""
    words = [each.word for each in script.sourced if each.script is None]
    made = list_makers(script) if words else None
    return (word for word in words if made is not None and not is_made_by_script(script, made, word.text))


def _join_code(
    scripts: tuple[ShellScript, ...], configs_: tuple[ConfigBlock, ...], described: tuple[ScriptContainer, ...]
) -> str:
    """The blocks without comments, and the images."""
    blocks = [*(each.block for each in scripts), *(each.block for each in configs_)]
    raw = b"\n".join(block.raw for block in blocks).decode("utf-8", "replace")
    images = (container.image.text for container in described if container.image)
    return "\n".join([re.sub(r"(?m)^[^\S\n]*#.*$", "", raw[:_LARGE]), *images])


def _guess_vendor(code: str, machine: TargetMachine, document: bool) -> str:
    """The vendor by the words of the code.

    If there are several or none, it is that of the machine: a training that names no devices uses those of the machine,
    if they are of one vendor.  A document about the cards of several vendors is for none of them.
    """
    signs = {
        name: words.signs for name, words in load_vendor_words().items() if words.signs
    }  # the most certain vendor first
    scores = {name: len(re.findall(pattern, code, re.IGNORECASE)) for name, pattern in signs.items()}
    signed = [name for name in sorted(scores, key=lambda name: -scores[name]) if scores[name]]
    if len(signed) == 1:
        return signed[0]
    if document and signed and scores[signed[0]] < _CLEAR * scores[signed[1]]:
        return ""
    found = machine.vendors or ()
    one = found[0] if len(found) == 1 else ""
    return one if not signed or one in signed else signed[0]
