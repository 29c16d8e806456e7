"""Build from source in a target: check prerequisites, run the commands one by one, log, resume, cache.

Each completed command is recorded.  A run with the same key continues after the last one (make and ninja resume within
a command); a run with another key starts with the first.
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
from envcheck.core.messages import NOTHING, Message, _, join, verbatim
from envcheck.core.secrets import redact_text
from envcheck.core.units import GIB
from installers.locks.lockfile import Lock, LockedBuild, LockedWheel
from installers.plan.requirement import SatisfiedRequirement, UnmetRequirement
from installers.recipes.build_rules import fill_tokens
from installers.recipes.checkout_rules import COMMIT
from installers.recipes.recipe import BuildTool, Checkout, Recipe, RecipeBuild
from installers.software import build_cache, pip_runner
from installers.software.build_cache import CachedFile
from installers.state import checksums
from installers.targets.target import Target, VenvTarget, last_lines, read_answer

NOWHERE = VenvTarget(Path("/nowhere"))  # placeholder target of a state that was not inspected
LOOK_S = 60.0
TELL_S = 5.0  # interval between build lines on the screen; the log has all lines
JOB_BYTES = 2 * GIB  # memory for one compiler process; an estimate from Paddle's kernels
Line = Callable[[str], None]

_GLOB = (
    "import glob, json, os, sys; os.chdir(sys.argv[1]); print('ENVCHECK ' + json.dumps(sorted(glob.glob(sys.argv[2]))))"
)


class LockedFiles(Protocol):
    """The lock to install from, and the bundle that provides its files."""

    @property
    def lock(self) -> Lock | None:
        """The lock, or None."""

    @property
    def name(self) -> str:
        """The bundle's name; "" without a bundle."""

    @property
    def built_files(self) -> Path | None:
        """The folder of a bundle's build results, each named by its SHA-256; None without a bundle."""


@dataclass(frozen=True)
class BuildSite:
    """The target of builds, and the cache for their results (None for the default).

    `supply` restricts results to those of a lock, and provides them if it has a bundle.
    """

    target: Target
    cache: Path | None = None
    supply: LockedFiles | None = None

    @property
    def lock(self) -> Lock | None:
        """The lock that restricts which results may be installed, or None."""
        return self.supply.lock if self.supply else None


@dataclass(frozen=True)
class BuildState:
    """State of a build before it runs; `done`: commands that an interrupted run completed.

    `bundled`: the result comes from this bundle; `refused`: why the locked result is unavailable.
    """

    key: str
    missing: tuple[BuildTool, ...] = ()
    cached: bool = False
    done: int = 0
    whole: bool = False
    bundled: str = ""
    refused: Message = NOTHING


def list_builds(recipe: Recipe, role: str) -> tuple[RecipeBuild, ...]:
    """Return the builds for a node with this role."""
    return tuple(build for build in recipe.builds if build.role in ("", role))


def choose_commit(build: RecipeBuild, checkouts: Sequence[Checkout], commits: Mapping[str, str]) -> str:
    """Return the commit to build: the checked-out one (`commits` by directory), else the pinned one, else ""."""
    pinned = next((c.ref for c in checkouts if c.directory == build.checkout and COMMIT.fullmatch(c.ref)), "")
    return commits.get(build.checkout, "") or pinned


def inspect_build(ground: BuildSite, build: RecipeBuild, commit: str, before: Sequence[str] = ()) -> BuildState:
    """Return the state of the build; changes nothing.  `before` are the keys of the builds in its `after`."""
    target = ground.target
    missing = tuple(tool for tool in build.prerequisites if not _has_tool(target, build, tool))
    env = target.read_environment()
    _unused, architecture = read_answer(target, ("uname", "-m"), timeout_s=LOOK_S, env=target.list_variables())
    key = build_cache.compute_key(build, commit, env.python, architecture, before)
    noted = _read_note(target, build)
    ours = noted.get("key") == key
    whole = ours and bool(noted.get("whole")) and _is_in_place(target, build, noted, env.packages)
    done, same = noted.get("done"), ours and target.read_file(_marker_path(build)) == key
    known = BuildState(key, missing, False, done if same and isinstance(done, int) else 0, whole)
    if ground.lock:
        return _apply_lock(ground, build, known, noted)
    return replace(known, cached=not whole and bool(build_cache.find_files(key, ground.cache)))


