"""Collect a bundle's wheels and clones."""

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
from envcheck.core.errors import EnvcheckError, StepError, UsageError
from envcheck.core.messages import NOTHING, Message, _, verbatim
from envcheck.core.secrets import redact_text
from envcheck.settings import site_access
from envcheck.settings.site_access import NO_SITE, SiteAccess
from installers.bundle.build_requirements import LEGACY, parse_build_requirements
from installers.locks import wheel_fit
from installers.locks.lockfile import LockedCommit, LockedWheel
from installers.recipes.recipe import Checkout, Package, Recipe, group_by_index
from installers.software import pip_errors
from installers.software.pip_runner import UNSET, PipError, write_log
from installers.state import checksums
from installers.state.progress import DownloadProgress, Report

DEADLINE_S = 2 * 3600.0
# Accepted glibc tags, newest last: 2.17 is CentOS 7, 2.28 Debian 10, 2.31 Ubuntu 20.04 (vendors' images).
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
AGAIN = _("run the same command again")


@dataclass(frozen=True)
class WheelPlatform:
    """The architecture and Python that the wheels are for; `python` looks like 3.10.

    `newest` is the newest platform tag to accept, such as manylinux_2_28; "" for any.
    """

    architecture: str
    python: str
    newest: str = ""

    @property
    def is_this_python(self) -> bool:
        """Whether this Python can use the wheels: then packages without a wheel can be built."""
        here = (platform.machine(), running_python_minor())
        return (self.architecture, self.python) == here and not self.newest

    @property
    def tags(self) -> tuple[str, ...]:
        """The accepted platform tags of Linux wheels, without the architecture, newest last."""
        if not self.newest:
            return MANYLINUX
        limit = wheel_fit.read_glibc(self.newest)
        known = [name for name in MANYLINUX if name != "linux" and wheel_fit.read_glibc(name) <= limit]
        return tuple(dict.fromkeys((*known, self.newest)))


_TAG = re.compile(r"(manylinux_2_\d{1,2}|manylinux1|manylinux2010|manylinux2014)_(x86_64|aarch64)")


def parse_platform(text: str) -> tuple[str, str]:
    """Return architecture and tag of a platform such as manylinux_2_28_x86_64; UsageError for anything else."""
    found = _TAG.fullmatch(text)
    if not found:
        raise UsageError(
            _("--platform {text}: expected a platform such as manylinux_2_28_x86_64", text=text[:80]),
            _("the second number is the target's glibc: `ldd --version` there"),
        )
    return found[2], found[1]


def choose_platform(recipe: Recipe, architecture: str, python: str = "", newest: str = "") -> WheelPlatform:
    """Return the requested Python, else this one's version if the recipe accepts it, else the oldest accepted one."""
    if python:
        _check_python(recipe, python)
        return WheelPlatform(architecture, python, newest)
    here = platform.python_version()
    wanted = SpecifierSet(recipe.python)
    known = [_minor_version(here), *(f"3.{minor}" for minor in MINORS)]
    fitting = [p for p in known if any(wanted.contains(f"{p}.{patch}", prereleases=True) for patch in range(30))]
    if not fitting:
        what = _(
            "{name} requires Python {python}, which matches no version that envcheck supports",
            name=recipe.name,
            python=recipe.python,
        )
        raise EnvcheckError(
            what,
            _(
                "change the recipe to accept a Python from 3.{oldest} to 3.{newest}",
                oldest=MINORS[0],
                newest=MINORS[-1],
            ),
        )
    return WheelPlatform(architecture, fitting[0], newest)


def _check_python(recipe: Recipe, python: str) -> None:
    if not re.fullmatch(r"3\.\d{1,2}", python):
        raise UsageError(_("--python {text}: expected a version such as 3.10", text=python[:80]), NOTHING)
    if not any(SpecifierSet(recipe.python).contains(f"{python}.{patch}", prereleases=True) for patch in range(30)):
        raise UsageError(
            _("--python {shown}: recipe {recipe} requires Python {wanted}", shown=python, recipe=recipe.name,
              wanted=recipe.python),
            _("omit --python, or choose another version"),
        )  # fmt: skip


def running_python_minor() -> str:
    """Return the version of the running Python, such as 3.10."""
    return _minor_version(platform.python_version())


def _minor_version(version: str) -> str:
    return ".".join(version.split(".")[:2])


