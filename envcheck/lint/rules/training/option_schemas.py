"""Which lists of options there are for a job's program, by what is installed or may be."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.training_job import TrainingJob
from envcheck.lint.context.package_versions import installed
from envcheck.scripts.programs import command_of
from launch.rendering import schema
from launch.rendering.schema import OptionSchema

# Options that every one of them has, whatever the list says: the parsers' own.
_ALWAYS = frozenset(("help", "h", "local_rank", "local-rank", "config"))


@dataclass(frozen=True)
class Kit:
    """The lists that may hold; `version` is what is known to be installed."""

    known: tuple[OptionSchema, ...]
    version: str | None

    @property
    def complete(self) -> bool:
        return all(each.complete for each in self.known)

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(each.names for each in self.known))

    def has(self, name: str) -> bool:
        return name.replace("-", "_") in _ALWAYS or any(each.has(name) for each in self.known)

    def begun(self, name: str) -> list[str]:
        """The names that begin so: the parsers take an abbreviation where there is one."""
        plain = name.replace("-", "_") if any(each.dashes for each in self.known) else name
        return [each for each in self.names if each.startswith(plain)]

    @property
    def title(self) -> str:
        programs = dict.fromkeys(each.title or each.program for each in self.known)
        return " or ".join(programs)


def kit_of(context: LintContext, job: TrainingJob) -> Kit | None:
    """None: the program is none that envcheck has a list for."""
    words = _words(job)
    if not words:
        return None
    found = [each for each in schema.lists() if any(_is(word, each.program) for word in words)]
    if not found:
        return None
    version = installed(context, found[0].package)
    fitting = [each.at(version) for each in found if schema.fits(version, each.versions)] if version else found
    return Kit(tuple(fitting), version) if fitting else None


def of_family(context: LintContext, family: str) -> Kit | None:
    """As `kit_of`, for a configuration that only its keys tell."""
    programs = {"llamafactory": ("src/train.py",), "paddle": ("erniekit", "paddleformers-cli"), "swift": ("swift sft",)}
    found = tuple(each for each in schema.lists() if each.program in programs.get(family, ()))
    return Kit(found, installed(context, found[0].package)) if found else None


def _words(job: TrainingJob) -> list[str]:
    """How the lists call its program."""
    name, verb = command_of(job)
    if name == "megatron":
        return []
    if name == "llamafactory-cli":
        return ["src/train.py"] if verb == "train" else []
    if name:
        return [f"{name} {verb}", *([name] if verb == "train" else [])]
    return [job.program.text] if job.program is not None and job.program.known and _certain(job) else []


def _certain(job: TrainingJob) -> bool:
    """src/train.py is the name of many a program: LLaMA-Factory's is told by its options."""
    if job.program is None or not re.search(r"(^|/)src/train\.py$", job.program.text):
        return True
    names = {each.plain for each in job.options}
    return bool(names & {"finetuning_type", "stage", "cutoff_len"}) or (not job.options and job.config is not None)


def _is(word: str, program: str) -> bool:
    return word == program or word.endswith(f"/{program}")
