"""Known issues from the field (known_issues.toml): what users met, and what in envcheck detects it beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from envcheck.core.messages import _

FILE = Path(__file__).with_name("known_issues.toml")
NEXT = _("compare it with the other entries")
_LISTS = ("checks", "lint", "gates", "deep")


@dataclass(frozen=True)
class KnownIssue:
    """A failure from the field: its number (F01 to F112), symptom, and what detects it.

    `checks` are doctor's, `lint` and `gates` those of lint and train, `deep` those of --deep; `reason`: why envcheck
    cannot detect it, or what else does.
    """

    symptom: str
    number: toml_file.Given[str] = ""
    checks: tuple[str, ...] = ()
    lint: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    deep: tuple[str, ...] = ()
    reason: str = ""


@lru_cache(maxsize=1)
def load_known_issues() -> tuple[KnownIssue, ...]:
    """Return all known issues, by number."""
    read = toml_file.load_own_table(FILE)
    return tuple(sorted((_load_known_issue(*row) for row in read.items()), key=lambda f: int(f.number[1:])))


def symptoms_by_check() -> Mapping[str, tuple[str, ...]]:
    """Return for each check the symptoms that it detects beforehand."""
    found: dict[str, tuple[str, ...]] = {}
    for failure in load_known_issues():
        for name in failure.checks:
            found[name] = (*found.get(name, ()), failure.symptom)
    return found


def format_detectors(failure: KnownIssue) -> str:
    """Return what detects an issue, as text: "`driver.tool`, `devices.access`; lint `paths.missing`"."""
    parts = [_format_names(failure.checks)]
    parts += [f"{verb} {_format_names(names)}" for verb in _LISTS[1:] if (names := getattr(failure, verb))]
    return "; ".join(part for part in (*parts, failure.reason) if part)


def _format_names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _load_known_issue(number: str, table: object) -> KnownIssue:
    if number[:1] != "F" or not number[1:].isdigit():
        raise UsageError(_("{file}: {number} is not a known issue number", file=FILE, number=number), NEXT)
    return toml_file.load_record(KnownIssue, table, str(FILE), number, number=number)
