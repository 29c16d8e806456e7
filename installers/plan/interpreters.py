"""Choose the Python of a new environment: envcheck's own, one of this machine, or one that uv or conda can get."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from envcheck.core import paths, process
from envcheck.core.errors import StepError, UsageError
from envcheck.core.messages import NOTHING, Message, _, join, verbatim
from envcheck.core.portable.home_folder import find_user_home
from envcheck.core.secrets import redact_text
from envcheck.job.requirements.software_versions import is_allowed
from envcheck.settings import site_access
from envcheck.settings.site_access import NO_SITE, SiteAccess

OLDEST = (3, 8)  # for the programs that envcheck runs in an environment
MINORS = ("3.10", "3.11", "3.12", "3.13")  # to get, the first that suits
ASK_S, OBTAIN_S = 60.0, 1800.0
# Where uv and conda download from, by the variable that names another place: "Managed Python distributions" in the
# manual of uv, `channel_alias` in that of conda (mamba names its own variable).
SERVERS = {
    "UV_PYTHON_INSTALL_MIRROR": "https://github.com/astral-sh/python-build-standalone/releases/download",
    "CONDA_CHANNEL_ALIAS": "https://conda.anaconda.org",
    "MAMBA_CHANNEL_ALIAS": "https://conda.anaconda.org",
}
_LABEL = re.compile(r"(?:error|cause|critical)\b[: ]+(?:libmamba )?", re.IGNORECASE)
_HOST = re.compile(r"https?://(?:[^/@\s]*@)?([\w.-]+)")
_VERSION = re.compile(r"3\.\d{1,2}(?:\.\d{1,2})?")
_PROGRAM = """
import importlib.util, json, platform, sys
whole = all(importlib.util.find_spec(name) for name in ("ensurepip", "venv"))
base = getattr(sys, "_base_executable", "") or sys.executable
print("ENVCHECK " + json.dumps([platform.python_version(), base, whole]))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python; `origin` is where it comes from, "" for envcheck's own.

    `obtain` is the command that gets it first; until then `path` is where it will be, as a pattern.
    """

    path: str
    version: str
    makes_environments: bool = True
    origin: Message = NOTHING
    obtain: tuple[str, ...] = ()


@dataclass(frozen=True)
class PythonChoice:
    """What --python names: a version (3.10 or 3.10.13), or the path of an interpreter."""

    version: str = ""
    path: str = ""

    @property
    def specifier(self) -> str:
        """The specifier of the accepted versions, "" for a path."""
        if not self.version:
            return ""
        return f"=={self.version}" + (".*" if self.version.count(".") == 1 else "")


def parse_choice(text: str) -> PythonChoice:
    """Return what --python names; UsageError if it is neither a version nor an interpreter."""
    if _VERSION.fullmatch(text):
        return PythonChoice(version=text)
    path = paths.parse_path(text, "--python").absolute()
    if "/" not in text and (found := shutil.which(text)):
        path = Path(found)
    if path.is_dir():
        path = path / "bin" / "python"
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise UsageError(
            _("--python {text}: neither a version such as 3.10 nor an interpreter", text=text[:200]),
            _("give a version, or the path of a Python: --python /usr/bin/python3.10"),
        )
    return PythonChoice(path=str(path))


def read_minor(text: str) -> str:
    """Return the version of what --python names, such as 3.12; UsageError for an interpreter that does not run."""
    choice = parse_choice(text)
    named = inspect_interpreter(choice.path, verbatim("--python")) if choice.path else None
    if choice.path and named is None:
        raise _refuse_path(choice.path)
    return ".".join((named.version if named else choice.version).split(".")[:2])


def _refuse_path(path: str) -> UsageError:
    why = _("--python {path}: not a Python {oldest} or newer that runs", path=path, oldest=_oldest())
    return UsageError(why, verbatim(f"{path} --version"))


def choose_interpreter(choice: PythonChoice | None, accepted: str, recipe: str) -> Interpreter:
    """Return the Python of a new environment for the recipe, whose specifier is `accepted`.

    Without a choice it is envcheck's own if that suits, and if nothing suits.  UsageError for a choice that does not.
    """
    own = read_own()
    if choice is None and is_allowed(own.version, accepted):
        return own
    if choice and choice.path:
        named = inspect_interpreter(choice.path, verbatim("--python"))
        if named is None:
            raise _refuse_path(choice.path)
        _check_choice(named.version, choice.path, accepted, recipe)
        return named
    if choice:
        newest = ".99" if choice.version.count(".") == 1 else ""
        _check_choice(f"{choice.version}{newest}", choice.version, accepted, recipe)
    wanted = ",".join(filter(None, (accepted, choice.specifier if choice else "")))
    there = itertools.chain((own,), list_interpreters())
    found = next((each for each in there if is_allowed(each.version, wanted)), None)
    obtained = found or plan_interpreter(wanted)
    if obtained is None and choice:
        known = join(", ", dict.fromkeys(each.version for each in (own, *list_interpreters())))
        raise UsageError(
            _(
                "--python {version}: not found on this machine, and neither uv nor conda to get it",
                version=choice.version,
            ),
            _("available: {known}; or install uv", known=known),
        )
    return obtained or own


def _check_choice(version: str, shown: str, accepted: str, recipe: str) -> None:
    if not is_allowed(version, accepted):
        raise UsageError(
            _(
                "--python {shown}: recipe {recipe} requires Python {wanted}",
                shown=shown,
                recipe=recipe,
                wanted=accepted,
            ),
            _("omit --python, or choose another version"),
        )


def _oldest() -> str:
    return ".".join(map(str, OLDEST))


def read_own() -> Interpreter:
    """Return the Python that runs envcheck, outside of envcheck's own environment."""
    import importlib.util
    import platform

    # Debian and Ubuntu ship ensurepip in python3-venv only; without it `python3 -m venv` fails halfway.
    whole = all(importlib.util.find_spec(name) for name in ("ensurepip", "venv"))
    return Interpreter(getattr(sys, "_base_executable", "") or sys.executable, platform.python_version(), whole)


