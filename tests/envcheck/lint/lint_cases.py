"""A script that breaks each rule of the linter, and the same one that does not: tests/data/lint/cases*.toml."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILES = sorted((Path(__file__).parents[2] / "data" / "lint").glob("cases*.toml"))


@dataclass(frozen=True)
class LintCase:
    rule: str
    severity: str
    wrong: str
    right: str
    at: str = ""
    file: str = "run.sh"
    device: str = "auto"
    id: str = ""


CASES = tuple(LintCase(**table) for file in FILES for table in tomllib.loads(file.read_text(encoding="utf-8"))["cases"])
