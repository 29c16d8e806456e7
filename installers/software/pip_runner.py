"""Run pip in the target: the recipe's versions, output line by line, explained failures.

No global configuration is changed, and pip keeps its cache; the index is the package's own or the configured one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.utils import canonicalize_name

from envcheck.core.errors import StepError
from envcheck.core.messages import NOTHING, Message, _
from envcheck.core.secrets import redact_text
from envcheck.settings import site_access
from installers import programs
from installers.locks.lockfile import LockedWheel
from installers.recipes.recipe import Package
from installers.software import pip_errors, solver
from installers.software.solver import PipAnswer, PipProblem, ResolvedPackage
from installers.targets.target import Target

DEADLINE_S = 2 * 3600.0  # for a hanging pip; pip itself limits silent connections
# Settings that would redirect pip's installation or reduce the output that is parsed.
UNSET = (
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_QUIET",
    "PIP_NO_DEPS",
    "PIP_DRY_RUN",
    "PIP_PYTHON",
    "PIP_ISOLATED",
)
INDEX = "--index-url"
CONFIGURED = (Package(""),)  # any package, from the configured index
Line = Callable[[str], None]
Note = Callable[[Sequence[LockedWheel]], None]
Exact = tuple[str, str, tuple[str, ...]]  # name, version, accepted SHA-256 checksums


class PipError(StepError):
    """pip failed; `harmless`: before it changed anything.  `problem` is the message without that remark."""

    def __init__(self, message: Message, next_step: Message, harmless: bool, problem: Message = NOTHING) -> None:
        super().__init__(message, next_step)
        self.harmless, self.problem = harmless, problem or message


@dataclass(frozen=True)
class PipRunner:
    """Runs the pip of a target's Python; `on_line` gets its output lines."""

    target: Target
    on_line: Line

    def run_pip(self, *arguments: str) -> str:
        """Run pip and return its output.  StepError if it fails; the log has the complete output."""
        return self._run_checked(("-m", "pip", *arguments), f"pip {' '.join(arguments)}")

    def solve_requirements(self, store: str, *arguments: str) -> PipAnswer:
        """Return what pip would install, downloaded into `store`; installs nothing."""
        program = (Path(programs.__path__[0]) / "solve.py").read_text("utf-8")
        report = f"{self.target.make_empty_folder('report')}/report.json"
        said = self._run_checked(
            ("-c", program, store, report, *arguments), f"pip install --dry-run {' '.join(arguments)}"
        )
        return solver.parse_answer(said)

    def _run_checked(self, arguments: Sequence[str], shown: str) -> str:
        arguments, moved = self._rewrite_index(arguments)
        argv = (self.target.python, "-I", *arguments)
        env = {**pip_environment(self.target), **moved}
        env["PIP_LOG"] = details = f"{env['TMPDIR']}/details.log"
        done = self.target.run_command(argv, timeout_s=DEADLINE_S, env=env, on_line=self._forward_line)
        text = f"{done.out}\n{done.err}"
        log = self.target.notes_folder / "pip.log"
        write_log(log, f"$ {self.target.python} -m {shown}\n{text}")
        if done.status == 0:
            return text
        if done.hung:
            raise StepError(
                _("pip did not finish within {hours:.0f} h and was stopped", hours=DEADLINE_S / 3600),
                _("check {log}, then run the command again", log=log),
            )
        # Why an index page could not be read, pip writes only there.
        causes = [line for line in self.target.read_file(details).splitlines() if "Could not fetch URL" in line]
        sentence, step = pip_errors.explain_output("\n".join((text, *causes)), log)
        if self.target.settings_hint and re.search(pip_errors.SETTING, step):
            step = _("{step}{hint}", step=step, hint=self.target.settings_hint)
        harmless = "Installing collected packages" not in text
        raise PipError(sentence, step, harmless)

    def _rewrite_index(self, arguments: Sequence[str]) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the arguments without an index that the site reaches elsewhere, and the variable with that one: it may
        have a password, and arguments are visible in the process list."""
        for argument in arguments:
            option, _unused, url = argument.partition("=")
            if option == INDEX and (moved := site_access.rewrite_url(self.target.site, url)) != url:
                return [each for each in arguments if each != argument], {"PIP_INDEX_URL": moved}
        return arguments, {}

    def _forward_line(self, text: str) -> None:
        if not text.startswith("ENVCHECK "):
            self.on_line(text)


def pip_environment(target: Target) -> Mapping[str, str]:
    """Return the target's variables without those that misdirect pip; temporary files go to the packages' disk."""
    astray = ("PYTHON", "VIRTUAL_ENV")
    kept = {k: v for k, v in target.list_variables().items() if k not in UNSET and not k.startswith(astray)}
    ours = {
        "PIP_NO_INPUT": "1",
        "PIP_USER": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "TMPDIR": target.make_empty_folder("tmp"),
    }
    # A container's Python belongs to the container, even if its distribution marks it as externally managed.
    ours |= {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    return {"PIP_RETRIES": "3", **kept, **ours, "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


def write_log(log: Path, text: str) -> None:
    """Write the last run's output.  A full disk must not hide the failure that it caused."""
    try:
        log.write_text(redact_text(text), encoding="utf-8", errors="replace")
    except OSError:
        log.unlink(missing_ok=True)


