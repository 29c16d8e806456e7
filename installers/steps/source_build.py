"""What is built from a recipe's clones, or taken from a bundle or from this host's cache."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from installers.plan.requirement import Need
from installers.plan.step import Step
from installers.recipes.recipe import Build
from installers.software import builds, sources
from installers.software.builds import BuildState
from installers.state.journal import Entry
from installers.steps import checkout
from installers.steps.shell_script import ScriptTarget, fill_word, quote_double
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import Work

_VERSION = 'import sys; print("%d.%d" % sys.version_info[:2])'
_EXEC = 'exec "$@"'
_ONE_FILE = 'set -- $1; [ $# = 1 ] && [ -e "$1" ] && printf "%s\\n" "$1"'


@dataclass(frozen=True, kw_only=True)
class BuildSource(Step):
    """In its clone."""

    name: ClassVar[str] = "build"
    tells_time: ClassVar[bool] = True

    build: Build

    @property
    def seconds(self) -> int:
        """The deadline: the most that it may take."""
        return self.build.deadline_s

    @property
    def outside(self) -> str:
        return self.build.checkout


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[BuildSource]:
    for build in builds.of_role(desired.recipe, desired.role):
        need = builds.need(build, current.sources.builds.get(build.name, BuildState("")))
        if isinstance(need, Need):
            yield BuildSource(*need.step_words, need.size_mib, build=build)


def apply(step: BuildSource, work: Work) -> str:
    before = checkout.list_untracked(work, step.build.checkout)
    result = sources.build(work.recipe, work.ground, step.build, work.role, work.say, work.note_wheels)
    checkout.note_built(work, step.build.checkout, before, step.name)
    return f"{step.build.name} taken from the cache" if result.from_cache else f"{step.build.name} built"


def verify(step: BuildSource, work: Work) -> str | None:
    """Nothing more: its files, or the version that was installed, were looked at before it counted as done."""
    return None


def undo(entry: Entry, folder: Path) -> str:
    """What it left lies in its clone, and goes or stays with that."""
    return checkout.undo(entry, folder)


def script(step: BuildSource, at: ScriptTarget) -> Iterator[str]:
    """Each command in the checkout; what they make is a pattern, of which one file must be there."""
    build, folder = step.build, shlex.quote(step.build.checkout)
    yield 'jobs="${JOBS:-$(nproc)}"'
    yield f"python_version=$({at.before}{at.python} -c {shlex.quote(_VERSION)} | tail -n 1)"
    words: Mapping[str, str] = {
        "python": at.python, "python_version": '"$python_version"', "jobs": '"$jobs"', "checkout": folder,
    }  # fmt: skip
    given = "".join(f"{name}={fill_word(text, words)} " for name, text in build.environment.items())
    before = (f"env {given}" if given else "") + _prepended(build)
    for command in build.commands:
        yield f"at {folder} {before}{' '.join(fill_word(part, words) for part in command)}"
    if build.installs:
        pattern = shlex.quote(f"{build.checkout}/{build.yields}")
        yield f"wheel=$({at.before}sh -c {quote_double(_ONE_FILE)} sh {pattern} | tail -n 1)"
        yield at.pip('--no-deps --force-reinstall "$wheel"')
        yield at.pip(f'{at.limits}"$wheel"')


def _prepended(build: Build) -> str:
    """A container's path variables are known there only."""
    lines = "".join(f'export {n}={shlex.quote(v)}"${{{n}:+:${n}}}"; ' for n, v in build.prepend.items())
    return f"sh -c {quote_double(lines + _EXEC)} sh " if lines else ""
