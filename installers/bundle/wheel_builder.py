"""Resolve and build a bundle's wheels in a temporary environment like the target's.

This is a container of the recipe's image, or a virtual environment of this Python.  Packages are installed as in
provisioning, so that packages of the image are left out and those without a wheel are built where they will run.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from envcheck.core.errors import StepError
from envcheck.core.messages import _, join, verbatim
from envcheck.settings import site_access
from envcheck.settings.site_access import NO_SITE, SiteAccess
from installers.bundle.build_requirements import parse_build_requirements
from installers.locks.lockfile import LockedBuild, LockedCommit, LockedWheel
from installers.recipes.recipe import Checkout, Package, Recipe, group_by_index
from installers.recipes.recipe import Mount as Mounted
from installers.software import build_cache, builds, checkouts, pip_runner, solver
from installers.software.build_cache import CachedFile
from installers.software.builds import BuildSite
from installers.software.pip_runner import PipError, PipRunner
from installers.software.solver import ResolvedPackage
from installers.state import checksums
from installers.state.progress import DownloadProgress, ProgressEvent, Report
from installers.targets.container_errors import call_engine
from installers.targets.target import VenvTarget

if TYPE_CHECKING:
    from docker import APIClient

OLD_PIP = "pip>=22.2"
VENV_S = 300.0
DAY_S = 86400  # a container left by a killed run exits after this time
TOOLS_LIMIT = 30  # rounds in which pip names further build dependencies of a clone


@dataclass
class WheelBuilder:
    """The temporary environment; `folder` on this host gets wheels/, tools/ and builds/.

    `report` gets progress, `line` pip's output.
    """

    ground: BuildSite
    folder: Path
    report: Report
    line: Callable[[str], None]
    wheels: dict[str, LockedWheel] = field(default_factory=dict)  # by canonical name

    @property
    def pip(self) -> PipRunner:
        """The pip of the temporary environment."""
        return PipRunner(self.ground.target, self.line)

    @property
    def python_minor(self) -> str:
        """Its Python version, such as 3.10."""
        return ".".join(self.ground.target.read_environment().python.split(".")[:2])

    def report_text(self, text: str) -> None:
        """Report one line of progress."""
        self.report(ProgressEvent("say", verbatim(text)))


@contextlib.contextmanager
def start_venv_builder(folder: Path, report: Report, site: SiteAccess = NO_SITE) -> Iterator[WheelBuilder]:
    """Yield a builder in a virtual environment of this Python."""
    target = VenvTarget(folder / "builder", site=site)
    done = target.run_command((sys.executable, "-I", "-m", "venv", str(target.folder)), timeout_s=VENV_S, env={})
    if done.status:
        raise StepError(
            _("python -m venv failed: {out}", out=(done.out + done.err).strip()[-200:]), _("install python3-venv")
        )
    with DownloadProgress(target.notes_folder / "tmp", report) as downloads:
        yield WheelBuilder(BuildSite(target), folder, report, downloads.add_line)


@contextlib.contextmanager
def start_container_builder(
    api: APIClient, reference: str, recipe: Recipe, folder: Path, report: Report, site: SiteAccess = NO_SITE
) -> Iterator[WheelBuilder]:
    """Yield a builder in a container of the image on this host's network.

    It has the recipe's variables and its read-only mounts (such as a CA file that a variable names).  A container left
    by a killed run is removed first.
    """
    from docker.types import Mount

    from installers.targets.exec_target import ContainerTarget

    name = f"envcheck-bundle-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
    call_engine(lambda: _remove_container(api, name))
    variables = {**(recipe.container.environment if recipe.container else {}), **site.environment}
    of_site = [m for m in site_access.list_container_mounts(site) if Path(m.source).is_file()]
    lent = {m.target: m.source for m in of_site} | {m.target: m.source for m in _read_only_files(recipe)}
    mounts = [Mount(target, file, type="bind", read_only=True) for target, file in lent.items()]
    host = api.create_host_config(network_mode="host", mounts=mounts)
    sleep = ("sleep", str(DAY_S))
    call_engine(
        lambda: api.create_container(
            reference,
            entrypoint=list(sleep[:1]),
            command=list(sleep[1:]),
            name=name,
            host_config=host,
            user="0",
            environment=variables,
        )
    )
    target = ContainerTarget(api, name, recipe.interpreter, folder / "builder", site)
    target.notes_folder.mkdir(parents=True)
    try:
        call_engine(lambda: api.start(name))
        with DownloadProgress(target.notes_folder / "tmp", report) as downloads:
            yield WheelBuilder(BuildSite(target), folder, report, downloads.add_line)
    finally:
        _remove_container(api, name)


def _read_only_files(recipe: Recipe) -> list[Mounted]:
    """Return the recipe's mounted files that its container cannot write."""
    mounts = recipe.container.mounts if recipe.container else ()
    return [m for m in mounts if m.read_only and Path(m.source).is_absolute() and Path(m.source).is_file()]


