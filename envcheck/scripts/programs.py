"""Whose program a training is: by its command, by the file or module that a launcher starts, by its configuration."""

from __future__ import annotations

from envcheck.core.lint.training_job import TrainingJob
from envcheck.scripts.launchers import BEHIND

_TOOLS = {
    "swift": "ms-swift",
    "megatron": "ms-swift megatron",
    "llamafactory-cli": "llamafactory",
    "lmf": "llamafactory",
    "erniekit": "erniekit",
    "paddleformers-cli": "paddleformers",
}
_FAMILIES = {"llamafactory": ("llamafactory",), "paddle": ("erniekit", "paddleformers"), "swift": ("ms-swift",)}


def command_of(job: TrainingJob) -> tuple[str, str]:
    """The kit's own command and verb, as ("swift", "sft"), also where a launcher starts its file; ("", "") for none."""
    if not job.launcher.program:
        name = job.at.text.rpartition("/")[2] if job.at is not None else job.launcher.name
        return (name if name in _TOOLS else job.launcher.name), job.verb or "train"
    text = job.program.text if job.program is not None and job.program.known else ""
    for pattern, name in BEHIND:
        if found := pattern.search(text):
            return name, (found[1] if pattern.groups else "train")
    return "", ""


def tools(job: TrainingJob) -> tuple[str, ...]:
    """The packages whose program it may be; () where nobody knows."""
    name, _ = command_of(job)
    if name in _TOOLS:
        return (_TOOLS[name],)
    return _FAMILIES.get(job.config.family, ()) if job.config is not None and not job.launcher.name else ()