def state_from_lock(build: RecipeBuild, supply: LockedFiles) -> BuildState:
    """Return what the lock determines when the target cannot be inspected."""
    return _apply_lock(BuildSite(NOWHERE, supply=supply), build, BuildState(""), {})


def _apply_lock(ground: BuildSite, build: RecipeBuild, known: BuildState, noted: Mapping[str, object]) -> BuildState:
    """Restrict the state to the lock: any other result counts as missing and is not used."""
    supply, lock = ground.supply, ground.lock
    assert supply and lock
    wanted = _locked_files(lock, build)
    here = {(path, sha256) for path, sha256 in _noted_files(noted)}
    if known.whole and here == wanted:
        return known
    refused = NOTHING if wanted else _("the lock has no result for build {name}", name=build.name)
    bundled = supply.name if wanted else ""
    cached = bool(wanted) and bool(supply.name or (known.key and _find_locked_files(ground, build, known.key)))
    if wanted and known.key and not cached:
        first = min(wanted)
        refused = _(
            "{name}: the lock requires {file} with SHA-256 {sha256}, which is not in this machine's cache",
            name=build.name,
            file=first[0],
            sha256=first[1],
        )
    return replace(known, whole=False, cached=cached, bundled=bundled, refused=refused)


def _locked_files(lock: Lock, build: RecipeBuild) -> set[tuple[str, str]]:
    return {(built.path, built.sha256) for built in lock.builds if built.name == build.name}


def _find_locked_files(ground: BuildSite, build: RecipeBuild, key: str) -> tuple[CachedFile, ...]:
    """Return the locked files from the bundle or this host's cache; empty if neither has them."""
    assert ground.lock and ground.supply
    wanted = _locked_files(ground.lock, build)
    if folder := ground.supply.built_files:
        kept = tuple(CachedFile(path, folder / sha256, sha256) for path, sha256 in sorted(wanted))
        return kept if all(checksums.compute_sha256(each.file) == each.sha256 for each in kept) else ()
    kept = build_cache.find_files(key, ground.cache)
    return kept if {(each.path, each.sha256) for each in kept} == wanted else ()


