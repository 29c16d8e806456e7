"""Build from a recipe's clones, or take the result from a bundle or from this host's cache."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envcheck.core.messages import Message, _, verbatim
from installers.plan.requirement import UnmetRequirement
from installers.plan.step import Step
from installers.recipes.recipe import RecipeBuild
from installers.software import builds, sources
from installers.software.builds import BuildState
from installers.state.journal import Entry
from installers.steps import checkout
from installers.steps.shell_script import ScriptTarget, fill_word, quote_double
from installers.steps.target_state import DesiredState, TargetState, locate_command
from installers.steps.work import StepContext

_VERSION = 'import sys; print("%d.%d" % sys.version_info[:2])'
_EXEC = 'exec "$@"'
_ONE_FILE = 'set -- $1; [ $# = 1 ] && [ -e "$1" ] && printf "%s\\n" "$1"'


@dataclass(frozen=True, kw_only=True)
class BuildSource(Step):
    """Runs one build of the recipe in its clone."""

    name: ClassVar[str] = "build"
    tells_time: ClassVar[bool] = True

    build: RecipeBuild

    @property
    def duration_s(self) -> int:
        """Return the deadline of the build in seconds."""
        return self.build.deadline_s

    @property
    def outside_folder(self) -> str:
        return self.build.checkout


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[BuildSource]:
    for build in builds.list_builds(desired.recipe, desired.role):
        need = builds.plan_build(build, current.sources.builds.get(build.name, BuildState("")))
        if isinstance(need, UnmetRequirement):
            title, why, changes, undo = need.step_words
            if build.installs and undo:
                undo = verbatim(f"{current.packages_place.python} -m {undo}")
            else:
                undo = locate_command(undo, current)
            yield BuildSource(title, why, changes, undo, need.size_mib, build=build)


def apply(step: BuildSource, work: StepContext) -> Message:
    before = checkout.list_untracked(work, step.build.checkout)
    result = sources.perform_build(work.recipe, work.ground, step.build, work.role, work.report_text, work.note_wheels)
    checkout.note_built(work, step.build.checkout, before, step.name)
    return (
        _("{name} taken from the cache", name=step.build.name)
        if result.from_cache
        else _("{name} built", name=step.build.name)
    )


def verify(step: BuildSource, work: StepContext) -> Message | None:
    """Return None: `apply` already checks the built files or the installed version."""
    return None


def undo(entry: Entry, folder: Path) -> Message:
    """Undo the clone, which contains everything that the build created."""
    return checkout.undo(entry, folder)


def script(step: BuildSource, at: ScriptTarget) -> Iterator[str]:
    """Yield the build's commands, run in the checkout, and the installation of the one wheel that they create."""
    build, folder = step.build, shlex.quote(step.build.checkout)
    texts = (*build.environment.values(), *(part for command in build.commands for part in command))
    used = {token for token in ("jobs", "python_version") if any(f"{{{token}}}" in text for text in texts)}
    if "jobs" in used:
        yield 'jobs="${JOBS:-$(nproc)}"'
    if "python_version" in used:
        yield f"python_version=$({at.command_prefix}{at.python_word} -c {shlex.quote(_VERSION)} | tail -n 1)"
    words: Mapping[str, str] = {
        "python": at.python_word, "python_version": '"$python_version"', "jobs": '"$jobs"', "checkout": folder,
    }  # fmt: skip
    given = "".join(f"{name}={fill_word(text, words)} " for name, text in build.environment.items())
    before = (f"env {given}" if given else "") + _render_prepend(build)
    for command in build.commands:
        yield f"at {folder} {before}{' '.join(fill_word(part, words) for part in command)}"
    if build.installs:
        pattern = shlex.quote(f"{build.checkout}/{build.yields}")
        yield f"wheel=$({at.command_prefix}sh -c {quote_double(_ONE_FILE)} sh {pattern} | tail -n 1)"
        yield at.pip_command('--no-deps --force-reinstall "$wheel"')
        yield at.pip_command(f'{at.limits_option}"$wheel"')


def _render_prepend(build: RecipeBuild) -> str:
    """Return a prefix that extends path variables; it expands them in the target, as they may differ there."""
    lines = "".join(f'export {n}={shlex.quote(v)}"${{{n}:+:${n}}}"; ' for n, v in build.prepend.items())
    return f"sh -c {quote_double(lines + _EXEC)} sh " if lines else ""
