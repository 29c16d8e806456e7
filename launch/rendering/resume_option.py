"""The option with which a framework continues a training from a checkpoint; resume.toml lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envcheck.core.lint.own_job import COMMAND, is_script_source
from envcheck.core.toml_file import load_own_record


@dataclass(frozen=True)
class ResumeOption:
    """An entry of resume.toml."""

    framework: str
    option: str
    source: str
    of: str = ""


@dataclass(frozen=True)
class ResumeTable:
    """The content of resume.toml."""

    options: tuple[ResumeOption, ...]


@cache
def load_resume_options() -> tuple[ResumeOption, ...]:
    """Return all entries."""
    return load_own_record(ResumeTable, Path(__file__).with_name("resume.toml")).options


def find_resume_option(framework: str, words: Sequence[str] = (), own_source: str = COMMAND) -> str | None:
    """Return the option that adds a checkpoint to a command of the framework; None if there is none.

    `words` are the command, `own_source` is OwnJob.source: nothing can be added to what a script starts.
    """
    if is_script_source(own_source):
        return None
    fitting = (one for one in load_resume_options() if one.framework == framework)
    return next((one.option for one in fitting if not one.of or any(one.of in word for word in words)), None)