def _noted_files(noted: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the paths and checksums of a note."""
    said = noted.get("files")
    pairs = [each for each in said if isinstance(each, list) and len(each) == 2] if isinstance(said, list) else []
    return [(str(path), str(sha256)) for path, sha256 in pairs]


def list_results(target: Target, wanted: Iterable[RecipeBuild]) -> tuple[LockedBuild, ...]:
    """Return the installed results of these builds, for the lock."""
    noted = [(build, _read_note(target, build)) for build in wanted]
    return tuple(
        LockedBuild(build.name, path, sha256, str(said.get("commit") or ""))
        for build, said in noted
        if said.get("whole")
        for path, sha256 in _noted_files(said)
    )


def plan_build(build: RecipeBuild, state: BuildState) -> UnmetRequirement | SatisfiedRequirement:
    """Return the build as a plan step: satisfied or not."""
    if state.whole:
        return SatisfiedRequirement(_("{name}, built from source", name=build.name))
    size = int((build.space_gib or 1) * 1024)
    undo = verbatim(
        f"pip uninstall {build.name}" if build.installs else f"rm {shlex.quote(build.checkout)}/{build.yields}"
    )
    if state.refused:
        remedy = _("use a bundle from the machine that built it (envcheck bundle), or omit --locked")
        return UnmetRequirement(
            _("build {name}", name=build.name), NOTHING, NOTHING, NOTHING, size, state.refused, remedy
        )
    if state.bundled:
        why, changes = _("the bundle contains the result"), _("creates {yields}", yields=build.yields)
        return UnmetRequirement(
            _("install {name} from bundle {bundled}", name=build.name, bundled=state.bundled),
            why,
            changes,
            undo,
            1024 if build.installs else 10,
        )
    if state.cached:
        why, changes = (
            _("built earlier from the same sources and commands"),
            _("creates {yields}", yields=build.yields),
        )
        return UnmetRequirement(
            _("install {name} from the build cache", name=build.name),
            why,
            changes,
            undo,
            1024 if build.installs else 10,
        )
    if state.missing:
        words = join(", ", (tool.program or tool.file for tool in state.missing))
        remedies = join("; ", dict.fromkeys(tool.remedy for tool in state.missing if tool.remedy))
        why = _("building {name} requires {tools}", name=build.name, tools=words)
        return UnmetRequirement(
            _("build {name}", name=build.name),
            NOTHING,
            NOTHING,
            NOTHING,
            size,
            why,
            remedies or _("install {tools}", tools=words),
        )
    hours = build.deadline_s / 3600
    why = (
        _(
            "not built yet for this recipe; continues at command {number}; takes up to {hours:.0f} h",
            number=state.done + 1,
            hours=hours,
        )
        if state.done
        else _("not built yet for this recipe; takes up to {hours:.0f} h", hours=hours)
    )
    return UnmetRequirement(
        _("build {name} from source", name=build.name), why, _("writes to {folder}", folder=build.checkout), undo, size
    )


@dataclass(frozen=True)
class BuildResult:
    """The result of a build; `wheel` is for the lock, None if the result is not a wheel."""

    key: str
    from_cache: bool
    kept: tuple[CachedFile, ...]
    wheel: LockedWheel | None = None


def run_build(
    ground: BuildSite,
    build: RecipeBuild,
    commit: str,
    on_line: Line,
    *,
    before: Sequence[str] = (),
    limits: Sequence[str] = (),
    note: pip_runner.Note = lambda wheels: None,
) -> BuildResult:
    """Build, or take the result from the cache; install it if it is a wheel.

    `limits` are requirement lines to keep; `note` gets the wheels that the installation adds.
    """
    state = inspect_build(ground, build, commit, before)
    kept = (
        _find_locked_files(ground, build, state.key) if ground.lock else build_cache.find_files(state.key, ground.cache)
    )
    from_cache = bool(kept)
    if kept:
        on_line(_("using cached build of {name}: {parent}", name=build.name, parent=kept[0].file.parent))
        for each in kept:
            ground.target.copy_in(each.file, posixpath.join(build.checkout, each.path))
    else:
        if state.missing or ground.lock:
            planned = plan_build(build, state)
            assert isinstance(planned, UnmetRequirement)
            raise StepError(
                planned.obstacle or _("the bundle's build result of {name} is corrupt", name=build.name),
                planned.remedy or _("copy the bundle again from its source"),
            )
        _run_commands(ground.target, build, state, on_line)
        kept = build_cache.store_files(
            state.key, _find_results(ground.target, build), build.checkout, ground.target, ground.cache
        )
        on_line(_("saved in {parent}", parent=kept[0].file.parent))
    wheel = _install_wheel(ground, build, kept[0], on_line, limits, note) if build.installs else None
    made: dict[str, object] = {"package": wheel.name, "version": wheel.version} if wheel else {}
    made |= {"commit": commit, "files": [(each.path, each.sha256) for each in kept]}
    _write_note(ground.target, build, {"key": state.key, "done": len(build.commands), "whole": True, **made})
    return BuildResult(state.key, from_cache, kept, wheel)


def _run_commands(target: Target, build: RecipeBuild, state: BuildState, on_line: Line) -> None:
    """Run the commands that are not completed yet."""
    if not state.done:
        _log_path(target, build).unlink(missing_ok=True)
        target.write_file(_marker_path(build), state.key)
    until = time.monotonic() + build.deadline_s
    values = _token_values(target, build)
    for number, command in enumerate(build.commands):
        if number >= state.done:
            _run_command(
                target,
                build,
                [fill_tokens(word, values) for word in command],
                build_environment(target, build, values),
                until,
                on_line,
            )
            _write_note(target, build, {"key": state.key, "done": number + 1})


def _run_command(
    target: Target, build: RecipeBuild, command: Sequence[str], env: Mapping[str, str], until: float, on_line: Line
) -> None:
    shown, log, told = redact_text(shlex.join(command)), _log_path(target, build), time.monotonic()
    on_line(f"{build.name}: {shown}"[:160])
    with log.open("a", encoding="utf-8", errors="replace") as file:
        file.write(f"$ {shown}\n")

        def line(text: str) -> None:
            nonlocal told
            file.write(redact_text(text) + "\n")
            file.flush()
            if time.monotonic() - told > TELL_S:
                told = time.monotonic()
                on_line(redact_text(text)[:160])

        left = max(1.0, until - time.monotonic())
        argv = _in_checkout(build, command)
        done = target.run_command(argv, timeout_s=left, env=env, on_line=line)
    again = _("check {log}; run the command again to continue at this build command", log=log)
    if done.hung:
        raise StepError(
            _(
                "build {name} exceeded its limit of {hours:.1f} h and was stopped",
                name=build.name,
                hours=build.deadline_s / 3600,
            ),
            again,
        )
    if done.status:
        raise StepError(
            _(
                "{name}: {shown} failed with status {status}:\n{output}",
                name=build.name,
                shown=shown[:200],
                status=done.status,
                output=last_lines(done.out + done.err),
            ),
            again,
        )


def _in_checkout(build: RecipeBuild, command: Sequence[str]) -> tuple[str, ...]:
    """Return the command to run in the checkout, with the prepended path variables (known only inside a container)."""
    prepend = "".join(f'export {n}={shlex.quote(v)}"${{{n}:+:${n}}}"; ' for n, v in build.prepend.items())
    return ("sh", "-c", f'{prepend}cd "$1" && shift && exec "$@"', "sh", build.checkout, *command)


def build_environment(target: Target, build: RecipeBuild, values: Mapping[str, str]) -> dict[str, str]:
    """Return the target's variables, without those that misdirect the build's Python, plus the build's own."""
    kept = {k: v for k, v in target.list_variables().items() if not k.startswith("PYTHON")}
    return {**kept, **{k: fill_tokens(v, values) for k, v in build.environment.items()}, "LC_ALL": "C.UTF-8"}


def _token_values(target: Target, build: RecipeBuild) -> dict[str, str]:
    _unused, found = read_answer(target, ("nproc",), timeout_s=LOOK_S, env=target.list_variables())
    return {
        "python": target.python,
        "python_version": ".".join(target.read_environment().python.split(".")[:2]),
        "jobs": str(count_jobs(int(found) if found.isdigit() else 1, target.read_file("/proc/meminfo"))),
        "checkout": build.checkout,
    }


def count_jobs(processors: int, meminfo: str) -> int:
    """Return how many compilers fit the processors and the memory."""
    words = next((line.split() for line in meminfo.splitlines() if line.startswith("MemAvailable:")), [])
    memory = int(words[1]) * 1024 if len(words) > 1 and words[1].isdigit() else processors * JOB_BYTES
    return max(1, min(processors, int(memory // JOB_BYTES)))


def _find_results(target: Target, build: RecipeBuild) -> list[str]:
    """Return the built files.  Needed because some scripts exit 0 after a failure (PaddleCustomDevice's
    build_paddle.sh).
    """
    argv = (target.python, "-I", "-c", _GLOB, build.checkout, build.yields)
    done = target.run_command(argv, timeout_s=LOOK_S, env=target.list_variables())
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "ENVCHECK []")
    found = [str(path) for path in json.loads(line.removeprefix("ENVCHECK "))]
    if not found or (build.installs and len(found) > 1):
        _write_note(target, build, {})
        log = _log_path(target, build)
        tail = last_lines(_read_tail(log))
        why = (
            _(
                "{name}: all commands succeeded, but {yields} was not found:\n{output}",
                name=build.name,
                yields=build.yields,
                output=tail,
            )
            if not found
            else _(
                "{name}: all commands succeeded, but {yields} matches several files ({files}):\n{output}",
                name=build.name,
                yields=build.yields,
                files=join(", ", found[:4]),
                output=tail,
            )
        )
        raise StepError(why, _("check {log}; run the command again to restart the build", log=log))
    return found


def _install_wheel(
    ground: BuildSite, build: RecipeBuild, kept: CachedFile, on_line: Line, limits: Sequence[str], note: pip_runner.Note
) -> LockedWheel:
    """Install the wheel and its dependencies; these come from the index unless a lock has provided them."""
    target = ground.target
    file, path = posixpath.basename(kept.path), posixpath.join(build.checkout, kept.path)
    try:
        name, version, *_unused = parse_wheel_filename(file)
    except InvalidWheelFilename:
        raise StepError(
            _("{name}: {file} is not a valid wheel name", name=build.name, file=file[:100]),
            _("check `yields` in the recipe"),
        ) from None
    pip = pip_runner.PipRunner(target, on_line)
    pip.run_pip("install", "--no-deps", "--force-reinstall", path)
    if not ground.lock:
        pip_runner.install_requirements(pip, (path,), limits, note)
    if target.read_environment().packages.get(canonicalize_name(name)) != str(version):
        raise StepError(
            _("pip succeeded, but {name} {version} is not installed", name=name, version=version),
            _("check {log}", log=target.notes_folder / "pip.log"),
        )
    return LockedWheel(name, str(version), file, kept.sha256)


def _has_tool(target: Target, build: RecipeBuild, tool: BuildTool) -> bool:
    test = ("test", "-e", tool.file) if tool.file else ("sh", "-c", 'command -v "$1"', "sh", tool.program)
    return target.run_command(_without_checkout(build, test), timeout_s=LOOK_S, env=target.list_variables()).status == 0


def _without_checkout(build: RecipeBuild, command: Sequence[str]) -> tuple[str, ...]:
    """Return the command in the same environment, but without requiring the checkout."""
    head, script, *rest = _in_checkout(build, command)[1:]
    return ("sh", head, script.replace('cd "$1" && ', ""), *rest)


def _is_in_place(target: Target, build: RecipeBuild, noted: Mapping[str, object], versions: Mapping[str, str]) -> bool:
    if build.installs:
        return bool(noted.get("version")) and versions.get(str(noted.get("package"))) == noted.get("version")
    place = posixpath.join(build.checkout, posixpath.dirname(build.yields))
    return (
        bool(target.list_folder(place))
        if "*" in build.yields
        else posixpath.basename(build.yields) in target.list_folder(place)
    )


def _marker_path(build: RecipeBuild) -> str:
    """Return a file inside the clone, so that the record disappears together with the clone."""
    return f"{build.checkout}/.git/envcheck-build-{build.name}"


def _log_path(target: Target, build: RecipeBuild) -> Path:
    folder = target.notes_folder / "builds"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{build.name}.log"


def _read_tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8192))
        return file.read().decode("utf-8", "replace")


def _read_note(target: Target, build: RecipeBuild) -> Mapping[str, object]:
    try:
        said = json.loads((target.notes_folder / "builds" / f"{build.name}.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _write_note(target: Target, build: RecipeBuild, said: Mapping[str, object]) -> None:
    path = _log_path(target, build).with_suffix(".json")
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(said), encoding="utf-8")
    fresh.replace(path)
