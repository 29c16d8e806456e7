"""Reads and validates envcheck.toml; each error names file, key and expected value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from envcheck.core import toml_file
from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _, join, verbatim
from envcheck.core.model import Question, Status
from envcheck.settings import site_access
from envcheck.settings.site_access import NO_SITE, SiteAccess
from envcheck.settings.site_config import NAME, NO_JOB, CustomCheck, JobDefaults, SiteSettings, Waiver
from envcheck.settings.thresholds import THRESHOLDS
from envcheck.vendors.names import device_names

FILE_LIMIT, LIST_LIMIT = 256 << 10, 200
TIMEOUT_S, TIMEOUT_LIMIT_S = 10.0, 120.0
NEXT = _("see docs/how-to/write-a-check.md for an example of envcheck.toml")
NEXT_OF_SITE = _("see docs/how-to/site-settings.md for an example of [site]")
OWN = re.compile(r"own\.[a-z][a-z0-9_]{0,39}")

Complaint = Iterator[tuple[str, Message]]  # (key, what is wrong)


@dataclass(frozen=True)
class _OwnCheckTable:
    """One table [[check]]."""

    name: str
    command: tuple[str, ...]
    remedy: str
    description: str = ""
    pattern: str = ""
    unwanted: str = ""
    severity: Literal["fail", "warn"] = "fail"
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True)
class _SettingsFile:
    """The content of the file."""

    waive: tuple[Waiver, ...] = ()
    thresholds: Mapping[str, Any] = field(default_factory=dict)
    check: tuple[_OwnCheckTable, ...] = ()
    site: SiteAccess = NO_SITE
    job: JobDefaults = NO_JOB


def read_settings_file(path: Path, trusted: bool) -> SiteSettings:
    """Return the file's settings. UsageError if it cannot be read, is not TOML, or has invalid keys or values."""
    table = toml_file.parse_table(toml_file.read_text(path, FILE_LIMIT, verbatim(NAME)), str(path), NEXT)
    try:
        found = toml_file.load_record(_SettingsFile, table, str(path))
    except UsageError as err:
        about_site = str(err.message).startswith((f"{path}: site.", f"{path}: site:"))
        raise UsageError(err.message, err.next_step or (NEXT_OF_SITE if about_site else NEXT)) from None
    for key, wrong in _find_errors(found):
        next_step = NEXT_OF_SITE if key.startswith("site") else NEXT
        raise UsageError(_("{path}: {key}: {wrong}", path=path, key=key, wrong=wrong), next_step)
    thresholds = _read_thresholds(found.thresholds, path)
    own = tuple(map(_make_own_check, found.check))
    return SiteSettings(str(path), trusted, found.waive, thresholds, own, found.site, found.job)


def _make_own_check(found: _OwnCheckTable) -> CustomCheck:
    question = Question("run", found.command, found.timeout_s)
    severity = Status[found.severity.upper()]
    return CustomCheck(
        found.name, question, found.remedy, found.description or found.name, found.pattern, found.unwanted, severity
    )


def _find_errors(found: _SettingsFile) -> Complaint:
    """Yield errors that the types alone do not show."""
    yield from site_access.find_complaints(found.site)
    if found.job.device and found.job.device not in device_names():
        yield "job.device", _("expected one of {names}", names=join(", ", device_names()))
    for key, rows in (("waive", found.waive), ("check", found.check)):
        if len(rows) > LIST_LIMIT:
            yield key, _("expected at most {limit}", limit=LIST_LIMIT)
    for number, waiver in enumerate(found.waive):
        if "." not in waiver.check:  # an area is a known name, but would waive nothing
            yield f"waive[{number}].check", _("expected the name of one check, such as host.swap")
        if not waiver.reason.strip():
            yield f"waive[{number}].reason", _("empty")
    for number, check in enumerate(found.check):
        for key, wrong in _find_check_errors(check):
            yield f"check[{number}].{key}", wrong
        if check.name in (earlier.name for earlier in found.check[:number]):
            yield f"check[{number}].name", _("duplicate {name}", name=check.name)


def _find_check_errors(check: _OwnCheckTable) -> Complaint:
    if not OWN.fullmatch(check.name):
        yield "name", _("expected own. followed by a lower-case word, such as own.licence")
    if not check.command or any("\0" in word for word in check.command):
        yield "command", _('expected a list of arguments, such as ["lmstat", "-a"]; it runs without a shell')
    if not 0 < check.timeout_s <= TIMEOUT_LIMIT_S:
        yield "timeout_s", _("expected a number of seconds above 0, at most {limit_s:g}", limit_s=TIMEOUT_LIMIT_S)
    if not (check.pattern or check.unwanted):
        yield "pattern", _("expected `pattern` (must match) or `unwanted` (must not match)")
    if not check.remedy.strip():
        yield "remedy", _("empty")
    for key, text in (("pattern", check.pattern), ("unwanted", check.unwanted)):
        try:
            re.compile(text)
        except (re.error, RecursionError, OverflowError):
            yield key, _("expected a regular expression")


def _read_thresholds(table: Mapping[str, Any], path: Path) -> dict[str, float]:
    flat = dict(_flatten_keys(table))
    for name, value in flat.items():
        if name not in THRESHOLDS:
            step = toml_file.suggest_key(name, THRESHOLDS, verbatim("envcheck doctor --show-thresholds"))
            raise UsageError(_("{path}: unknown threshold {name!r}", path=path, name=name[:60]), step)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
            raise UsageError(
                _("{path}: thresholds.{name}: expected a number from 0 to 1e9", path=path, name=name), NEXT
            )
    return {name: float(value) for name, value in flat.items()}


def _flatten_keys(table: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """Yield (dotted key, value): host.memory.warn_gib = 4 without quotes is a table of tables in TOML, with the same
    meaning."""
    for key, value in table.items():
        yield from _flatten_keys(value, f"{before}{key}.") if isinstance(value, dict) else [(f"{before}{key}", value)]
