"""Which program a training belongs to: by command, by the file or module that a launcher starts, or by its keys."""

from __future__ import annotations

from envcheck.core.lint.training_job import TrainingJob
from envcheck.scripts.known_programs import find_started_program
from envcheck.scripts.launchers import KIT_PROGRAMS

_TOOLS = {
    "swift": "ms-swift",
    "megatron": "ms-swift megatron",
    "llamafactory-cli": "llamafactory",
    "lmf": "llamafactory",
    "erniekit": "erniekit",
    "paddleformers-cli": "paddleformers",
    "axolotl": "axolotl",
    "tune": "torchtune",
}
_FAMILIES = {"llamafactory": ("llamafactory",), "paddle": ("erniekit", "paddleformers"), "swift": ("ms-swift",)}
_FAMILIES |= {"axolotl": ("axolotl",), "torchtune": ("torchtune",)}


def find_command(job: TrainingJob) -> tuple[str, str]:
    """Return command and verb of the program, such as ("swift", "sft"), also if a launcher starts its file; ("", "") if
    unknown.
    """
    if not job.launcher.program:
        name = job.at.text.rpartition("/")[2] if job.at is not None else job.launcher.name
        return (name if name in _TOOLS else job.launcher.name), job.verb or "train"
    text = job.program.text if job.program is not None and job.program.is_known else ""
    for pattern, name in KIT_PROGRAMS:
        if found := pattern.search(text):
            return name, (found[1] if pattern.groups else "train")
    return "", ""


def find_packages(job: TrainingJob) -> tuple[str, ...]:
    """Return the packages to which the program may belong; empty if unknown."""
    name, _ = find_command(job)
    if name in _TOOLS:
        return (_TOOLS[name],)
    return _FAMILIES.get(job.config.family, ()) if job.config is not None and not job.launcher.name else ()


def find_switch(job: TrainingJob) -> str:
    """Return the variable that makes the program read other options, such as USE_V1; "" in its usual mode."""
    row = find_started_program(job.command.words, job.command.environment)
    return row.switch if row is not None else ""
