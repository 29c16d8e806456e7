"""envcheck.toml, read and checked; every way of being wrong is one sentence with file, key and what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from envcheck.core.model import Question, Status
from envcheck.settings.site_settings import NAME, OwnCheck, Settings, Waiver
from envcheck.settings.thresholds import THRESHOLDS

FILE_LIMIT, LIST_LIMIT = 256 << 10, 200
TIMEOUT_S, TIMEOUT_LIMIT_S = 10.0, 120.0
NEXT = "docs/settings.md shows an envcheck.toml"
OWN = re.compile(r"own\.[a-z][a-z0-9_]{0,39}")

Complaint = Iterator[tuple[str, str]]  # (key, what is wrong)


@dataclass(frozen=True)
class _OwnCheckTable:
    """[[check]]"""

    name: str
    command: tuple[str, ...]
    remedy: str
    says: str = ""
    pattern: str = ""
    unwanted: str = ""
    severity: Literal["fail", "warn"] = "fail"
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True)
class _SettingsFile:
    """The file as it stands."""

    waive: tuple[Waiver, ...] = ()
    thresholds: Mapping[str, Any] = field(default_factory=dict)
    check: tuple[_OwnCheckTable, ...] = ()


def read(path: Path, trusted: bool) -> Settings:
    """The file's settings.  UsageError where it cannot be read, is no TOML, or says what nobody understands."""
    table = toml_file.table(toml_file.text(path, FILE_LIMIT, NAME), str(path), NEXT)
    try:
        found = toml_file.load_record(_SettingsFile, table, str(path))
    except UsageError as err:
        raise UsageError(err.message, err.next_step or NEXT) from None
    for key, wrong in _complaints(found):
        raise UsageError(f"{path}: {key}: {wrong}", NEXT)
    thresholds = _thresholds(found.thresholds, path)
    return Settings(str(path), trusted, found.waive, thresholds, tuple(map(_own_check, found.check)))


def _own_check(found: _OwnCheckTable) -> OwnCheck:
    question = Question("run", found.command, found.timeout_s)
    severity = Status[found.severity.upper()]
    return OwnCheck(
        found.name, question, found.remedy, found.says or found.name, found.pattern, found.unwanted, severity
    )


def _complaints(found: _SettingsFile) -> Complaint:
    """What the kinds alone do not say."""
    for key, rows in (("waive", found.waive), ("check", found.check)):
        if len(rows) > LIST_LIMIT:
            yield key, f"expected at most {LIST_LIMIT}"
    for number, waiver in enumerate(found.waive):
        if "." not in waiver.check:  # an area would be taken as known, and waive nothing
            yield f"waive[{number}].check", "expected the name of one check, such as host.swap"
        if not waiver.reason.strip():
            yield f"waive[{number}].reason", "is empty"
    for number, check in enumerate(found.check):
        for key, wrong in _wrong_check(check):
            yield f"check[{number}].{key}", wrong
        if check.name in (earlier.name for earlier in found.check[:number]):
            yield f"check[{number}].name", f"{check.name} is there twice"


def _wrong_check(check: _OwnCheckTable) -> Complaint:
    if not OWN.fullmatch(check.name):
        yield "name", "expected own. and a word of small letters, such as own.licence"
    if not check.command or any("\0" in word for word in check.command):
        yield "command", 'expected a list of words, such as ["lmstat", "-a"]; no shell reads it'
    if not 0 < check.timeout_s <= TIMEOUT_LIMIT_S:
        yield "timeout_s", f"expected a number of seconds above 0, at most {TIMEOUT_LIMIT_S:g}"
    if not (check.pattern or check.unwanted):
        yield "pattern", "expected a pattern that must be seen, or unwanted that must not"
    if not check.remedy.strip():
        yield "remedy", "is empty"
    for key, text in (("pattern", check.pattern), ("unwanted", check.unwanted)):
        try:
            re.compile(text)
        except (re.error, RecursionError, OverflowError):
            yield key, "expected a regular expression"


def _thresholds(said: Mapping[str, Any], path: Path) -> dict[str, float]:
    flat = dict(_flat(said))
    for name, value in flat.items():
        if name not in THRESHOLDS:
            step = toml_file.nearest_key(name, THRESHOLDS, "envcheck doctor --show-thresholds")
            raise UsageError(f"{path}: there is no threshold {name[:60]!r}", step)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
            raise UsageError(f"{path}: thresholds.{name}: expected a number from 0 to 1e9", NEXT)
    return {name: float(value) for name, value in flat.items()}


def _flat(said: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """host.memory.warn_gib = 4 without quotes is a table of tables in TOML; it means the same."""
    for key, value in said.items():
        yield from _flat(value, f"{before}{key}.") if isinstance(value, dict) else [(f"{before}{key}", value)]
