"""FAIL findings of `envcheck lint` in the examples of public trainers: each is to be a real bug of the file.

python -m benchmarks.lint_examples FOLDER ...    folders of checkouts; all their scripts, YAML and JSON files are linted
"""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.lint import files
from envcheck.lint.linter import LintResult

SUFFIXES = (".sh", ".slurm", ".sbatch", ".yaml", ".yml", ".json")
Failure = tuple[str, str, int]  # rule, message, line


def list_failures(folder: str) -> list[tuple[str, list[Failure]]]:
    """Return the FAIL findings of each file of a folder, judged together and without a machine's facts."""
    listed = files.list_files(_list_examples(Path(folder)))
    results = [(each.name, each.result) for each in files.lint_files(listed, TargetMachine(), others=False).results]
    return [(name, _describe_failures(result) if result is not None else []) for name, result in results]


def _describe_failures(result: LintResult) -> list[Failure]:
    failed = (remark for remark in result.remarks if remark.severity is Status.FAIL)
    return [(each.rule, str(each.seen), result.source.find_position(each.start)[0]) for each in failed]


def _list_examples(folder: Path) -> list[str]:
    paths = (path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES and path.is_file())
    return [str(path) for path in paths if not _is_hidden(path.relative_to(folder))]


def _is_hidden(path: Path) -> bool:
    """Whether it belongs to an editor or a service: their JSON files may have comments."""
    return any(part.startswith(".") for part in path.parts)


def main(folders: list[str]) -> None:
    with multiprocessing.Pool() as pool:
        found = [each for listed in pool.imap(list_failures, folders) for each in listed]
    for path, failures in found:
        for rule, seen, line in failures:
            print(f"{path}:{line} {rule}: {seen[:160]}")
    rules = Counter(rule for _path, failures in found for rule, _seen, _line in failures)
    print(f"{len(found)} files, {sum(bool(failures) for _path, failures in found)} with FAIL: {dict(rules)}")


if __name__ == "__main__":
    main(sys.argv[1:])
