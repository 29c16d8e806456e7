"""Parse timestamps in the formats of training programs, launchers, CANN, glog and the kernel; pure."""

from __future__ import annotations

import re
from datetime import datetime, timezone

# 2025-07-01 12:00:00,123   2025/07/01 12:00:00   2025-12-04-21:59:08.232.310 (CANN)   2025-07-01T12:00:00.5+08:00
_FULL = re.compile(
    r"(?<!\d)(20\d\d)[-/](\d\d)[-/](\d\d)[-T ]{1,2}(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6})(?:\.(\d{3}))?)?"
    r"(Z|[+-]\d\d:?\d\d)?"
)
# I0701 12:00:00.123456 (glog; no year)   [E130 12:00:00.123456789 (torch: its month may have one digit)
# Jul  1 12:00:00 (syslog; no year)
_GLOG = re.compile(r"(?:^|\W)[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6})")
_SYSLOG = re.compile(r"^(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
NO_YEAR = 2000  # year of a line without one: such lines are compared with each other


def parse_timestamp(text: str) -> float | None:
    """Return seconds, comparable between lines in the same format; None if a line has no time.

    Only an explicit offset is used: the logs of one run come from machines in one time zone.
    """
    try:
        return _match_formats(text[:400])
    except ValueError:  # 2025-13-45
        return None


def _match_formats(text: str) -> float | None:
    if found := _FULL.search(text):
        micros = int(((found[7] or "") + (found[8] or "")).ljust(6, "0")[:6])
        year, month, day, *clock = map(int, found.groups()[:6])
        return _to_epoch_s(year, month, day, clock, micros) - _parse_offset_s(found[9])
    if found := _GLOG.search(text):
        month, day, *clock, micros = map(int, found.groups())
        return _to_epoch_s(NO_YEAR, month, day, clock, micros)
    if found := _SYSLOG.search(text):
        day, *clock = map(int, found.groups()[1:])
        return _to_epoch_s(NO_YEAR, _MONTHS.index(found[1]) + 1, day, clock)
    return None


def _to_epoch_s(year: int, month: int, day: int, clock: list[int], micros: int = 0) -> float:
    hour, minute, second = clock
    return datetime(year, month, day, hour, minute, second, micros, timezone.utc).timestamp()


def _parse_offset_s(text: str | None) -> float:
    """The seconds that `+08:00` is ahead of UTC."""
    if not text or text == "Z":
        return 0.0
    bare = text[1:].replace(":", "")
    return (int(bare[:2]) * 60 + int(bare[2:])) * (-60.0 if text[0] == "-" else 60.0)


def are_comparable(times: list[float | None]) -> bool:
    """Return whether all times exist, and all or none have a year."""
    said = [t for t in times if t is not None]
    early = datetime(NO_YEAR + 2, 1, 1, tzinfo=timezone.utc).timestamp()
    return len(said) == len(times) and len({t < early for t in said}) <= 1