def collect_wheels(
    recipe: Recipe,
    aim: WheelPlatform,
    folder: Path,
    report: Report,
    clones: Mapping[str, Path],
    site: SiteAccess = NO_SITE,
) -> tuple[LockedWheel, ...]:
    """Download or build wheels of the recipe's packages and clones with all dependencies into `folder`/wheels.

    Build dependencies of the clones go to `folder`/tools.  `clones` are git bundles by the clone's folder.
    """
    into, known = folder / "wheels", dict[str, LockedWheel]()
    into.mkdir()
    editable = [clones[each.directory] for each in recipe.checkouts if each.editable]
    more = tuple(
        Package(line) for bundle in editable for line in _collect_clone_requirements(bundle, aim, folder, report)
    )
    for index, packages in (*group_by_index(recipe.packages), *((("", more),) if more else ())):
        others = [p.name.partition("[")[0] + p.specifier for p in recipe.packages if p not in packages]
        limits = [*others, *(f"{w.name}=={w.version}" for w in known.values() if w.name not in map(_bare_name, others))]
        _fetch_with_pip(aim, into, [p.name + p.specifier for p in packages], limits, index, folder, report, site)
        known |= {w.file: w for w in _read_wheels(into, index) if w.file not in known}
    return tuple(known.values())


def _collect_clone_requirements(bundle: Path, aim: WheelPlatform, folder: Path, report: Report) -> Iterator[str]:
    """Yield the requirements of a clone; its wheel is built here for its metadata, even for another platform."""
    place, made, tools = folder / f"of-{bundle.stem}", folder / f"made-{bundle.stem}", folder / "tools"
    _run_git("clone", "--quiet", "--", str(bundle), str(place), what=bundle.name)
    if said := _failure_output(_run_pip(("wheel", "--no-deps", f"--wheel-dir={made}", str(place)), folder, report)):
        raise _explain_pip_failure(said, aim)
    tools.mkdir(exist_ok=True)
    file = place / "pyproject.toml"
    wanted = parse_build_requirements(file.read_text("utf-8", "replace") if file.is_file() else "")
    _fetch_with_pip(aim, tools, list(dict.fromkeys((*wanted, *LEGACY))), [], "", folder, report, NO_SITE)
    with zipfile.ZipFile(next(made.glob("*.whl"))) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        about = email.message_from_bytes(archive.read(name))
    lines = [Requirement(line) for line in about.get_all("Requires-Dist") or ()]
    # Requirements of extras are left out; pip evaluates the other markers for the target Python.
    yield from (str(line) for line in lines if "extra ==" not in str(line.marker or ""))


def _bare_name(requirement: str) -> str:
    return Requirement(requirement).name


def _read_wheels(folder: Path, index: str) -> Iterator[LockedWheel]:
    for path in sorted(folder.iterdir()):
        if path.suffix != ".whl":
            raise StepError(_("{name} is not a wheel and cannot be installed offline", name=path.name), AGAIN)
        name, version, *_unused = parse_wheel_filename(path.name)
        yield LockedWheel(name, str(version), path.name, checksums.compute_sha256(path), index)


def build_pip_arguments(
    aim: WheelPlatform, into: Path, wanted: Sequence[str], limits: Path, index: str
) -> tuple[str, ...]:
    """Return the arguments of `pip wheel` for this Python, or of `pip download` with the other Python's tags."""
    common = (f"--constraint={limits}", f"--find-links={into}", *((f"--index-url={index}",) if index else ()), *wanted)
    if aim.is_this_python:
        return ("wheel", f"--wheel-dir={into}", *common)
    tag = aim.python.replace(".", "")
    tags = [f"--platform={name}_{aim.architecture}" for name in aim.tags]
    abis = [f"--abi={abi}" for abi in (f"cp{tag}", "abi3", "none")]
    return ("download", f"--dest={into}", "--only-binary=:all:", f"--python-version={aim.python}",
            "--implementation=cp", *abis, *tags, *common)  # fmt: skip


def _fetch_with_pip(
    aim: WheelPlatform,
    into: Path,
    wanted: Sequence[str],
    limits: Sequence[str],
    index: str,
    scratch: Path,
    report: Report,
    site: SiteAccess,
) -> None:
    """Download; for another Python, packages without wheels are first built here if that gives a pure one."""
    if importlib.util.find_spec("pip") is None:
        raise EnvcheckError(_("the Python that runs envcheck has no pip"), verbatim(f"{sys.executable} -m ensurepip"))
    constraints = scratch / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in limits), "utf-8")
    found_at = site_access.rewrite_url(site, index)
    words, built = build_pip_arguments(aim, into, wanted, constraints, found_at), set[str]()
    while done := _failure_output(_run_pip(words, scratch, report)):
        lacking = re.findall(r"No matching distribution found for ([^\s(]+)", done)
        if aim.is_this_python or not lacking or lacking[-1] in built:
            raise _explain_pip_failure(done, aim)
        built.add(lacking[-1])
        own = (f"--index-url={found_at}",) if index else ()
        options = (f"--wheel-dir={into}", f"--constraint={constraints}", *own)
        if _failure_output(_run_pip(("wheel", "--no-deps", *options, lacking[-1]), scratch, report)):
            raise _explain_pip_failure(done, aim)
        for path in into.glob("*.whl"):
            if not _suits_platform(path.name, aim):
                path.unlink()
                raise _explain_pip_failure(done, aim)


