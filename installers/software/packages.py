"""pip in the environment: as the recipe wants it, told line by line, its failures put into words.

No global configuration is touched, and pip's cache stays what and where it is; the index is the package's own or the
configured one.
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
from envcheck.core.secrets import redact
from installers import programs
from installers.locks.lockfile import Wheel
from installers.recipes.recipe import Package
from installers.software import pip_words, solver
from installers.software.solver import PipAnswer, PipProblem, ResolvedPackage
from installers.targets.target import Target

DEADLINE_S = 2 * 3600.0  # pip has its own limit for a silent connection; this one is for a pip that hangs
# Settings with which pip would put things elsewhere, or say less than we read.
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
CONFIGURED = (Package(""),)  # whatever it is, from the configured index
Line = Callable[[str], None]
Note = Callable[[Sequence[Wheel]], None]
Exact = tuple[str, str, tuple[str, ...]]  # name, version, the sums of the files that may be it


class PipError(StepError):
    """`harmless`: pip failed before it changed anything."""

    def __init__(self, message: str, next_step: str, harmless: bool) -> None:
        super().__init__(message, next_step)
        self.harmless = harmless


@dataclass(frozen=True)
class Pip:
    """The pip of a target's Python; `say` sees its lines."""

    target: Target
    say: Line

    def run(self, *arguments: str) -> str:
        """All that pip said.  Raises StepError in words when it failed; the whole text stands in the log."""
        return self._run(("-m", "pip", *arguments), f"pip {' '.join(arguments)}")

    def solve(self, store: str, *arguments: str) -> PipAnswer:
        """What pip would install, fetched into `store`; nothing is installed."""
        program = (Path(programs.__path__[0]) / "solve.py").read_text("utf-8")
        report = f"{self.target.fresh('report')}/report.json"
        said = self._run(("-c", program, store, report, *arguments), f"pip install --dry-run {' '.join(arguments)}")
        return solver.read(said)

    def _run(self, arguments: Sequence[str], shown: str) -> str:
        argv = (self.target.python, "-I", *arguments)
        env = surroundings(self.target)
        done = self.target.run(argv, timeout_s=DEADLINE_S, env=env, on_line=self._line)
        text = f"{done.out}\n{done.err}"
        log = self.target.notes / "pip.log"
        keep(log, f"$ {self.target.python} -m {shown}\n{text}")
        if done.status == 0:
            return text
        if done.hung:
            raise StepError("pip did not end in two hours and was stopped", f"see {log}, then repeat")
        sentence, step = pip_words.understood(text)
        step += self.target.settings if re.search(pip_words.SETTING, step) else ""
        harmless = "Installing collected packages" not in text
        raise PipError(redact(sentence), step.replace("the log", str(log)), harmless)

    def _line(self, text: str) -> None:
        if not text.startswith("ENVCHECK "):
            self.say(text)


