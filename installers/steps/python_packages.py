"""Install packages of one index with the target's pip, in the versions of the recipe or of a lock file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from packaging.utils import canonicalize_name

from envcheck.compat import image_versions
from envcheck.core.messages import NOTHING, Message, _, join, verbatim
from envcheck.core.secrets import redact_text
from envcheck.settings import site_access
from installers import programs
from installers.bundle import offline, recipe_locks
from installers.locks.lockfile import LockedWheel
from installers.plan.package_sizes import SIZES_MIB, SMALL_MIB
from installers.plan.step import Step
from installers.recipes.recipe import Package, group_by_index
from installers.software import pip_runner
from installers.software.pip_runner import PipError
from installers.state import environment, progress, state_file
from installers.state.environment import is_satisfied
from installers.state.journal import Entry
from installers.steps.shell_script import ScriptTarget
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.work import StepContext

SWEEP = Path(programs.__path__[0]) / "sweep.py"
SWEEP_S = 120.0


@dataclass(frozen=True, kw_only=True)
class InstallPackages(Step):
    """`again`: reinstall existing packages, because an interrupted run may have left them incomplete."""

    name: ClassVar[str] = "packages"
    base_s: ClassVar[int] = 20

    packages: tuple[Package, ...]
    again: bool

    def json_values(self) -> dict[str, Any]:
        return {"packages": [package.name + package.specifier for package in self.packages]}


def plan(desired: DesiredState, current: TargetState, planned: Sequence[Step]) -> Iterator[InstallPackages]:
    """Yield a step for consecutive packages of one index; for all of them if the installed ones are unknown."""
    for _unused, group in group_by_index(desired.recipe.packages):
        if (
            current.installed_packages is None
            or current.is_torn
            or find_lacking(group, current.installed_packages, desired.supply.locked_wheels or ())
        ):
            yield _plan_install(group, desired, current)


def _plan_install(group: tuple[Package, ...], desired: DesiredState, current: TargetState) -> InstallPackages:
    there, again, place = current.installed_packages, current.is_torn, current.packages_place
    missing = group if again or there is None else find_lacking(group, there, desired.supply.locked_wheels or ())
    index = desired.supply.name or group[0].index  # the bundle replaces the index
    why = _("installed packages are unknown until the container runs")
    if there is not None:
        why = _explain_missing(missing, there)
    named = join(", ", (p.name + p.specifier for p in missing))
    documented = _list_documented(missing, desired, current) if there is None and not again else ()
    changes = _("adds packages to {place}", place=place.place)
    if documented and len(documented) == len(missing):
        changes = _("already in the image; verified after the pull")
    elif documented:
        changes = _(
            "{packages}: already in the image, verified after the pull; adds the other packages to {place}",
            packages=join(", ", (p.name + p.specifier for p in documented)),
            place=place.place,
        )
    return InstallPackages(
        _("install {packages} from {index}", packages=named, index=redact_text(index))
        if index
        else _("install {packages}", packages=named),
        _("an interrupted run may have left incomplete packages") if again else why,
        changes,
        verbatim(f"{place.python} -m pip uninstall {' '.join(p.name for p in missing)}"),
        sum(SIZES_MIB.get(p.name, SMALL_MIB) for p in missing if p not in documented),
        packages=group,
        again=again,
    )


def _list_documented(packages: Sequence[Package], desired: DesiredState, current: TargetState) -> tuple[Package, ...]:
    """Return the packages that the image contains in exactly this version, as far as it is documented."""
    image = desired.image if current.container_name else None
    contents = image_versions.find_image_versions(image) if image else None
    held = {str(canonicalize_name(name)): version for name, version in contents.holds.items()} if contents else {}
    return tuple(p for p in packages if p.specifier.startswith("==") and is_satisfied(p, held))


def find_lacking(
    group: tuple[Package, ...], there: Mapping[str, str], locked: Sequence[LockedWheel]
) -> tuple[Package, ...]:
    """Return the packages of the group that are missing or have another version, with dependencies from a lock."""
    names = {canonicalize_name(p.name.partition("[")[0]) for p in group}
    needed = [Package(w.name, f"=={w.version}", w.index) for w in locked if w.index == group[0].index]
    wanted = (*group, *(p for p in needed if canonicalize_name(p.name) not in names))
    return tuple(p for p in wanted if not is_satisfied(p, there))


def _explain_missing(packages: Sequence[Package], there: Mapping[str, str]) -> Message:
    absent = [p.name for p in packages if canonicalize_name(p.name) not in there]
    found = {p.name: version for p in packages if (version := there.get(canonicalize_name(p.name))) is not None}
    present = [_("{name} {version} is installed", name=name, version=version) for name, version in found.items()]
    return join("; ", [*([_("not installed: {missing}", missing=join(", ", absent))] if absent else []), *present])


def apply(step: InstallPackages, work: StepContext) -> Message:
    return install_group(step.packages, step.again, work)


def install_group(group: tuple[Package, ...], again: bool, work: StepContext) -> Message:
    """Install the packages; return a message with the new and changed ones."""
    _sweep_leftovers(work)
    before = work.target.read_environment().packages
    with progress.DownloadProgress(work.state_folder / "tmp", work.report) as downloads:
        pip = pip_runner.PipRunner(work.target, downloads.add_line)
        others = [p for p in work.recipe.packages if p not in group]
        try:
            with offline.lend_wheels(work.effective_supply, work.target) as folder:
                locked = work.effective_supply.locked_wheels
                put = pip_runner.install_packages(pip, group, others, force=again, locked=locked, find_links=folder)
        except PipError as err:
            err.harmless = err.harmless and not again  # incomplete packages are still there
            raise
    recipe_locks.add_wheels(work.folder, work.effective_supply.recipe, put)
    after = work.target.read_environment().packages
    _record_added(work.folder, added=set(after) - set(before))
    first = [str(canonicalize_name(p.name.partition("[")[0])) for p in group]
    new = {name: after[name] for name in [*first, *after] if name in after and after[name] != before.get(name)}
    changed = ", ".join(f"{name} {version}" for name, version in new.items())
    return verbatim(changed) if changed else _("reinstalled existing packages")


def _sweep_leftovers(work: StepContext) -> None:
    """Remove what an interrupted pip left: metadata without RECORD, which pip can neither use nor replace, folders
    renamed to ~NAME, and temporary files."""
    work.target.run_command(
        (work.target.python, "-I", "-c", SWEEP.read_text()), timeout_s=SWEEP_S, env=work.target.list_variables()
    )
    work.target.make_empty_folder("tmp")


def _record_added(folder: Path, *, added: set[str]) -> None:
    """Record new packages in the state file: the ones to uninstall from an environment that the user owns."""
    ours = state_file.load_state(folder)
    if ours:
        state_file.save_state(
            folder, state_file.EnvironmentState(**{**vars(ours), "added": tuple(sorted({*ours.added, *added}))})
        )


def verify(step: InstallPackages, work: StepContext) -> Message | None:
    return still_missing(step.packages, work)


def still_missing(group: tuple[Package, ...], work: StepContext) -> Message | None:
    """Return a message if a package of the group is missing or has another version; else None."""
    there = work.target.read_environment()
    wrong = [p.name for p in group if not environment.is_satisfied(p, there.packages)]
    if wrong or there.torn:
        names = join(", ", [*wrong, *there.torn])
        return _("pip reported success, but these packages are missing or incomplete: {names}", names=names)
    return None


def undo(entry: Entry, folder: Path) -> Message:
    """Do nothing: packages are removed with their environment or container.

    In an environment that the user owns they stay; EnvironmentState.added lists them.
    """
    return NOTHING


def script(step: InstallPackages, at: ScriptTarget) -> Iterator[str]:
    yield install_line(step.packages, step.again, at)


def install_line(group: tuple[Package, ...], again: bool, at: ScriptTarget) -> str:
    """Return the pip command of a shell script that installs the packages."""
    address = redact_text(site_access.rewrite_url(at.site, group[0].index))
    index = f"--index-url={shlex.quote(address)} " if address else ""
    force = "--force-reinstall " if again else ""
    return at.pip_command(f"{at.limits_option}{index}{force}{shlex.join(p.name + p.specifier for p in group)}")
