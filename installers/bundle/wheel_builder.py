"""Where a bundle's wheels are resolved and built: in a place like the one that they are for, which is thrown away.

That is a container of the recipe's image, or an environment of this Python: the very packages are put in as a
provisioning would do it, so that what the image brings is left out, and what has no wheel is built where it will run.
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
from installers.bundle.build_requirements import required
from installers.locks.lockfile import Built, Commit, Wheel
from installers.recipes.recipe import Checkout, Package, Recipe, by_index
from installers.recipes.recipe import Mount as Mounted
from installers.software import build_cache, builds, checkouts, packages, solver
from installers.software.build_cache import Kept
from installers.software.builds import BuildSite
from installers.software.packages import Pip, PipError
from installers.software.solver import ResolvedPackage
from installers.state import checksums
from installers.state.progress import Downloads, Event, Report
from installers.targets.container_errors import asked
from installers.targets.target import VenvTarget

if TYPE_CHECKING:
    from docker import APIClient

OLD_PIP = "pip>=22.2"
VENV_S = 300.0
DAY_S = 86400  # a container that a killed run leaves ends by itself
TOOLS_LIMIT = 30  # rounds in which pip names what else builds a clone


@dataclass
class WheelBuilder:
    """`folder` is this host's, with wheels/, tools/ and builds/ for what comes of it; `report` hears what is done, and
    `line` what pip says."""

    ground: BuildSite
    folder: Path
    report: Report
    line: Callable[[str], None]
    wheels: dict[str, Wheel] = field(default_factory=dict)  # by canonical name

    @property
    def pip(self) -> Pip:
        return Pip(self.ground.target, self.line)

    @property
    def python(self) -> str:
        return ".".join(self.ground.target.environment().python.split(".")[:2])

    def say(self, text: str) -> None:
        self.report(Event("say", text))


@contextlib.contextmanager
def environment(folder: Path, report: Report) -> Iterator[WheelBuilder]:
    """Of this Python."""
    target = VenvTarget(folder / "builder")
    done = target.run((sys.executable, "-I", "-m", "venv", str(target.folder)), timeout_s=VENV_S, env={})
    if done.status:
        raise StepError(f"python -m venv failed: {(done.out + done.err).strip()[-200:]}", "install python3-venv")
    with Downloads(target.notes / "tmp", report) as downloads:
        yield WheelBuilder(BuildSite(target), folder, report, downloads.line)


@contextlib.contextmanager
def container(api: APIClient, reference: str, recipe: Recipe, folder: Path, report: Report) -> Iterator[WheelBuilder]:
    """Of the image, with the recipe's variables and what of this host it only reads (a CA's file, to which a variable
    leads), on this host's network; one that a killed run left is cleared away."""
    from docker.types import Mount

    from installers.targets.exec_target import ContainerTarget

    name = f"envcheck-bundle-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
    asked(lambda: _remove(api, name))
    variables = dict(recipe.container.environment) if recipe.container else {}
    mounts = [Mount(m.target, m.source, type="bind", read_only=True) for m in _read(recipe)]
    host = api.create_host_config(network_mode="host", mounts=mounts)
    sleep = ("sleep", str(DAY_S))
    asked(
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
    target = ContainerTarget(api, name, recipe.interpreter, folder / "builder")
    target.notes.mkdir(parents=True)
    try:
        asked(lambda: api.start(name))
        with Downloads(target.notes / "tmp", report) as downloads:
            yield WheelBuilder(BuildSite(target), folder, report, downloads.line)
    finally:
        _remove(api, name)


def _read(recipe: Recipe) -> list[Mounted]:
    """Mounted files of this host's that the recipe's container may not write."""
    mounts = recipe.container.mounts if recipe.container else ()
    return [m for m in mounts if m.read_only and Path(m.source).is_absolute() and Path(m.source).is_file()]


def _remove(api: APIClient, name: str) -> None:
    import docker.errors

    with contextlib.suppress(docker.errors.NotFound):
        api.remove_container(name, force=True, v=True)


def build_wheels(
    builder: WheelBuilder, recipe: Recipe, commits: Sequence[Commit], bundles: Mapping[str, Path]
) -> tuple[Built, ...]:
    """Wheels and tools into the builder's folders; what the recipe's builds made here.  `bundles` are git bundles by
    the clone's folder."""
    for name in ("wheels", "tools", "builds"):
        (builder.folder / name).mkdir()
    for index, group in by_index(recipe.packages):
        _packages(builder, recipe, group, index)
    pinned = {each.directory: each.commit for each in commits}
    for checkout in recipe.checkouts:
        if checkout.editable:
            _clone(builder, recipe, replace(checkout, ref=pinned[checkout.directory]), bundles[checkout.directory])
    return _builds(builder, recipe, pinned)


def _packages(builder: WheelBuilder, recipe: Recipe, group: Sequence[Package], index: str) -> None:
    others = [p for p in recipe.packages if p not in group]
    limits = [p.name.partition("[")[0] + p.specifier for p in others]
    wanted = [p.name + p.specifier for p in group]
    answer = _answer(builder, wanted, limits, index)
    packages.refuse(solver.judge(answer, [*group, *others]))
    _keep(builder, answer, group)


def _needs(builder: WheelBuilder, recipe: Recipe, wanted: Sequence[str]) -> None:
    limits = [p.name.partition("[")[0] + p.specifier for p in recipe.packages if p.specifier]
    answer = _answer(builder, wanted, limits, "")
    answer = replace(answer, found=tuple(each for each in answer.found or () if not each.direct))
    packages.refuse(solver.added(answer))
    _keep(builder, answer, packages.CONFIGURED)


def _answer(builder: WheelBuilder, wanted: Sequence[str], limits: Sequence[str], index: str) -> solver.PipAnswer:
    target, pip = builder.ground.target, builder.pip
    file = f"{target.fresh('limits')}/constraints.txt"
    target.write(file, "".join(f"{line}\n" for line in limits))
    own = (f"--index-url={index}",) if index else ()
    answer = pip.solve(target.fresh("wheels"), f"--constraint={file}", *own, *wanted)
    if answer.found is None:
        builder.say(f"pip {answer.pip} cannot tell what it would install: a newer one is taken for this")
        pip.run("install", "--upgrade", OLD_PIP)
        answer = pip.solve(target.fresh("wheels"), f"--constraint={file}", *own, *wanted)
    return answer


def _keep(builder: WheelBuilder, answer: solver.PipAnswer, group: Sequence[Package]) -> None:
    """Each as a wheel, of the very file that was announced; then put in, since the next group is weighed against it."""
    target, pip, found = builder.ground.target, builder.pip, answer.found or ()
    if not found:
        return
    made, file = target.fresh("made"), packages.requirements(pip, packages.exactly(found))
    where = packages.origin(answer, f"{target.own}/wheels", group)
    for archive in (each for each in found if not each.is_wheel):
        builder.say(f"building a wheel of {archive.name} {archive.version}, which has none")
    pip.run("wheel", "--no-deps", f"--wheel-dir={made}", *where, f"--requirement={file}")
    by_name = {canonicalize_name(each.name): each for each in found}
    for name in target.names(made):
        wheel = _wheel(builder, f"{made}/{name}", by_name, group[0].index)
        if old := builder.wheels.pop(canonicalize_name(wheel.name), None):
            (builder.folder / "wheels" / old.file).unlink(missing_ok=True)
        builder.wheels[canonicalize_name(wheel.name)] = wheel
        builder.ground.target.bring(f"{made}/{name}", builder.folder / "wheels" / name)
    put = [f"{each.name}=={each.version}" for each in found]
    pip.run("install", "--no-deps", "--no-index", f"--find-links={made}", *put)


def _wheel(builder: WheelBuilder, path: str, found: Mapping[Any, ResolvedPackage], index: str) -> Wheel:
    file = path.rpartition("/")[2]
    name, version, _, _ = parse_wheel_filename(file)
    of, copy = found[name], builder.folder / "copy.whl"
    builder.ground.target.bring(path, copy)
    sha256 = checksums.sha256(copy)
    copy.unlink()
    source = () if of.is_wheel else (of.file, of.sha256)
    return Wheel(of.name, str(version), file, sha256, index, *source)


def _clone(builder: WheelBuilder, recipe: Recipe, checkout: Checkout, bundle: Path) -> None:
    """What a clone that is installed editable needs, and what builds it."""
    target = builder.ground.target
    place = f"{target.own}/clones/{bundle.stem}"
    inside = f"{target.fresh('clone')}/{bundle.name}"
    builder.ground.target.put(bundle, inside)
    own = replace(checkout, directory=place, editable=False)
    checkouts.perform(target, own, builder.say, checkouts.CloneOptions(source=inside))
    builder.say(f"what {checkout.url} needs")
    _needs(builder, recipe, ("--editable", place))
    _tools(builder, place)


def _tools(builder: WheelBuilder, place: str) -> None:
    """Until pip can build it from them alone: it names one after the other, also what a project asks for only then."""
    target, pip = builder.ground.target, builder.pip
    folder, asked = target.fresh("tools"), set[str]()
    for wanted in required(target.read(f"{place}/pyproject.toml")):
        pip.run("wheel", f"--wheel-dir={folder}", wanted)
    for _ in range(TOOLS_LIMIT):
        try:
            pip.run("install", "--dry-run", "--no-deps", "--no-index", f"--find-links={folder}", "--editable", place)
            break
        except PipError:
            said = (target.notes / "pip.log").read_text("utf-8", "replace")
            lacking = re.findall(r"No matching distribution found for ([^\s(]+)", said)
            if not lacking or lacking[-1] in asked:
                raise
            asked.add(lacking[-1])
            pip.run("wheel", f"--wheel-dir={folder}", lacking[-1])
    for name in target.names(folder):
        builder.ground.target.bring(f"{folder}/{name}", builder.folder / "tools" / name)


def _builds(builder: WheelBuilder, recipe: Recipe, pinned: Mapping[str, str]) -> tuple[Built, ...]:
    """Of each role of which this machine has kept all; StepError where that is none."""
    kept = [found for role in _roles(recipe) if (found := _of_role(builder, recipe, role, pinned))]
    if recipe.builds and not kept:
        names = ", ".join(dict.fromkeys(build.name for build in recipe.builds))
        why = f"{names} are built from source, and no node's results of them are kept on this machine"
        raise StepError(why, f"envcheck provision --recipe {recipe.name} here first; then repeat")
    made = dict[tuple[str, str], Built]()
    for name, commit, each in (one for role in kept for one in role):
        made[name, each.path] = Built(name, each.path, each.sha256, commit)
        (builder.folder / "builds" / each.sha256).write_bytes(b"")
        shutil.copyfile(each.file, builder.folder / "builds" / each.sha256)
        if next(b for b in recipe.builds if b.name == name).installs:
            inside = f"{builder.ground.target.fresh('built')}/{each.path.rpartition('/')[2]}"
            builder.ground.target.put(each.file, inside)
            _needs(builder, recipe, (inside,))
    return tuple(made.values())


def _roles(recipe: Recipe) -> tuple[str, ...]:
    named = tuple(dict.fromkeys(build.role for build in recipe.builds if build.role))
    return named or (("",) if recipe.builds else ())


def _of_role(
    builder: WheelBuilder, recipe: Recipe, role: str, pinned: Mapping[str, str]
) -> list[tuple[str, str, Kept]]:
    """(build, commit, file); nothing where one of them is not kept."""
    keys, found = dict[str, str](), list[tuple[str, str, Kept]]()
    for build in builds.of_role(recipe, role):
        commit = pinned.get(build.checkout, "")
        keys[build.name] = builds.there(builder.ground, build, commit, [keys[n] for n in build.after]).key
        kept = build_cache.find(keys[build.name], builder.ground.cache)
        if not kept:
            return []
        found += [(build.name, commit, each) for each in kept]
    return found