def install_packages(
    pip: PipRunner,
    packages: Sequence[Package],
    others: Sequence[Package],
    *,
    force: bool,
    locked: Sequence[LockedWheel] | None = None,
    find_links: str = "",
) -> tuple[LockedWheel, ...]:
    """Install the packages and return their wheels: ask pip for a solution, judge it, install exactly that.

    `others` are the recipe's other packages: as constraints they keep this group from changing what an earlier one
    installed.  (A package that is both requested and constrained would make pip report every failure as a conflict.)
    `force` reinstalls everything, because an interrupted run may have left half of it.  `locked` are the only wheels
    to install, from the target's folder `find_links` without a network if that is given.
    """
    if locked is None:
        return _install_solved(pip, packages, others, force)
    raise_first_problem(solver.check_plugin_pairs({canonicalize_name(w.name): w.version for w in locked}))
    mine = [w for w in locked if find_links or w.index == packages[0].index]
    _install_exactly(
        pip,
        [(w.name, w.version, w.accepted_sums) for w in mine],
        _index_options(packages, (find_links,) if find_links else ()),
        force,
    )
    _check_installed(pip, mine)
    return tuple(mine)


def _install_solved(
    pip: PipRunner, packages: Sequence[Package], others: Sequence[Package], force: bool
) -> tuple[LockedWheel, ...]:
    store, index = pip.target.make_empty_folder("wheels"), packages[0].index
    limits = f"{pip.target.make_empty_folder('limits')}/constraints.txt"
    pip.target.write_file(limits, "".join(f"{p.name.partition('[')[0]}{p.specifier}\n" for p in others))
    asked = [f"--constraint={limits}", *_index_options(packages), *(("--force-reinstall",) if force else ())]
    wanted = [p.name + p.specifier for p in packages]
    answer = pip.solve_requirements(store, *asked, *wanted)
    if answer.found is None:
        pip.on_line(
            _(
                "pip {pip} is older than 22.2 and cannot resolve in advance: versions are compared afterwards",
                pip=answer.pip,
            )
        )
        pip.run_pip("install", *asked, *wanted)
        there = dict(pip.target.read_environment().packages)
        raise_first_problem(solver.check_plugin_pairs(there), changed=True)
        return ()
    raise_first_problem(solver.judge_answer(answer, [*packages, *others]))
    for change in solver.describe_changes(answer):
        pip.on_line(change)
    if answer.found:
        _install_exactly(pip, pin_exactly(answer.found), source_options(answer, store, packages), force)
        _check_installed(pip, answer.found)
    pip.target.make_empty_folder("wheels")
    return solver.lock_wheels(answer, index)


