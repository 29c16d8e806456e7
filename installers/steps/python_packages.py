"""Packages of one index, put into the target by its pip: at the recipe's versions, or at a lock's."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from packaging.utils import canonicalize_name

from envcheck.core.secrets import redact
from installers import programs
from installers.bundle import from_bundle, lock_notes
from installers.locks.lockfile import Wheel
from installers.plan.package_sizes import SIZES_MIB, SMALL_MIB
from installers.plan.step import Step
from installers.recipes.recipe import Package, by_index
from installers.software import packages
from installers.software.packages import PipError
from installers.state import environment, progress, state_file
from installers.state.environment import fits
from installers.state.journal import Entry
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import Work

SWEEP = Path(programs.__path__[0]) / "sweep.py"
SWEEP_S = 120.0


@dataclass(frozen=True, kw_only=True)
class InstallPackages(Step):
    """`again`: what seems to be there counts for nothing, as a cut-off run may have left half of it."""

    name: ClassVar[str] = "packages"
    base_s: ClassVar[int] = 20

    packages: tuple[Package, ...]
    again: bool

    def values(self) -> dict[str, Any]:
        return {"packages": [package.name + package.specifier for package in self.packages]}


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[InstallPackages]:
    """A step for neighbours of one index; all of them where nobody knows yet what is there."""
    for _, group in by_index(desired.recipe.packages):
        if current.packages is None or current.is_torn or lacking(group, current.packages, desired.supply.wheels or ()):
            yield _install(group, desired, current)


def _install(group: tuple[Package, ...], desired: DesiredState, current: TargetState) -> InstallPackages:
    there, again, place = current.packages, current.is_torn, current.place
    missing = group if again or there is None else lacking(group, there, desired.supply.wheels or ())
    index = desired.supply.name or group[0].index  # a bundle's name, where there is one
    why = "what is there is seen when the container runs"
    if there is not None:
        why = "; ".join(_why(p, there) for p in missing)
    return InstallPackages(
        f"install {', '.join(p.name + p.specifier for p in missing)}" + (f" from {redact(index)}" if index else ""),
        "an earlier run may have left half of it" if again else why,
        f"adds packages to {place.place}",
        f"{place.python} -m pip uninstall {' '.join(p.name for p in missing)}",
        sum(SIZES_MIB.get(p.name, SMALL_MIB) for p in missing),
        packages=group,
        again=again,
    )


def lacking(group: tuple[Package, ...], there: Mapping[str, str], locked: Sequence[Wheel]) -> tuple[Package, ...]:
    """What of the group is not there as wanted; of a lock also what its packages need."""
    names = {canonicalize_name(p.name.partition("[")[0]) for p in group}
    needed = [Package(w.name, f"=={w.version}", w.index) for w in locked if w.index == group[0].index]
    wanted = (*group, *(p for p in needed if canonicalize_name(p.name) not in names))
    return tuple(p for p in wanted if not fits(p, there))


def _why(package: Package, there: Mapping[str, str]) -> str:
    version = there.get(canonicalize_name(package.name))
    return f"{package.name} is not there" if version is None else f"{package.name} there is {version}"


def apply(step: InstallPackages, work: Work) -> str:
    return install(step.packages, step.again, work)


def install(group: tuple[Package, ...], again: bool, work: Work) -> str:
    """What is new there, in words."""
    _sweep(work)
    before = work.target.environment().packages
    with progress.Downloads(work.own / "tmp", work.report) as downloads:
        pip = packages.Pip(work.target, downloads.line)
        others = [p for p in work.recipe.packages if p not in group]
        try:
            with from_bundle.links(work.terms, work.target) as folder:
                locked = work.terms.wheels
                put = packages.install(pip, group, others, force=again, locked=locked, find_links=folder)
        except PipError as err:
            err.harmless = err.harmless and not again  # what was torn before still is
            raise
    lock_notes.add_wheels(work.folder, work.terms.recipe, put)
    after = work.target.environment().packages
    _remember(work.folder, added=set(after) - set(before))
    first = [str(canonicalize_name(p.name.partition("[")[0])) for p in group]
    new = {name: after[name] for name in [*first, *after] if name in after and after[name] != before.get(name)}
    return ", ".join(f"{name} {version}" for name, version in new.items()) or "put in anew what was there"


def _sweep(work: Work) -> None:
    """Away with what a pip that was cut off left: half-written notes (without RECORD pip can neither use nor replace
    them), folders renamed to ~name, temporary files."""
    work.target.run(
        (work.target.python, "-I", "-c", SWEEP.read_text()), timeout_s=SWEEP_S, env=work.target.surroundings()
    )
    work.target.fresh("tmp")


def _remember(folder: Path, *, added: set[str]) -> None:
    """Which packages were not there before us: what a person would take out of an environment of their own."""
    ours = state_file.load(folder)
    if ours:
        state_file.save(
            folder, state_file.EnvironmentState(**{**vars(ours), "added": tuple(sorted({*ours.added, *added}))})
        )


def verify(step: InstallPackages, work: Work) -> str | None:
    return still_missing(step.packages, work)


def still_missing(group: tuple[Package, ...], work: Work) -> str | None:
    there = work.target.environment()
    wrong = [p.name for p in group if not environment.fits(p, there.packages)]
    if wrong or there.torn:
        return f"pip was content, yet {', '.join([*wrong, *there.torn])} is not there as wanted"
    return None


def undo(entry: Entry, folder: Path) -> str:
    """Nothing: they go with their environment or container.  From an environment of the user's a person takes them,
    and is told which (EnvironmentState.added)."""
    return ""


def script(step: InstallPackages, at: ScriptTarget) -> Iterator[str]:
    yield install_line(step.packages, step.again, at)


def install_line(group: tuple[Package, ...], again: bool, at: ScriptTarget) -> str:
    index = f"--index-url={shlex.quote(redact(group[0].index))} " if group[0].index else ""
    force = "--force-reinstall " if again else ""
    return at.pip(f"{at.limits}{index}{force}{shlex.join(p.name + p.specifier for p in group)}")