def _remove_container(api: APIClient, name: str) -> None:
    import docker.errors

    with contextlib.suppress(docker.errors.NotFound):
        api.remove_container(name, force=True, v=True)


def build_wheels(
    builder: WheelBuilder, recipe: Recipe, commits: Sequence[LockedCommit], bundles: Mapping[str, Path]
) -> tuple[LockedBuild, ...]:
    """Put wheels and tools into the builder's folders; return the recipe's build results.

    `bundles` are git bundles by the clone's folder.
    """
    for name in ("wheels", "tools", "builds"):
        (builder.folder / name).mkdir()
    for index, group in group_by_index(recipe.packages):
        _add_packages(builder, recipe, group, index)
    pinned = {each.directory: each.commit for each in commits}
    for checkout in recipe.checkouts:
        if checkout.editable:
            _add_clone(builder, recipe, replace(checkout, ref=pinned[checkout.directory]), bundles[checkout.directory])
    return _collect_builds(builder, recipe, pinned)


def _add_packages(builder: WheelBuilder, recipe: Recipe, group: Sequence[Package], index: str) -> None:
    others = [p for p in recipe.packages if p not in group]
    limits = [p.name.partition("[")[0] + p.specifier for p in others]
    wanted = [p.name + p.specifier for p in group]
    answer = _solve_requirements(builder, wanted, limits, index)
    pip_runner.raise_first_problem(solver.judge_answer(answer, [*group, *others]))
    _store_wheels(builder, answer, group)


def _add_requirements(builder: WheelBuilder, recipe: Recipe, wanted: Sequence[str]) -> None:
    limits = [p.name.partition("[")[0] + p.specifier for p in recipe.packages if p.specifier]
    answer = _solve_requirements(builder, wanted, limits, "")
    answer = replace(answer, found=tuple(each for each in answer.found or () if not each.direct))
    pip_runner.raise_first_problem(solver.judge_additions(answer))
    _store_wheels(builder, answer, pip_runner.CONFIGURED)


def _solve_requirements(
    builder: WheelBuilder, wanted: Sequence[str], limits: Sequence[str], index: str
) -> solver.PipAnswer:
    target, pip = builder.ground.target, builder.pip
    file = f"{target.make_empty_folder('limits')}/constraints.txt"
    target.write_file(file, "".join(f"{line}\n" for line in limits))
    own = (f"--index-url={index}",) if index else ()
    answer = pip.solve_requirements(target.make_empty_folder("wheels"), f"--constraint={file}", *own, *wanted)
    if answer.found is None:
        builder.report_text(
            _("pip {pip} cannot report what it would install; using a newer pip for this", pip=answer.pip)
        )
        pip.run_pip("install", "--upgrade", OLD_PIP)
        answer = pip.solve_requirements(target.make_empty_folder("wheels"), f"--constraint={file}", *own, *wanted)
    return answer


def _store_wheels(builder: WheelBuilder, answer: solver.PipAnswer, group: Sequence[Package]) -> None:
    """Store each package as a wheel of exactly the resolved file, then install it: later groups are resolved against
    it.
    """
    target, pip, found = builder.ground.target, builder.pip, answer.found or ()
    if not found:
        return
    made, file = target.make_empty_folder("made"), pip_runner.write_requirements(pip, pip_runner.pin_exactly(found))
    where = pip_runner.source_options(answer, f"{target.own_folder}/wheels", group)
    for archive in (each for each in found if not each.is_wheel):
        builder.report_text(
            _("building a wheel of {name} {version}, which has none", name=archive.name, version=archive.version)
        )
    pip.run_pip("wheel", "--no-deps", f"--wheel-dir={made}", *where, f"--requirement={file}")
    by_name = {canonicalize_name(each.name): each for each in found}
    for name in target.list_folder(made):
        wheel = _describe_wheel(builder, f"{made}/{name}", by_name, group[0].index)
        if old := builder.wheels.pop(canonicalize_name(wheel.name), None):
            (builder.folder / "wheels" / old.file).unlink(missing_ok=True)
        builder.wheels[canonicalize_name(wheel.name)] = wheel
        builder.ground.target.copy_out(f"{made}/{name}", builder.folder / "wheels" / name)
    put = [f"{each.name}=={each.version}" for each in found]
    pip.run_pip("install", "--no-deps", "--no-index", f"--find-links={made}", *put)


