"""A library that this system lacks, lent to the environment out of a wheel that carries it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from envcheck.core.errors import StepError
from installers.plan.package_sizes import SMALL_MIB
from installers.plan.step import Step
from installers.recipes.recipe import Library, Package
from installers.state.environment import fits
from installers.state.journal import Entry
from installers.steps import python_packages
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.venv_state import VenvState
from installers.steps.work import Work


@dataclass(frozen=True, kw_only=True)
class LendLibrary(Step):
    """`again`: the wheel counts for nothing, as a cut-off run may have left half of it."""

    name: ClassVar[str] = "library"
    base_s: ClassVar[int] = 5

    library: Library
    again: bool

    @property
    def package(self) -> Package:
        return wheel_of(self.library)

    def values(self) -> dict[str, Any]:
        return {"packages": [self.package.name + self.package.specifier]}


def wheel_of(library: Library) -> Package:
    return Package(library.package, library.specifier)


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[LendLibrary]:
    """On a host alone: an image has its own."""
    if not isinstance(current, VenvState):
        return
    for library in desired.recipe.libraries:
        package = wheel_of(library)
        if library.name in current.host.lacking and (current.is_torn or not fits(package, current.packages)):
            yield LendLibrary(
                f"lend the environment {library.name} from {package.name}{package.specifier}",
                f"this system has no {library.name}, and the wheel of {package.name} carries one",
                f"adds packages to {current.place.place}, and a link {library.link}",
                f"{current.place.python} -m pip uninstall {package.name}",
                SMALL_MIB,
                library=library,
                again=current.is_torn,
            )


def apply(step: LendLibrary, work: Work) -> str:
    """A link under the name by which the loader asks for it."""
    done, library = python_packages.install((step.package,), step.again, work), step.library
    site = next(work.folder.glob("lib/python3*/site-packages"))  # one per environment
    found = next(site.glob(library.pattern), None)
    if not found:
        raise StepError(f"{library.package} carries no {library.pattern}", "the wheel is not what its name says")
    link = site / library.link
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(found, link.parent))
    return f"{done}; {library.name} is {found.name}"


def verify(step: LendLibrary, work: Work) -> str | None:
    return python_packages.still_missing((step.package,), work)


def undo(entry: Entry, folder: Path) -> str:
    """Nothing: wheel and link go with the environment."""
    return ""


def script(step: LendLibrary, at: ScriptTarget) -> Iterator[str]:
    """The library in the wheel, under the name by which the loader asks for it."""
    link, pattern = shlex.quote(step.library.link), shlex.quote(step.library.pattern)
    yield python_packages.install_line((step.package,), step.again, at)
    yield f"site=$({at.python} -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
    yield f'library=$(find "$site" -path "$site"/{pattern} -print -quit)'
    yield f'mkdir -p -- "$(dirname -- "$site"/{link})"'
    yield f'ln -sfr -- "${{library:?not in the wheel}}" "$site"/{link}'
