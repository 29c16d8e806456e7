"""What goes into a bundle besides the image: wheels and clones."""

from __future__ import annotations

import email
import hashlib
import importlib.util
import os
import platform
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename

from envcheck.core import paths, process
from envcheck.core.errors import EnvcheckError, StepError
from envcheck.core.secrets import redact
from installers.bundle.build_requirements import LEGACY, required
from installers.locks.lockfile import Commit, Wheel
from installers.recipes.recipe import Checkout, Package, Recipe, by_index
from installers.software import pip_words
from installers.software.packages import UNSET, keep
from installers.state import checksums
from installers.state.progress import Downloads, Report

DEADLINE_S = 2 * 3600.0
# What glibc's age allows, newest last: 2.17 is CentOS 7's, 2.28 Debian 10's, 2.31 that of Ubuntu 20.04, which the
# vendors' images are.
MANYLINUX = (
    "manylinux1",
    "manylinux_2_5",
    "manylinux2010",
    "manylinux_2_12",
    "manylinux2014",
    "manylinux_2_17",
    "manylinux_2_27",
    "manylinux_2_28",
    "manylinux_2_31",
    "linux",
)
MINORS = range(8, 16)
AGAIN = "repeat the same command"


@dataclass(frozen=True)
class WheelPlatform:
    """The machine and Python that the wheels are for; `python` is 3.10."""

    architecture: str
    python: str

    @property
    def here(self) -> bool:
        """Whether this very Python could use them: then packages without a wheel can be built."""
        return (self.architecture, self.python) == (platform.machine(), minor_here())


def target(recipe: Recipe, architecture: str) -> WheelPlatform:
    """This Python's version where the recipe takes it, else the oldest that it takes."""
    here = platform.python_version()
    wanted = SpecifierSet(recipe.python)
    known = [_minor(here), *(f"3.{minor}" for minor in MINORS)]
    fitting = [p for p in known if any(wanted.contains(f"{p}.{patch}", prereleases=True) for patch in range(30))]
    if not fitting:
        what = f"{recipe.name} takes Python {recipe.python}, which is none that envcheck knows of"
        raise EnvcheckError(what, f"let the recipe take one of 3.{MINORS[0]} to 3.{MINORS[-1]}")
    return WheelPlatform(architecture, fitting[0])


def minor_here() -> str:
    return _minor(platform.python_version())


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def wheels(
    recipe: Recipe, aim: WheelPlatform, folder: Path, report: Report, clones: Mapping[str, Path]
) -> tuple[Wheel, ...]:
    """The recipe's packages and all that they need, and what clones need, as wheels in `folder`/wheels; what builds the
    clones in `folder`/tools.  `clones` are git bundles by the clone's folder."""
    into, known = folder / "wheels", dict[str, Wheel]()
    into.mkdir()
    editable = [clones[each.directory] for each in recipe.checkouts if each.editable]
    more = tuple(Package(line) for bundle in editable for line in _of_clone(bundle, aim, folder, report))
    for index, packages in (*by_index(recipe.packages), *((("", more),) if more else ())):
        others = [p.name.partition("[")[0] + p.specifier for p in recipe.packages if p not in packages]
        limits = [*others, *(f"{w.name}=={w.version}" for w in known.values() if w.name not in map(_bare, others))]
        _pip(aim, into, [p.name + p.specifier for p in packages], limits, index, folder, report)
        known |= {w.file: w for w in _read(into, index) if w.file not in known}
    return tuple(known.values())


def _of_clone(bundle: Path, aim: WheelPlatform, folder: Path, report: Report) -> Iterator[str]:
    """What a project says that it needs: its wheel is made here for that, though it be for another machine."""
    place, made, tools = folder / f"of-{bundle.stem}", folder / f"made-{bundle.stem}", folder / "tools"
    _git("clone", "--quiet", "--", str(bundle), str(place), what=bundle.name)
    if said := _failed(_run(("wheel", "--no-deps", f"--wheel-dir={made}", str(place)), folder, report)):
        raise _in_words(said, aim)
    tools.mkdir(exist_ok=True)
    file = place / "pyproject.toml"
    wanted = required(file.read_text("utf-8", "replace") if file.is_file() else "")
    _pip(aim, tools, list(dict.fromkeys((*wanted, *LEGACY))), [], "", folder, report)
    with zipfile.ZipFile(next(made.glob("*.whl"))) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        about = email.message_from_bytes(archive.read(name))
    lines = [Requirement(line) for line in about.get_all("Requires-Dist") or ()]
    # A marker that names an extra is another's wish; the others speak of that Python, which is asked for by pip.
    yield from (str(line) for line in lines if "extra ==" not in str(line.marker or ""))


def _bare(requirement: str) -> str:
    return Requirement(requirement).name


def _read(folder: Path, index: str) -> Iterator[Wheel]:
    for path in sorted(folder.iterdir()):
        if path.suffix != ".whl":
            raise StepError(f"{path.name} is no wheel, and cannot be installed without a network", AGAIN)
        name, version, _, _ = parse_wheel_filename(path.name)
        yield Wheel(name, str(version), path.name, checksums.sha256(path), index)


def pip_arguments(aim: WheelPlatform, into: Path, wanted: Sequence[str], limits: Path, index: str) -> tuple[str, ...]:
    """`pip wheel` where this Python is the one, `pip download` with tags of the other where not."""
    common = (f"--constraint={limits}", f"--find-links={into}", *((f"--index-url={index}",) if index else ()), *wanted)
    if aim.here:
        return ("wheel", f"--wheel-dir={into}", *common)
    tag = aim.python.replace(".", "")
    tags = [f"--platform={name}_{aim.architecture}" for name in MANYLINUX]
    abis = [f"--abi={abi}" for abi in (f"cp{tag}", "abi3", "none")]
    return ("download", f"--dest={into}", "--only-binary=:all:", f"--python-version={aim.python}",
            "--implementation=cp", *abis, *tags, *common)  # fmt: skip