def list_interpreters() -> Iterator[Interpreter]:
    """Yield the other Pythons of this machine, of each place the newest first."""
    for path, origin in _list_candidates():
        if path.is_file() and (seen := inspect_interpreter(str(path), origin)):
            yield seen


def _list_candidates() -> Iterator[tuple[Path, Message]]:
    home = find_user_home() or Path("/nowhere")
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    managed = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local" / "share" / "uv" / "python")
    conda = [Path(root) for root in (os.environ.get("CONDA_PREFIX"), os.environ.get("MAMBA_ROOT_PREFIX")) if root]
    places = (
        (pyenv / "versions", "*/bin/python3", verbatim("pyenv")),
        (managed, "cpython-*/bin/python3", verbatim("uv")),
        (obtained_folder(), "*/bin/python3", _("envcheck's own folder")),
        *((root, "bin/python3", verbatim("conda")) for root in conda),
        *((root, "envs/*/bin/python3", verbatim("conda")) for root in conda),
    )
    for folder, pattern, origin in places:
        yield from ((path, origin) for path in sorted(folder.glob(pattern), key=_sort_key, reverse=True))
    for minor in MINORS:
        if path := shutil.which(f"python{minor}"):
            yield Path(path), verbatim("PATH")


def _sort_key(path: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", path.parent.parent.name)[:3]))


def inspect_interpreter(path: str, origin: Message) -> Interpreter | None:
    """Return the Python at the path; None if it does not run, or is too old."""
    done = process.run_command((path, "-I", "-c", _PROGRAM), timeout_s=ASK_S)
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
    if done.status or not line:
        return None
    try:
        version, base, whole = json.loads(line.removeprefix("ENVCHECK "))
        is_recent = Version(version).release[:2] >= OLDEST
    except (InvalidVersion, ValueError, TypeError):
        return None
    return Interpreter(str(base), str(version), bool(whole), origin) if is_recent else None


def obtained_folder() -> Path:
    """Return the folder for Pythons that uv or conda got for envcheck."""
    return paths.envcheck_home() / "pythons"


def plan_interpreter(wanted: str) -> Interpreter | None:
    """Return the Python that uv or conda can get for this specifier; None if neither is there."""
    exact = re.search(r"==(3\.\d+\.\d+)", wanted)
    minors = (exact[1],) if exact else tuple(minor for minor in MINORS if is_allowed(f"{minor}.99", wanted))
    if not minors:
        return None
    minor, folder = minors[0], obtained_folder()
    if shutil.which("uv"):
        argv: tuple[str, ...] = ("uv", "python", "install", "--install-dir", str(folder), minor)
        return Interpreter(str(folder / f"cpython-{minor}*" / "bin" / "python3"), minor, True, verbatim("uv"), argv)
    for tool in ("micromamba", "mamba", "conda"):
        if shutil.which(tool):
            prefix = folder / f"conda-{minor}"
            argv = (tool, "create", "--yes", "--prefix", str(prefix), f"python={minor}", "pip")
            return Interpreter(str(prefix / "bin" / "python3"), minor, True, verbatim(tool), argv)
    return None


def list_mirrors(site: SiteAccess) -> dict[str, str]:
    """Return the variables by which uv and conda download from where the site has it."""
    moved = {name: site_access.rewrite_url(site, server) for name, server in SERVERS.items()}
    return {name: url for name, url in moved.items() if url != SERVERS[name]}


def obtain_interpreter(planned: Interpreter, site: SiteAccess = NO_SITE) -> Interpreter:
    """Get the planned Python and return it.  StepError if that fails; then nothing of it is left."""
    home = obtained_folder()
    known = set(home.iterdir()) if home.is_dir() else set()
    home.mkdir(parents=True, exist_ok=True)
    found = None
    try:
        found = _run_tool(planned, {**os.environ, **site_access.list_variables(site), **list_mirrors(site)})
    finally:
        if found is None:
            _remove_partial(planned, known)
    return found


def _run_tool(planned: Interpreter, env: Mapping[str, str]) -> Interpreter:
    done = process.run_command(planned.obtain, timeout_s=OBTAIN_S, env=env)
    shown = " ".join(planned.obtain)
    if done.status:
        reason = _read_reason(done.out + done.err) or _("exit code {status}", status=done.status)
        raise StepError(_("{command} failed: {reason}", command=shown, reason=reason), _next_step(planned))
    for path in sorted(obtained_folder().glob(str(Path(planned.path).relative_to(obtained_folder()))), reverse=True):
        if found := inspect_interpreter(str(path), planned.origin):
            return found
    raise StepError(
        _("{command} succeeded, but {path} does not run", command=shown, path=planned.path), _next_step(planned)
    )


def _next_step(planned: Interpreter) -> Message:
    return _(
        "install Python {version} yourself and name it with --python PATH, or name a mirror in [site.rewrites] of "
        "envcheck.toml",
        version=planned.version,
    )


def _read_reason(output: str) -> Message:
    """Return the last line of the output without its label, with the server that the output names."""
    lines = [_LABEL.sub("", line.strip(), count=1) for line in redact_text(output).splitlines() if line.strip()]
    if not lines:
        return NOTHING
    hosts = _HOST.findall(output)
    if not hosts or hosts[-1] in lines[-1]:
        return verbatim(lines[-1][:300])
    return verbatim(f"{hosts[-1]}: {lines[-1][:300]}")


def _remove_partial(planned: Interpreter, known: Collection[Path]) -> None:
    """Remove what a failed command left: the prefix of conda, and the folder if it has only uv's own files."""
    home = obtained_folder()
    prefix = Path(planned.path).parents[1]
    if "*" not in prefix.name and prefix not in known:
        shutil.rmtree(prefix, ignore_errors=True)
    if all(path.name.startswith(".") for path in home.iterdir()):
        shutil.rmtree(home, ignore_errors=True)