def surroundings(target: Target) -> Mapping[str, str]:
    """The target's variables, without what leads pip astray; temporary files beside the packages (one disk)."""
    astray = ("PYTHON", "VIRTUAL_ENV")
    kept = {k: v for k, v in target.surroundings().items() if k not in UNSET and not k.startswith(astray)}
    ours = {"PIP_NO_INPUT": "1", "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "TMPDIR": target.fresh("tmp")}
    # The Python of a container that was made for this is nobody else's, though its distribution says so.
    ours |= {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    return {"PIP_RETRIES": "3", **kept, **ours, "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


def keep(log: Path, text: str) -> None:
    """The last run's words.  A full disk must not hide the failure that it caused."""
    try:
        log.write_text(redact(text), encoding="utf-8", errors="replace")
    except OSError:
        log.unlink(missing_ok=True)


def install(
    pip: Pip,
    packages: Sequence[Package],
    others: Sequence[Package],
    *,
    force: bool,
    locked: Sequence[Wheel] | None = None,
    find_links: str = "",
) -> tuple[Wheel, ...]:
    """What was put in, with hashes.  pip is asked first, its answer judged, and that very answer installed.

    `others` are the recipe's further packages: as constraints they keep this group from moving what an earlier one
    brought.  (A package that is both asked for and constrained would make pip call every failure a conflict.)
    `force` counts nothing as there: after a cut it may be half there.  `locked` are a lock's wheels, which are
    installed and nothing else, from the target's folder `find_links` without a network where that is given.
    """
    if locked is None:
        return _asked(pip, packages, others, force)
    refuse(solver.pairs({canonicalize_name(w.name): w.version for w in locked}))
    mine = [w for w in locked if find_links or w.index == packages[0].index]
    _put(
        pip,
        [(w.name, w.version, w.sums) for w in mine],
        _source(packages, (find_links,) if find_links else ()),
        force,
    )
    _compare(pip, mine)
    return tuple(mine)


def _asked(pip: Pip, packages: Sequence[Package], others: Sequence[Package], force: bool) -> tuple[Wheel, ...]:
    store, index = pip.target.fresh("wheels"), packages[0].index
    limits = f"{pip.target.fresh('limits')}/constraints.txt"
    pip.target.write(limits, "".join(f"{p.name.partition('[')[0]}{p.specifier}\n" for p in others))
    asked = [f"--constraint={limits}", *_source(packages), *(("--force-reinstall",) if force else ())]
    wanted = [p.name + p.specifier for p in packages]
    answer = pip.solve(store, *asked, *wanted)
    if answer.found is None:
        pip.say(f"pip {answer.pip} is older than 22.2 and cannot tell beforehand: versions are compared afterwards")
        pip.run("install", *asked, *wanted)
        there = dict(pip.target.environment().packages)
        refuse(solver.pairs(there), changed=True)
        return ()
    refuse(solver.judge(answer, [*packages, *others]))
    for change in solver.changes(answer):
        pip.say(change)
    if answer.found:
        _put(pip, exactly(answer.found), origin(answer, store, packages), force)
        _compare(pip, answer.found)
    pip.target.fresh("wheels")
    return solver.wheels(answer, index)


def needs(pip: Pip, wanted: Sequence[str], limits: Sequence[str], note: Note) -> None:
    """What a file or a folder (`wanted`, in pip's words) needs beside itself, judged and put in; `note` hears of the
    files beforehand, since a cut may come at any time.  `limits` are requirement lines."""
    store, file = pip.target.fresh("wheels"), f"{pip.target.fresh('limits')}/constraints.txt"
    pip.target.write(file, "".join(f"{line}\n" for line in limits))
    answer = pip.solve(store, f"--constraint={file}", *wanted)
    if answer.found is None:
        pip.run("install", f"--constraint={file}", *wanted)
        return
    answer = replace(answer, found=tuple(each for each in answer.found if not each.direct))
    if answer.found:
        refuse(solver.added(answer))
        note(solver.wheels(answer))
        _put(pip, exactly(answer.found), origin(answer, store, CONFIGURED), force=False)
        _compare(pip, answer.found)
    pip.target.fresh("wheels")


def exactly(found: Sequence[ResolvedPackage]) -> list[Exact]:
    return [(f.name, f.version, (f.sha256,) if f.sha256 else ()) for f in found]


def _source(packages: Sequence[Package], folders: Sequence[str] = ()) -> tuple[str, ...]:
    """Where pip looks: in folders alone, or at the packages' own index, or as it is configured."""
    own = (f"--index-url={packages[0].index}",) if packages[0].index and not folders else ()
    return own + (("--no-index", *(f"--find-links={folder}" for folder in folders)) if folders else ())


def origin(answer: PipAnswer, store: str, packages: Sequence[Package]) -> tuple[str, ...]:
    """The files that the dry run fetched; the index as well where one of them is not there, or is to be built."""
    local = {posixpath.dirname(url2pathname(urlsplit(f.url).path)) for f in answer.found or () if f.url[:5] == "file:"}
    folders = (store, *sorted(local))
    return _source(packages, folders) if answer.local else (*_source(packages), f"--find-links={store}")


def requirements(pip: Pip, wanted: Sequence[Exact]) -> str:
    """A file of these versions and hashes for pip; where one has no hash, pip takes none at all."""
    hashed = all(sums for _, _, sums in wanted)
    file = f"{pip.target.fresh('exactly')}/requirements.txt"
    lines = (f"{n}=={v}" + "".join(f" --hash=sha256:{s}" for s in sums if hashed) for n, v, sums in wanted)
    pip.target.write(file, "".join(f"{line}\n" for line in lines))
    return file


def _put(pip: Pip, wanted: Sequence[Exact], source: Sequence[str], force: bool) -> None:
    """These versions and hashes, and no dependency that is not among them."""
    file = requirements(pip, wanted)
    pip.run("install", "--no-deps", *source, *(("--force-reinstall",) if force else ()), f"--requirement={file}")


def _compare(pip: Pip, found: Sequence[ResolvedPackage | Wheel]) -> None:
    if wrong := solver.difference(found, pip.target.environment().packages):
        raise StepError(f"pip was content, yet {wrong}", f"see {pip.target.notes / 'pip.log'}, then repeat")


def refuse(problems: Iterable[PipProblem], *, changed: bool = False) -> None:
    """PipError with the first problem."""
    for problem in problems:
        before = "" if changed else "; nothing was installed"
        raise PipError(redact(problem.why) + before, problem.remedy, harmless=not changed)
