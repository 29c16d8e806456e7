"""Builds from source in a target: prerequisites first, commands one by one, a log, resumed where they were cut, cached.

Which commands ended well is written down after each; a run with the same key goes on behind them (make and ninja go
on by themselves within one), a run with another key begins at the first.
"""

from __future__ import annotations

import json
import posixpath
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from envcheck.core.errors import StepError
from envcheck.core.secrets import redact
from envcheck.core.units import GIB
from installers.locks.lockfile import Built, Lock, Wheel
from installers.plan.requirement import Need, Satisfied
from installers.recipes.build_rules import filled
from installers.recipes.checkout_rules import COMMIT
from installers.recipes.recipe import Build, Checkout, Recipe, Tool
from installers.software import build_cache, packages
from installers.software.build_cache import Kept
from installers.state import checksums
from installers.targets.target import Target, VenvTarget, answer, last_lines

NOWHERE = VenvTarget(Path("/nowhere"))  # the target of what nobody has looked at
LOOK_S = 60.0
TELL_S = 5.0  # between two lines of a build that are shown; the log has all
JOB_BYTES = 2 * GIB  # memory that one compiler may take: a guess for Paddle's kernels
Line = Callable[[str], None]

_GLOB = (
    "import glob, json, os, sys; os.chdir(sys.argv[1]); print('ENVCHECK ' + json.dumps(sorted(glob.glob(sys.argv[2]))))"
)


class LockedFiles(Protocol):
    """What a lock lets in, and the bundle that brings it."""

    @property
    def lock(self) -> Lock | None: ...

    @property
    def name(self) -> str:
        """The bundle's, "" where there is none."""

    @property
    def built_files(self) -> Path | None:
        """The folder in which a bundle's results of builds lie, each named after its sum; None without a bundle."""


@dataclass(frozen=True)
class BuildSite:
    """Where it is built; results are kept in this host's `cache`, None for the usual one.

    `supply` says which results alone may be installed, where there is a lock, and has them where there is a bundle.
    """

    target: Target
    cache: Path | None = None
    supply: LockedFiles | None = None

    @property
    def lock(self) -> Lock | None:
        return self.supply.lock if self.supply else None


@dataclass(frozen=True)
class BuildState:
    """What is known of a build before it is begun.  `done`: commands that ended well in a run that was cut off.

    `bundled`: the result comes from this bundle; `refused`: the lock's result is not to be had, and why.
    """

    key: str
    missing: tuple[Tool, ...] = ()
    cached: bool = False
    done: int = 0
    whole: bool = False
    bundled: str = ""
    refused: str = ""


def of_role(recipe: Recipe, role: str) -> tuple[Build, ...]:
    """The builds for a node of this role."""
    return tuple(build for build in recipe.builds if build.role in ("", role))


def commit_of(build: Build, checkouts: Sequence[Checkout], commits: Mapping[str, str]) -> str:
    """The commit that it is built from: as it stands (`commits` by directory), else the pinned one, else ""."""
    pinned = next((c.ref for c in checkouts if c.directory == build.checkout and COMMIT.fullmatch(c.ref)), "")
    return commits.get(build.checkout, "") or pinned


def there(ground: BuildSite, build: Build, commit: str, before: Sequence[str] = ()) -> BuildState:
    """Looks, and changes nothing; `before` are the keys of the builds that this one comes `after`."""
    target = ground.target
    missing = tuple(tool for tool in build.prerequisites if not _has(target, build, tool))
    env = target.environment()
    _, architecture = answer(target, ("uname", "-m"), timeout_s=LOOK_S, env=target.surroundings())
    key = build_cache.key(build, commit, env.python, architecture, before)
    noted = _noted(target, build)
    ours = noted.get("key") == key
    whole = ours and bool(noted.get("whole")) and _in_place(target, build, noted, env.packages)
    done, same = noted.get("done"), ours and target.read(_marker(build)) == key
    known = BuildState(key, missing, False, done if same and isinstance(done, int) else 0, whole)
    if ground.lock:
        return _by_lock(ground, build, known, noted)
    return replace(known, cached=not whole and bool(build_cache.find(key, ground.cache)))


def unseen(build: Build, supply: LockedFiles) -> BuildState:
    """As far as a lock tells while nobody can look."""
    return _by_lock(BuildSite(NOWHERE, supply=supply), build, BuildState(""), {})


