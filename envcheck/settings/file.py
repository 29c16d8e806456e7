"""envcheck.toml, read and checked; every way of being wrong is one sentence with file, key and what was expected."""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from envcheck.core.model import Question, Status
from envcheck.settings.site_settings import NAME, OwnCheck, Settings, Waiver
from envcheck.settings.thresholds import THRESHOLDS

FILE_LIMIT, LIST_LIMIT, TEXT_LIMIT = 256 << 10, 200, 2000
TIMEOUT_S, TIMEOUT_LIMIT_S = 10.0, 120.0
NEXT = "docs/settings.md shows an envcheck.toml"
OWN = re.compile(r"own\.[a-z][a-z0-9_]{0,39}")
GRADES = {"fail": Status.FAIL, "warn": Status.WARN}
KEYS = {
    "": ("waive", "thresholds", "check"),
    "waive": ("check", "reason", "expires"),
    "check": ("name", "command", "pattern", "unwanted", "remedy", "says", "severity", "timeout_s"),
}


def read(path: Path, trusted: bool) -> Settings:
    """The file's settings.  UsageError where it cannot be read, is no TOML, or says what nobody understands."""
    said = toml_file.table(toml_file.text(path, FILE_LIMIT, NAME), str(path), NEXT)
    return _Reader(path).settings(said, trusted)


class _Reader:
    """Knows the file's name, for the sentences."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def settings(self, said: Mapping[str, Any], trusted: bool) -> Settings:
        self.known("", said)
        waivers = tuple(self.waiver(one, n) for n, one in self.rows(said, "waive"))
        checks = tuple(self.check(one, n) for n, one in self.rows(said, "check"))
        doubled = {c.name for c in checks if sum(other.name == c.name for other in checks) > 1}
        if doubled:
            self.refuse(f"check {sorted(doubled)[0]} is there twice")
        return Settings(str(self.path), trusted, waivers, self.thresholds(said.get("thresholds", {})), checks)

    def waiver(self, said: Mapping[str, Any], where: str) -> Waiver:
        expires = said.get("expires")
        if isinstance(expires, datetime.datetime) or not isinstance(expires, datetime.date):
            self.refuse(f"{where}.expires must be a day, as expires = 2027-01-31 (without quotes)")
        check, reason = self.text(said, where, "check"), self.text(said, where, "reason")
        if "." not in check:  # an area would be taken as known, and waive nothing
            self.refuse(f"{where}.check must be the name of one check, as host.swap")
        return Waiver(check, reason, expires)

    def thresholds(self, said: object) -> dict[str, float]:
        if not isinstance(said, dict):
            self.refuse("thresholds must be a table, as [thresholds]")
        flat = dict(_flat(said))
        for name, value in flat.items():
            if name not in THRESHOLDS:
                self.refuse(
                    f"there is no threshold {name!r}{_near(name, THRESHOLDS)}", "envcheck doctor --show-thresholds"
                )
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
                self.refuse(f"thresholds.{name} must be a number from 0 to 1e9")
        return {name: float(value) for name, value in flat.items()}

    def check(self, said: Mapping[str, Any], where: str) -> OwnCheck:
        name = self.text(said, where, "name")
        if not OWN.fullmatch(name):
            self.refuse(f"{where}.name must be own. and a word of small letters, as own.licence")
        patterns = {key: self.pattern(said, where, key) for key in ("pattern", "unwanted")}
        if not any(patterns.values()):
            self.refuse(f"{where} needs a pattern that must be seen, or unwanted that must not")
        grade = said.get("severity", "fail")
        if grade not in GRADES:
            self.refuse(f'{where}.severity must be "fail" or "warn"')
        question = Question("run", self.command(said, where), self.timeout(said, where))
        remedy, says = self.text(said, where, "remedy"), self.text(said, where, "says", name)
        return OwnCheck(name, question, remedy, says, severity=GRADES[grade], **patterns)

    def command(self, said: Mapping[str, Any], where: str) -> tuple[str, ...]:
        words = said.get("command")
        if not isinstance(words, list) or not words or not all(isinstance(w, str) and "\0" not in w for w in words):
            self.refuse(f'{where}.command must be a list of words, as ["lmstat", "-a"]; no shell reads it')
        return tuple(words[:LIST_LIMIT])

    def timeout(self, said: Mapping[str, Any], where: str) -> float:
        value = said.get("timeout_s", TIMEOUT_S)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= TIMEOUT_LIMIT_S:
            self.refuse(f"{where}.timeout_s must be a number of seconds, at most {TIMEOUT_LIMIT_S:g}")
        return float(value)

    def pattern(self, said: Mapping[str, Any], where: str, key: str) -> str:
        text = self.text(said, where, key, "")
        try:
            re.compile(text)
        except (re.error, RecursionError, OverflowError) as err:
            self.refuse(f"{where}.{key} is no regular expression", f"re: {err}")
        return text

    def text(self, said: Mapping[str, Any], where: str, key: str, default: str | None = None) -> str:
        value = said.get(key, default)
        if isinstance(value, str) and default is None and not value.strip():
            self.refuse(f"{where}.{key} is empty")
        if not isinstance(value, str) or len(value) > TEXT_LIMIT:
            self.refuse(f"{where}.{key} must be a text{'' if default is None else ', or be left out'}")
        return value

    def rows(self, said: Mapping[str, Any], key: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
        rows = said.get(key, [])
        if not isinstance(rows, list) or len(rows) > LIST_LIMIT or not all(isinstance(row, dict) for row in rows):
            self.refuse(f"{key} must be written as [[{key}]], at most {LIST_LIMIT} times")
        for n, row in enumerate(rows, 1):
            self.known(key, row)
            yield f"{key} {n}", row

    def known(self, table: str, said: Mapping[str, Any]) -> None:
        for key in said:
            if key not in KEYS[table]:
                where = f" in [[{table}]]" if table else ""
                self.refuse(f"there is no key {key!r}{where}{_near(key, KEYS[table])}")

    def refuse(self, why: str, next_step: str = NEXT) -> NoReturn:
        raise UsageError(f"{self.path}: {why}", next_step)


def _flat(said: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """host.memory.warn_gib = 4 without quotes is a table of tables in TOML; it means the same."""
    for key, value in said.items():
        yield from _flat(value, f"{before}{key}.") if isinstance(value, dict) else [(f"{before}{key}", value)]


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""
