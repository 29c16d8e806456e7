"""FAIL findings of `envcheck lint` in the examples of public trainers: each is to be a real bug of the file.

python -m benchmarks.lint_examples FOLDER ...    folders of checkouts; all their scripts, YAML and JSON files are linted
"""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from envcheck.core.errors import EnvcheckError
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.lint import linter
from envcheck.scripts import source_file

SUFFIXES = (".sh", ".yaml", ".yml", ".json")
Failure = tuple[str, str, int]  # rule, message, line


def list_failures(path: str) -> tuple[str, list[Failure]]:
    """Return the FAIL findings of one file, judged without a machine's facts."""
    try:
        file = source_file.read_source(path)
    except EnvcheckError:  # too large, or no text
        return path, []
    result = linter.lint_source(file, TargetMachine(folder=Path(path).parent), others=False)
    failed = (remark for remark in result.remarks if remark.severity is Status.FAIL)
    return path, [(each.rule, str(each.seen), file.find_position(each.start)[0]) for each in failed]


def _is_hidden(path: Path) -> bool:
    """Whether it belongs to an editor or a service: their JSON files may have comments."""
    return any(part.startswith(".") for part in path.parts)


def main(folders: list[str]) -> None:
    paths = [
        str(path)
        for folder in folders
        for path in sorted(Path(folder).rglob("*"))
        if path.suffix in SUFFIXES and path.is_file() and not _is_hidden(path.relative_to(folder))
    ]
    with multiprocessing.Pool() as pool:
        found = pool.map(list_failures, paths, chunksize=8)
    for path, failures in found:
        for rule, seen, line in failures:
            print(f"{path}:{line} {rule}: {seen[:160]}")
    rules = Counter(rule for _path, failures in found for rule, _seen, _line in failures)
    print(f"{len(paths)} files, {sum(bool(failures) for _path, failures in found)} with FAIL: {dict(rules)}")


if __name__ == "__main__":
    main(sys.argv[1:])