def _by_lock(ground: BuildSite, build: Build, known: BuildState, noted: Mapping[str, object]) -> BuildState:
    """What is not the lock's very result is not whole, and none but that one is taken."""
    supply, lock = ground.supply, ground.lock
    assert supply and lock
    wanted = _wanted(lock, build)
    here = {(path, sha256) for path, sha256 in _files(noted)}
    if known.whole and here == wanted:
        return known
    refused = "" if wanted else f"the lock has no result of the build {build.name}"
    bundled = supply.name if wanted else ""
    cached = bool(wanted) and bool(supply.name or (known.key and _of_lock(ground, build, known.key)))
    if wanted and known.key and not cached:
        first = min(wanted)
        refused = f"{build.name}: the lock has {first[0]} with SHA-256 {first[1]}, which this machine has not kept"
    return replace(known, whole=False, cached=cached, bundled=bundled, refused=refused)


def _wanted(lock: Lock, build: Build) -> set[tuple[str, str]]:
    return {(built.path, built.sha256) for built in lock.builds if built.name == build.name}


def _of_lock(ground: BuildSite, build: Build, key: str) -> tuple[Kept, ...]:
    """The lock's very files, from the bundle or from this host's cache; none where they are in neither."""
    assert ground.lock and ground.supply
    wanted = _wanted(ground.lock, build)
    if folder := ground.supply.built_files:
        kept = tuple(Kept(path, folder / sha256, sha256) for path, sha256 in sorted(wanted))
        return kept if all(checksums.sha256(each.file) == each.sha256 for each in kept) else ()
    kept = build_cache.find(key, ground.cache)
    return kept if {(each.path, each.sha256) for each in kept} == wanted else ()


def _files(noted: Mapping[str, object]) -> list[tuple[str, str]]:
    """Paths and sums of a note."""
    said = noted.get("files")
    pairs = [each for each in said if isinstance(each, list) and len(each) == 2] if isinstance(said, list) else []
    return [(str(path), str(sha256)) for path, sha256 in pairs]


def results(target: Target, wanted: Iterable[Build]) -> tuple[Built, ...]:
    """What stands there of these builds, for the lock."""
    noted = [(build, _noted(target, build)) for build in wanted]
    return tuple(
        Built(build.name, path, sha256, str(said.get("commit") or ""))
        for build, said in noted
        if said.get("whole")
        for path, sha256 in _files(said)
    )


def need(build: Build, state: BuildState) -> Need | Satisfied:
    """What a plan says of it.  Pure."""
    if state.whole:
        return Satisfied(f"{build.name}, built from source")
    size = int((build.space_gib or 1) * 1024)
    undo = f"pip uninstall {build.name}" if build.installs else f"rm {build.checkout}/{build.yields}"
    if state.refused:
        remedy = "take the bundle of the machine that built it: envcheck bundle; or go without --locked"
        return Need(f"build {build.name}", "", "", "", size, state.refused, remedy)
    if state.bundled:
        why, changes = "it was built for the bundle", f"puts {build.yields} in place"
        return Need(
            f"take {build.name} from the bundle {state.bundled}", why, changes, undo, 1024 if build.installs else 10
        )
    if state.cached:
        why, changes = "built before, from the same sources and commands, and kept", f"puts {build.yields} in place"
        return Need(f"take {build.name} from the cache", why, changes, undo, 1024 if build.installs else 10)
    if state.missing:
        words = ", ".join(tool.program or tool.file for tool in state.missing)
        remedies = "; ".join(dict.fromkeys(tool.remedy for tool in state.missing if tool.remedy))
        why = f"{build.name} cannot be built without {words}"
        return Need(f"build {build.name}", "", "", "", size, why, remedies or f"install {words}")
    step = f" (goes on at command {state.done + 1})" if state.done else ""
    why = f"it is not there as built for this recipe{step}; takes hours, {build.deadline_s / 3600:.0f} at most"
    return Need(f"build {build.name} from source", why, f"fills {build.checkout}", undo, size)


@dataclass(frozen=True)
class BuildResult:
    """`wheel` is for the lock, None where it is none."""

    key: str
    from_cache: bool
    kept: tuple[Kept, ...]
    wheel: Wheel | None = None