def _describe_wheel(builder: WheelBuilder, path: str, found: Mapping[Any, ResolvedPackage], index: str) -> LockedWheel:
    file = path.rpartition("/")[2]
    name, version, *_unused = parse_wheel_filename(file)
    of, copy = found[name], builder.folder / "copy.whl"
    builder.ground.target.copy_out(path, copy)
    sha256 = checksums.compute_sha256(copy)
    copy.unlink()
    source = () if of.is_wheel else (of.file, of.sha256)
    return LockedWheel(of.name, str(version), file, sha256, index, *source)


def _add_clone(builder: WheelBuilder, recipe: Recipe, checkout: Checkout, bundle: Path) -> None:
    """Add the dependencies and build dependencies of a clone that is installed in editable mode."""
    target = builder.ground.target
    place = f"{target.own_folder}/clones/{bundle.stem}"
    inside = f"{target.make_empty_folder('clone')}/{bundle.name}"
    builder.ground.target.copy_in(bundle, inside)
    own = replace(checkout, directory=place, editable=False)
    checkouts.update_clone(target, own, builder.report_text, checkouts.CloneOptions(source=inside))
    builder.report_text(_("dependencies of {url}", url=checkout.url))
    _add_requirements(builder, recipe, ("--editable", place))
    _collect_tools(builder, place)


def _collect_tools(builder: WheelBuilder, place: str) -> None:
    """Add build dependencies until pip can build from them alone: it names them one by one, some while building."""
    target, pip = builder.ground.target, builder.pip
    folder, asked = target.make_empty_folder("tools"), set[str]()
    for wanted in parse_build_requirements(target.read_file(f"{place}/pyproject.toml")):
        pip.run_pip("wheel", f"--wheel-dir={folder}", wanted)
    for _unused in range(TOOLS_LIMIT):
        try:
            pip.run_pip(
                "install", "--dry-run", "--no-deps", "--no-index", f"--find-links={folder}", "--editable", place
            )
            break
        except PipError:
            said = (target.notes_folder / "pip.log").read_text("utf-8", "replace")
            lacking = re.findall(r"No matching distribution found for ([^\s(]+)", said)
            if not lacking or lacking[-1] in asked:
                raise
            asked.add(lacking[-1])
            pip.run_pip("wheel", f"--wheel-dir={folder}", lacking[-1])
    for name in target.list_folder(folder):
        builder.ground.target.copy_out(f"{folder}/{name}", builder.folder / "tools" / name)


def _collect_builds(builder: WheelBuilder, recipe: Recipe, pinned: Mapping[str, str]) -> tuple[LockedBuild, ...]:
    """Return the build results of one role whose results this machine has all cached.  StepError if there is none."""
    kept = [found for role in _list_roles(recipe) if (found := _find_role_builds(builder, recipe, role, pinned))]
    if recipe.builds and not kept:
        names = join(", ", dict.fromkeys(build.name for build in recipe.builds))
        why = _("{names} must be built from source, and this machine has no cached build", names=names)
        raise StepError(
            why, _("run `envcheck provision --recipe {name}` here first, then run the command again", name=recipe.name)
        )
    made = dict[tuple[str, str], LockedBuild]()
    for name, commit, each in (one for role in kept for one in role):
        made[name, each.path] = LockedBuild(name, each.path, each.sha256, commit)
        (builder.folder / "builds" / each.sha256).write_bytes(b"")
        shutil.copyfile(each.file, builder.folder / "builds" / each.sha256)
        if next(b for b in recipe.builds if b.name == name).installs:
            inside = f"{builder.ground.target.make_empty_folder('built')}/{each.path.rpartition('/')[2]}"
            builder.ground.target.copy_in(each.file, inside)
            _add_requirements(builder, recipe, (inside,))
    return tuple(made.values())


def _list_roles(recipe: Recipe) -> tuple[str, ...]:
    named = tuple(dict.fromkeys(build.role for build in recipe.builds if build.role))
    return named or (("",) if recipe.builds else ())


def _find_role_builds(
    builder: WheelBuilder, recipe: Recipe, role: str, pinned: Mapping[str, str]
) -> list[tuple[str, str, CachedFile]]:
    """Return (build, commit, file) for each build of the role; empty if one is not cached."""
    keys, found = dict[str, str](), list[tuple[str, str, CachedFile]]()
    for build in builds.list_builds(recipe, role):
        commit = pinned.get(build.checkout, "")
        keys[build.name] = builds.inspect_build(builder.ground, build, commit, [keys[n] for n in build.after]).key
        kept = build_cache.find_files(keys[build.name], builder.ground.cache)
        if not kept:
            return []
        found += [(build.name, commit, each) for each in kept]
    return found
