"""Several files and folders in one run: which files are linted, and the result of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import EnvcheckError, UsageError, describe_os_error
from envcheck.core.facts import Facts
from envcheck.core.lint.script_model import CONFIG_SUFFIXES
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.local_files import is_folder
from envcheck.core.messages import _
from envcheck.lint.linter import LintResult, exit_code, lint_source
from envcheck.scripts import source_file

# Of a folder; other files are linted if they are named.
SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch", *CONFIG_SUFFIXES)
MOST_FILES = 5000
_PASSED_OVER = ("node_modules", "__pycache__", "site-packages")
_WORST_FIRST = (1, 2, 3, 0)  # exit codes: failed, unreadable, undetermined, fine


@dataclass(frozen=True)
class ListedFile:
    """A file to lint; `found`: in a folder, so that it may be no script or configuration of a training; `error`: why
    a folder cannot be listed."""

    name: str
    found: bool = False
    error: EnvcheckError | None = None


@dataclass(frozen=True)
class FileResult:
    """The result of a file, or why it cannot be read."""

    name: str
    result: LintResult | None = None
    error: EnvcheckError | None = None

    def find_exit_code(self, strict: bool) -> int:
        return exit_code(self.result, strict) if self.result is not None else 2


@dataclass(frozen=True)
class LintRun:
    """All results, in the order of the command line; `skipped`: files of folders that are of no known program."""

    results: tuple[FileResult, ...]
    skipped: int = 0

    def find_exit_code(self, strict: bool) -> int:
        """Return the worst exit code of the files; 3 if there are none."""
        codes = {each.find_exit_code(strict) for each in self.results}
        return next((code for code in _WORST_FIRST if code in codes), 3)


def list_files(names: Iterable[str]) -> list[ListedFile]:
    """Return the named files, and those in named folders, each once; UsageError for more than MOST_FILES."""
    found: dict[str, ListedFile] = {}
    for name in names:
        listed = _walk_folder(name) if name != "-" and is_folder(name) else [ListedFile(name)]
        for each in listed:
            found[each.name] = replace(each, found=each.found and found.get(each.name, each).found)
            if len(found) > MOST_FILES:
                raise UsageError(
                    _("more than {limit} files", limit=MOST_FILES), _("name a folder with fewer scripts, or files")
                )
    return list(found.values())


def _walk_folder(name: str) -> Iterator[ListedFile]:
    """The scripts and configurations below a folder, by name; hidden folders and those of packages are left out. A
    folder that cannot be listed comes last, with the reason."""
    closed: list[OSError] = []
    for folder, folders, files in os.walk(name, onerror=closed.append):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in _PASSED_OVER)
        for file in sorted(files):
            if file.lower().endswith(SUFFIXES) or source_file.is_dockerfile(file):
                yield ListedFile(str(Path(folder, file)), found=True)
    for err in closed:
        folder = str(err.filename)
        words = _("cannot read {name}: {strerror}", name=folder, strerror=describe_os_error(err))
        yield ListedFile(folder, error=UsageError(words, _("specify a script that you can read")))


def lint_files(
    files: Sequence[ListedFile],
    machine: TargetMachine,
    device: str = "auto",
    kind: str = "",
    others: bool = True,
) -> LintRun:
    """Lint the scripts and then the configurations, each as the first script runs it that names it; the facts of the
    machine are collected once for all of them."""
    shared = replace(machine, gather=_collect_once(machine))
    kept = [file for file in files if not (file.found and _is_data_set(file.name))]
    unread: tuple[TrainingJob | None, str] = (None, device)
    readers: dict[Path, tuple[TrainingJob | None, str]] = {}
    done: dict[str, FileResult] = {}
    for file in sorted(kept, key=lambda each: each.name.lower().endswith(CONFIG_SUFFIXES)):
        job, by = readers.get(Path(file.name).absolute(), unread)
        done[file.name] = each = _lint_one(file, shared, by, kind, others, job)
        if each.result is not None:
            for path, reader in each.result.readers.items():
                readers.setdefault(path.absolute(), (reader, each.result.device or device))
    results, skipped = [], len(files) - len(kept)
    for file in kept:
        each = done[file.name]
        if file.found and each.result is not None and not (each.result.read and each.result.known):
            skipped += 1
        else:
            results.append(each)
    linted = {Path(each.name).absolute() for each in results}
    return LintRun(tuple(_omit_linted(each, linted) for each in results), skipped)


def _omit_linted(file: FileResult, linted: Set[Path]) -> FileResult:
    """Return the result without the used files that this run lints as well."""
    if file.result is None or not file.result.used_files:
        return file
    left = tuple(name for name in file.result.used_files if Path(name).absolute() not in linted)
    return replace(file, result=replace(file.result, used_files=left))


def _lint_one(
    file: ListedFile, machine: TargetMachine, device: str, kind: str, others: bool, reader: TrainingJob | None
) -> FileResult:
    folder = Path(file.name).absolute().parent if file.name != "-" else None
    try:
        if file.error is not None:
            raise file.error
        source = source_file.read_source(file.name)
        return FileResult(file.name, lint_source(source, replace(machine, folder=folder), device, kind, others, reader))
    except EnvcheckError as err:
        return FileResult(file.name, error=err)


def _is_data_set(name: str) -> bool:
    """Whether a YAML or JSON file is too large for a configuration: folders of trainings have samples in such files."""
    path = Path(name)
    try:
        return path.suffix.lower() in CONFIG_SUFFIXES and path.stat().st_size > source_file.LIMIT
    except OSError:
        return False  # reading it gives the reason


def _collect_once(machine: TargetMachine) -> Callable[[], Facts] | None:
    return (lambda: machine.facts or Facts()) if machine.gather is not None else None