def perform(
    ground: BuildSite,
    build: Build,
    commit: str,
    say: Line,
    *,
    before: Sequence[str] = (),
    limits: Sequence[str] = (),
    note: packages.Note = lambda wheels: None,
) -> BuildResult:
    """Build it, or take it from the cache; install it where it is a wheel.  `limits` are requirement lines to keep,
    `note` hears which wheels that brings."""
    state = there(ground, build, commit, before)
    kept = _of_lock(ground, build, state.key) if ground.lock else build_cache.find(state.key, ground.cache)
    from_cache = bool(kept)
    if kept:
        say(f"{build.name} was built before, and is taken from {kept[0].file.parent}")
        for each in kept:
            ground.target.put(each.file, posixpath.join(build.checkout, each.path))
    else:
        if state.missing or ground.lock:
            planned = need(build, state)
            assert isinstance(planned, Need)
            raise StepError(
                planned.obstacle or f"{build.name} of the bundle is damaged", planned.remedy or "take it anew"
            )
        _run_all(ground.target, build, state, say)
        kept = build_cache.put(state.key, _made(ground.target, build), build.checkout, ground.target, ground.cache)
        say(f"kept in {kept[0].file.parent}")
    wheel = _install(ground, build, kept[0], say, limits, note) if build.installs else None
    made: dict[str, object] = {"package": wheel.name, "version": wheel.version} if wheel else {}
    made |= {"commit": commit, "files": [(each.path, each.sha256) for each in kept]}
    _note(ground.target, build, {"key": state.key, "done": len(build.commands), "whole": True, **made})
    return BuildResult(state.key, from_cache, kept, wheel)


def _run_all(target: Target, build: Build, state: BuildState, say: Line) -> None:
    """The commands that are not done yet."""
    if not state.done:
        _log(target, build).unlink(missing_ok=True)
        target.write(_marker(build), state.key)
    until = time.monotonic() + build.deadline_s
    values = _values(target, build)
    for number, command in enumerate(build.commands):
        if number >= state.done:
            _run_one(
                target,
                build,
                [filled(word, values) for word in command],
                surroundings(target, build, values),
                until,
                say,
            )
            _note(target, build, {"key": state.key, "done": number + 1})


def _run_one(
    target: Target, build: Build, command: Sequence[str], env: Mapping[str, str], until: float, say: Line
) -> None:
    shown, log, told = redact(shlex.join(command)), _log(target, build), time.monotonic()
    say(f"{build.name}: {shown}"[:160])
    with log.open("a", encoding="utf-8", errors="replace") as file:
        file.write(f"$ {shown}\n")

        def line(text: str) -> None:
            nonlocal told
            file.write(redact(text) + "\n")
            file.flush()
            if time.monotonic() - told > TELL_S:
                told = time.monotonic()
                say(redact(text)[:160])

        left = max(1.0, until - time.monotonic())
        argv = _inside(build, command)
        done = target.run(argv, timeout_s=left, env=env, on_line=line)
    again = f"see {log}; repeated, it goes on at this command"
    if done.hung:
        raise StepError(f"{build.name} was not built in {build.deadline_s / 3600:.1f} hours and was stopped", again)
    if done.status:
        said = last_lines(done.out + done.err)
        raise StepError(f"{build.name}: {shown[:200]} ended with {done.status}:\n{said}", again)


def _inside(build: Build, command: Sequence[str]) -> tuple[str, ...]:
    """The command in the checkout, behind what goes in front of path variables (a container's are known there only)."""
    prepend = "".join(f'export {n}={shlex.quote(v)}"${{{n}:+:${n}}}"; ' for n, v in build.prepend.items())
    return ("sh", "-c", f'{prepend}cd "$1" && shift && exec "$@"', "sh", build.checkout, *command)


def surroundings(target: Target, build: Build, values: Mapping[str, str]) -> dict[str, str]:
    """The target's variables without what leads compilers' Python astray, and the build's."""
    kept = {k: v for k, v in target.surroundings().items() if not k.startswith("PYTHON")}
    return {**kept, **{k: filled(v, values) for k, v in build.environment.items()}, "LC_ALL": "C.UTF-8"}