def install_requirements(pip: PipRunner, wanted: Sequence[str], limits: Sequence[str], note: Note) -> None:
    """Install the dependencies of `wanted` (files or folders, as pip arguments) after judging them.

    `note` gets the wheels before they are installed, because a run may be interrupted at any time.  `limits` are
    requirement lines to keep.
    """
    store, file = pip.target.make_empty_folder("wheels"), f"{pip.target.make_empty_folder('limits')}/constraints.txt"
    pip.target.write_file(file, "".join(f"{line}\n" for line in limits))
    answer = pip.solve_requirements(store, f"--constraint={file}", *wanted)
    if answer.found is None:
        pip.run_pip("install", f"--constraint={file}", *wanted)
        return
    answer = replace(answer, found=tuple(each for each in answer.found if not each.direct))
    if answer.found:
        raise_first_problem(solver.judge_additions(answer))
        note(solver.lock_wheels(answer))
        _install_exactly(pip, pin_exactly(answer.found), source_options(answer, store, CONFIGURED), force=False)
        _check_installed(pip, answer.found)
    pip.target.make_empty_folder("wheels")


def pin_exactly(found: Sequence[ResolvedPackage]) -> list[Exact]:
    """Return each package with its exact version and checksum."""
    return [(f.name, f.version, (f.sha256,) if f.sha256 else ()) for f in found]


def _index_options(packages: Sequence[Package], folders: Sequence[str] = ()) -> tuple[str, ...]:
    """Return pip's options for the source: folders only, the packages' own index, or the configured index."""
    own = (f"{INDEX}={packages[0].index}",) if packages[0].index and not folders else ()
    return own + (("--no-index", *(f"--find-links={folder}" for folder in folders)) if folders else ())


def source_options(answer: PipAnswer, store: str, packages: Sequence[Package]) -> tuple[str, ...]:
    """Return pip's options for the files that the dry run fetched; also the index if files are missing or need a
    build.
    """
    local = {posixpath.dirname(url2pathname(urlsplit(f.url).path)) for f in answer.found or () if f.url[:5] == "file:"}
    folders = (store, *sorted(local))
    return (
        _index_options(packages, folders) if answer.is_local else (*_index_options(packages), f"--find-links={store}")
    )


def write_requirements(pip: PipRunner, wanted: Sequence[Exact]) -> str:
    """Write a requirements file with these versions and hashes; pip accepts hashes only if all have one."""
    hashed = all(sums for _unused, _unused, sums in wanted)
    file = f"{pip.target.make_empty_folder('exactly')}/requirements.txt"
    lines = (f"{n}=={v}" + "".join(f" --hash=sha256:{s}" for s in sums if hashed) for n, v, sums in wanted)
    pip.target.write_file(file, "".join(f"{line}\n" for line in lines))
    return file


def _install_exactly(pip: PipRunner, wanted: Sequence[Exact], source: Sequence[str], force: bool) -> None:
    """Install exactly these versions and hashes, without further dependencies."""
    file = write_requirements(pip, wanted)
    pip.run_pip("install", "--no-deps", *source, *(("--force-reinstall",) if force else ()), f"--requirement={file}")


def _check_installed(pip: PipRunner, found: Sequence[ResolvedPackage | LockedWheel]) -> None:
    if wrong := solver.find_difference(found, pip.target.read_environment().packages):
        raise StepError(
            _("pip succeeded, but {problem}", problem=wrong),
            _("check {log}, then run the command again", log=pip.target.notes_folder / "pip.log"),
        )


def raise_first_problem(problems: Iterable[PipProblem], *, changed: bool = False) -> None:
    """Raise PipError for the first problem, if any."""
    for problem in problems:
        message = problem.why if changed else _("{problem}; nothing was installed", problem=problem.why)
        raise PipError(message, problem.remedy, not changed, problem.why)
