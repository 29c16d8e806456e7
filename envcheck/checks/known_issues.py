"""The failures of the field, known_issues.toml: what users met, and what of envcheck tells it beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from envcheck.core import toml_file
from envcheck.core.errors import UsageError

FILE = Path(__file__).with_name("known_issues.toml")
SIZE_LIMIT = 256 << 10
NEXT = "compare with the entries beside it"
_LISTS = ("checks", "lint", "gates", "deep")


@dataclass(frozen=True)
class Failure:
    """`number` is F01 to F112; `checks` are doctor's, `lint` and `gates` of the verbs lint and train, `deep` of --deep.

    `reason`: why no reading tells it, or what else does.
    """

    symptom: str
    number: toml_file.Given[str] = ""
    checks: tuple[str, ...] = ()
    lint: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    deep: tuple[str, ...] = ()
    reason: str = ""


@lru_cache(maxsize=1)
def failures() -> tuple[Failure, ...]:
    """All, by number."""
    read = toml_file.table(toml_file.text(FILE, SIZE_LIMIT, "table of failures"), str(FILE), NEXT)
    return tuple(sorted((_failure(*row) for row in read.items()), key=lambda f: int(f.number[1:])))


def by_check() -> Mapping[str, tuple[str, ...]]:
    """Check → the symptoms that it tells beforehand."""
    found: dict[str, tuple[str, ...]] = {}
    for failure in failures():
        for name in failure.checks:
            found[name] = (*found.get(name, ()), failure.symptom)
    return found


def told_by(failure: Failure) -> str:
    """For a person: "`driver.tool`, `devices.access`; lint `paths.missing`; no query shows it"."""
    parts = [_names(failure.checks)]
    parts += [f"{verb} {_names(names)}" for verb in _LISTS[1:] if (names := getattr(failure, verb))]
    return "; ".join(part for part in (*parts, failure.reason) if part)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _failure(number: str, table: object) -> Failure:
    if number[:1] != "F" or not number[1:].isdigit():
        raise UsageError(f"{FILE}: {number} is no failure", NEXT)
    return toml_file.load_record(Failure, table, str(FILE), number, number=number)