def _values(target: Target, build: Build) -> dict[str, str]:
    _, found = answer(target, ("nproc",), timeout_s=LOOK_S, env=target.surroundings())
    return {
        "python": target.python,
        "python_version": ".".join(target.environment().python.split(".")[:2]),
        "jobs": str(jobs(int(found) if found.isdigit() else 1, target.read("/proc/meminfo"))),
        "checkout": build.checkout,
    }


def jobs(processors: int, meminfo: str) -> int:
    """As many compilers as there are processors and memory for."""
    words = next((line.split() for line in meminfo.splitlines() if line.startswith("MemAvailable:")), [])
    memory = int(words[1]) * 1024 if len(words) > 1 and words[1].isdigit() else processors * JOB_BYTES
    return max(1, min(processors, int(memory // JOB_BYTES)))


def _made(target: Target, build: Build) -> list[str]:
    """What came of it: some build scripts end with 0 whatever happened (PaddleCustomDevice's build_paddle.sh)."""
    argv = (target.python, "-I", "-c", _GLOB, build.checkout, build.yields)
    done = target.run(argv, timeout_s=LOOK_S, env=target.surroundings())
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "ENVCHECK []")
    found = [str(path) for path in json.loads(line.removeprefix("ENVCHECK "))]
    if not found or (build.installs and len(found) > 1):
        _note(target, build, {})
        what = f"there is no {build.yields}" if not found else f"there are several: {', '.join(found[:4])}"
        raise StepError(
            f"{build.name}: all commands ended well, yet {what}:\n{last_lines(_tail(_log(target, build)))}",
            f"see {_log(target, build)}; repeated, it begins anew",
        )
    return found


def _install(
    ground: BuildSite, build: Build, kept: Kept, say: Line, limits: Sequence[str], note: packages.Note
) -> Wheel:
    """What it needs comes from the index, as far as no lock has brought that already."""
    target = ground.target
    file, path = posixpath.basename(kept.path), posixpath.join(build.checkout, kept.path)
    try:
        name, version, _, _ = parse_wheel_filename(file)
    except InvalidWheelFilename:
        raise StepError(f"{build.name}: {file[:100]} is no wheel's name", "look at the recipe's yields") from None
    pip = packages.Pip(target, say)
    pip.run("install", "--no-deps", "--force-reinstall", path)
    if not ground.lock:
        packages.needs(pip, (path,), limits, note)
    if target.environment().packages.get(canonicalize_name(name)) != str(version):
        raise StepError(f"pip was content, yet {name} {version} is not there", f"see {target.notes / 'pip.log'}")
    return Wheel(name, str(version), file, kept.sha256)


def _has(target: Target, build: Build, tool: Tool) -> bool:
    test = ("test", "-e", tool.file) if tool.file else ("sh", "-c", 'command -v "$1"', "sh", tool.program)
    return target.run(_anywhere(build, test), timeout_s=LOOK_S, env=target.surroundings()).status == 0


def _anywhere(build: Build, command: Sequence[str]) -> tuple[str, ...]:
    """As the commands find it, though the checkout need not be there yet."""
    head, script, *rest = _inside(build, command)[1:]
    return ("sh", head, script.replace('cd "$1" && ', ""), *rest)


def _in_place(target: Target, build: Build, noted: Mapping[str, object], versions: Mapping[str, str]) -> bool:
    if build.installs:
        return bool(noted.get("version")) and versions.get(str(noted.get("package"))) == noted.get("version")
    place = posixpath.join(build.checkout, posixpath.dirname(build.yields))
    return bool(target.names(place)) if "*" in build.yields else posixpath.basename(build.yields) in target.names(place)


def _marker(build: Build) -> str:
    """A file in the clone: what was done there is gone with it."""
    return f"{build.checkout}/.git/envcheck-build-{build.name}"


def _log(target: Target, build: Build) -> Path:
    folder = target.notes / "builds"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{build.name}.log"


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8192))
        return file.read().decode("utf-8", "replace")


def _noted(target: Target, build: Build) -> Mapping[str, object]:
    try:
        said = json.loads((target.notes / "builds" / f"{build.name}.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _note(target: Target, build: Build, said: Mapping[str, object]) -> None:
    path = _log(target, build).with_suffix(".json")
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(said), encoding="utf-8")
    fresh.replace(path)
