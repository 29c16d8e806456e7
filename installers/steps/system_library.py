"""Provide a library that this system lacks: install a wheel that contains it, and link to it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from envcheck.core.errors import StepError
from envcheck.core.messages import NOTHING, Message, _, verbatim
from installers.plan.package_sizes import SMALL_MIB
from installers.plan.step import Step
from installers.recipes.recipe import Package, SystemLibrary
from installers.state.environment import is_satisfied
from installers.state.journal import Entry
from installers.steps import python_packages
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.venv_state import VenvState
from installers.steps.work import StepContext


@dataclass(frozen=True, kw_only=True)
class LendLibrary(Step):
    """`again`: reinstall the wheel, because an interrupted run may have left it incomplete."""

    name: ClassVar[str] = "library"
    base_s: ClassVar[int] = 5

    library: SystemLibrary
    again: bool

    @property
    def package(self) -> Package:
        """Return the package that contains the library."""
        return library_package(self.library)

    def json_values(self) -> dict[str, Any]:
        return {"packages": [self.package.name + self.package.specifier]}


def library_package(library: SystemLibrary) -> Package:
    """Return the package that contains the library."""
    return Package(library.package, library.specifier)


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[LendLibrary]:
    """Yield the missing libraries; only on a host, because an image contains its own."""
    if not isinstance(current, VenvState):
        return
    for library in desired.recipe.libraries:
        package = library_package(library)
        if library.name in current.host.lacking and (
            current.is_torn or not is_satisfied(package, current.installed_packages)
        ):
            yield LendLibrary(
                _(
                    "provide {library} from {package}{specifier}",
                    library=library.name,
                    package=package.name,
                    specifier=package.specifier,
                ),
                _(
                    "this system has no {library}; the wheel of {package} contains it",
                    library=library.name,
                    package=package.name,
                ),
                _(
                    "adds packages and the link {link} to {place}",
                    place=current.packages_place.place,
                    link=library.link,
                ),
                verbatim(f"{current.packages_place.python} -m pip uninstall {package.name}"),
                SMALL_MIB,
                library=library,
                again=current.is_torn,
            )


def apply(step: LendLibrary, work: StepContext) -> Message:
    """Install the wheel, and create a link to its library under the name that the loader looks for."""
    done, library = python_packages.install_group((step.package,), step.again, work), step.library
    site = next(work.folder.glob("lib/python3*/site-packages"))  # one per environment
    found = next(site.glob(library.pattern), None)
    if not found:
        raise StepError(
            _("the wheel of {package} does not contain {pattern}", package=library.package, pattern=library.pattern),
            _("the wheel does not match its name; check the package index"),
        )
    link = site / library.link
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(found, link.parent))
    return _("{packages}; {library} links to {file}", packages=done, library=library.name, file=found.name)


def verify(step: LendLibrary, work: StepContext) -> Message | None:
    return python_packages.still_missing((step.package,), work)


def undo(entry: Entry, folder: Path) -> Message:
    """Do nothing: the wheel and the link are removed with the environment."""
    return NOTHING


def script(step: LendLibrary, at: ScriptTarget) -> Iterator[str]:
    """Yield the installation of the wheel and the link to its library."""
    link, pattern = shlex.quote(step.library.link), shlex.quote(step.library.pattern)
    yield python_packages.install_line((step.package,), step.again, at)
    yield f"site=$({at.python_word} -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
    yield f'library=$(find "$site" -path "$site"/{pattern} -print -quit)'
    yield f'mkdir -p -- "$(dirname -- "$site"/{link})"'
    yield f'ln -sfr -- "${{library:?not in the wheel}}" "$site"/{link}'