def _pip(
    aim: WheelPlatform,
    into: Path,
    wanted: Sequence[str],
    limits: Sequence[str],
    index: str,
    scratch: Path,
    report: Report,
) -> None:
    """Fetch; for another Python, what has no wheel at all is built here first, as long as that gives one for any."""
    if importlib.util.find_spec("pip") is None:
        raise EnvcheckError("the Python that runs envcheck has no pip", f"{sys.executable} -m ensurepip")
    constraints = scratch / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in limits), "utf-8")
    words, built = pip_arguments(aim, into, wanted, constraints, index), set[str]()
    while done := _failed(_run(words, scratch, report)):
        lacking = re.findall(r"No matching distribution found for ([^\s(]+)", done)
        if aim.here or not lacking or lacking[-1] in built:
            raise _in_words(done, aim)
        built.add(lacking[-1])
        own = (f"--index-url={index}",) if index else ()
        options = (f"--wheel-dir={into}", f"--constraint={constraints}", *own)
        if _failed(_run(("wheel", "--no-deps", *options, lacking[-1]), scratch, report)):
            raise _in_words(done, aim)
        for path in into.glob("*.whl"):
            if not _usable(path.name, aim):
                path.unlink()
                raise _in_words(done, aim)


def _usable(file: str, aim: WheelPlatform) -> bool:
    """Whether a wheel is for that Python, or for any."""
    digits = aim.python.replace(".", "")
    tags = parse_wheel_filename(file)[3]
    return any(t.abi == "abi3" or t.interpreter in ("py3", f"cp{digits}", f"py{digits}") for t in tags)


def _run(words: Sequence[str], scratch: Path, report: Report) -> process.CommandResult:
    with Downloads(scratch / "tmp", report) as downloads:
        argv = (sys.executable, "-I", "-m", "pip", *words)
        return process.run(argv, timeout_s=DEADLINE_S, env=_surroundings(scratch), on_line=downloads.line)


def _failed(done: process.CommandResult) -> str:
    """What a pip that failed said; "" for one that did not."""
    return f"$ {' '.join(done.argv)}\n{done.out}\n{done.err}" if done.status else ""


def _in_words(said: str, aim: WheelPlatform) -> StepError:
    sentence, step = pip_words.understood(said)
    log = paths.home() / "bundle-pip.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    keep(log, said)
    other = "" if aim.here else f"; or run envcheck bundle with Python {aim.python}, which could build it"
    return StepError(redact(sentence), step.replace("the log", str(log)) + other)


def with_log(err: StepError, builder: Path) -> StepError:
    """The same, with pip's log where it stays: the builder goes."""
    log, kept = builder / ".envcheck" / "pip.log", paths.home() / "bundle-pip.log"
    if log.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        keep(kept, log.read_text("utf-8", "replace"))
    return StepError(err.message.replace("; nothing was installed", ""), err.next_step.replace(str(log), str(kept)))


def _surroundings(scratch: Path) -> dict[str, str]:
    """The caller's environment, without what leads pip astray; its temporary files beside what it fetches."""
    (scratch / "tmp").mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if k not in UNSET and not k.startswith("PYTHON")}
    ours = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "TMPDIR": str(scratch / "tmp")}
    return {"PIP_RETRIES": "3", **kept, **ours, "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


def checkouts(found: Iterable[Checkout], folder: Path) -> tuple[Commit, ...]:
    """Each clone as NAME.bundle in `folder`/checkouts: the one commit and what led to it."""
    into = folder / "checkouts"
    into.mkdir()
    return tuple(_checkout(each, into, folder / "clone") for each in found)


def bundle_name(checkout: Checkout) -> str:
    """The file's name in checkouts/, after the folder that the clone will have; two may be called alike."""
    name = re.sub(r"[^A-Za-z0-9_.-]|^[^A-Za-z0-9]", "x", PurePosixPath(checkout.directory).name)[:60]
    return f"{name}-{hashlib.sha256(checkout.directory.encode()).hexdigest()[:8]}.bundle"


def _checkout(each: Checkout, into: Path, scratch: Path) -> Commit:
    bare = scratch.with_name(f"clone-{bundle_name(each)}")
    _git("clone", "--bare", "--quiet", "--", each.url, str(bare), what=each.url)
    ref = next((r for r in (each.ref, f"refs/tags/{each.ref}") if r and not r.startswith("-")), "HEAD")
    commit = _git("-C", str(bare), "rev-parse", "--verify", f"{ref}^{{commit}}", what=each.url).strip()
    _git("-C", str(bare), "update-ref", "refs/heads/envcheck", commit, what=each.url)
    _git("-C", str(bare), "symbolic-ref", "HEAD", "refs/heads/envcheck", what=each.url)
    target = into / bundle_name(each)
    _git("-C", str(bare), "bundle", "create", "--quiet", str(target), "HEAD", "refs/heads/envcheck", what=each.url)
    return Commit(each.url, commit, each.directory)


def _git(*words: str, what: str) -> str:
    done = process.run(("git", *words), timeout_s=DEADLINE_S)
    if done.absent:
        raise EnvcheckError("there is no git on this machine", "install git")
    if done.status:
        last = [line for line in done.err.splitlines() if line.strip()][-1:] or [f"status {done.status}"]
        raise StepError(redact(f"git {words[-1] if words[0] != '-C' else words[2]} of {what}: {last[0][:200]}"), AGAIN)
    return done.out