def _suits_platform(file: str, aim: WheelPlatform) -> bool:
    """Return whether a wheel is for that Python or for any."""
    digits = aim.python.replace(".", "")
    tags = parse_wheel_filename(file)[3]
    return any(t.abi == "abi3" or t.interpreter in ("py3", f"cp{digits}", f"py{digits}") for t in tags)


def _run_pip(words: Sequence[str], scratch: Path, report: Report) -> process.CommandResult:
    with DownloadProgress(scratch / "tmp", report) as downloads:
        argv = (sys.executable, "-I", "-m", "pip", *words)
        return process.run_command(
            argv, timeout_s=DEADLINE_S, env=_pip_environment(scratch), on_line=downloads.add_line
        )


def _failure_output(done: process.CommandResult) -> str:
    """Return the output of a failed pip; "" if it succeeded."""
    return f"$ {' '.join(done.argv)}\n{done.out}\n{done.err}" if done.status else ""


def _explain_pip_failure(output: str, aim: WheelPlatform) -> StepError:
    log = paths.envcheck_home() / "bundle-pip.log"
    sentence, step = pip_errors.explain_output(output, str(log))
    log.parent.mkdir(parents=True, exist_ok=True)
    write_log(log, output)
    if not aim.is_this_python:
        step = _(
            "{next_step}; or run `envcheck bundle` with Python {python} to build it",
            next_step=step,
            python=aim.python,
        )
    return StepError(sentence, step)


def keep_pip_log(err: StepError, builder: Path) -> StepError:
    """Return the error with pip's log copied to a permanent place, because the builder is deleted."""
    log, kept = builder / ".envcheck" / "pip.log", paths.envcheck_home() / "bundle-pip.log"
    if log.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_log(kept, log.read_text("utf-8", "replace"))
    message = err.problem if isinstance(err, PipError) else err.message
    return StepError(message, _replaced(err.next_step, str(log), str(kept)))


def _replaced(words: Message, old: str, new: str) -> Message:
    """Return the message with one path among its values replaced."""
    values = {
        name: _replaced(value, old, new) if isinstance(value, Message) else new if str(value) == old else value
        for name, value in words.values.items()
    }
    return Message(words.template, values, words.plural, words.number)


def _pip_environment(scratch: Path) -> dict[str, str]:
    """Return the caller's environment without variables that misdirect pip; temporary files stay in `scratch`."""
    (scratch / "tmp").mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if k not in UNSET and not k.startswith("PYTHON")}
    ours = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "TMPDIR": str(scratch / "tmp")}
    return {"PIP_RETRIES": "3", **kept, **ours, "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


def bundle_checkouts(checkouts: Iterable[Checkout], folder: Path) -> tuple[LockedCommit, ...]:
    """Write each clone as NAME.bundle to `folder`/checkouts: one commit with its history."""
    into = folder / "checkouts"
    into.mkdir()
    return tuple(_bundle_checkout(each, into, folder / "clone") for each in checkouts)


def bundle_name(checkout: Checkout) -> str:
    """Return the file name in checkouts/: the clone's folder name and a hash, because two may have the same name."""
    name = re.sub(r"[^A-Za-z0-9_.-]|^[^A-Za-z0-9]", "x", PurePosixPath(checkout.directory).name)[:60]
    return f"{name}-{hashlib.sha256(checkout.directory.encode()).hexdigest()[:8]}.bundle"


def _bundle_checkout(each: Checkout, into: Path, scratch: Path) -> LockedCommit:
    bare = scratch.with_name(f"clone-{bundle_name(each)}")
    _run_git("clone", "--bare", "--quiet", "--", each.url, str(bare), what=each.url)
    ref = next((r for r in (each.ref, f"refs/tags/{each.ref}") if r and not r.startswith("-")), "HEAD")
    commit = _run_git("-C", str(bare), "rev-parse", "--verify", f"{ref}^{{commit}}", what=each.url).strip()
    _run_git("-C", str(bare), "update-ref", "refs/heads/envcheck", commit, what=each.url)
    _run_git("-C", str(bare), "symbolic-ref", "HEAD", "refs/heads/envcheck", what=each.url)
    target = into / bundle_name(each)
    _run_git("-C", str(bare), "bundle", "create", "--quiet", str(target), "HEAD", "refs/heads/envcheck", what=each.url)
    return LockedCommit(each.url, commit, each.directory)


def _run_git(*words: str, what: str) -> str:
    done = process.run_command(("git", *words), timeout_s=DEADLINE_S)
    if done.absent:
        raise EnvcheckError(_("git not found on this machine"), _("install git"))
    if done.status:
        last = [line for line in done.err.splitlines() if line.strip()][-1:]
        verb = words[-1] if words[0] != "-C" else words[2]
        reason = redact_text(last[0][:200]) if last else _("exited with status {status}", status=done.status)
        raise StepError(
            _(
                "git {verb} of {what} failed: {reason}",
                verb=redact_text(verb),
                what=redact_text(what),
                reason=reason,
            ),
            AGAIN,
        )
    return done.out
