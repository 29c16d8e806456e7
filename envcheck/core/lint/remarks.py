"""How a rule says what it saw; the table gives the remark its rule's name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

from envcheck.core.lint.model import UNKNOWN, Fix, Remark
from envcheck.core.model import Status


class Placed(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


def _remark(severity: Status, at: Placed, seen: str, do: str, fix: Fix | None) -> Remark:
    seen, do = (text.replace(UNKNOWN, "...") for text in (seen, do))
    return Remark("", severity, seen, do, at.start, max(at.end, at.start + 1), fix)


def fail(at: Placed, seen: str, do: str, fix: Fix | None = None) -> Remark:
    """It cannot start, starts the wrong thing, or loses work."""
    return _remark(Status.FAIL, at, seen, do, fix)


def warn(at: Placed, seen: str, do: str, fix: Fix | None = None) -> Remark:
    """It does something other than meant, or may."""
    return _remark(Status.WARN, at, seen, do, fix)


def unknown(at: Placed, seen: str, do: str) -> Remark:
    """Cannot be told without a fact that is not there."""
    return _remark(Status.UNKNOWN, at, seen, do, None)


def graded(sure: bool, at: Placed, seen: str, do: str, fix: Fix | None = None) -> Remark:
    return fail(at, seen, do, fix) if sure else warn(at, seen, do, fix)


def swap(at: Placed, text: str) -> Fix:
    """The stretch replaced by the text."""
    return Fix(((at.start, at.end, text),))


def listed(names: Iterable[str], most: int = 4) -> str:
    """Names for a sentence: the first few, and how many more."""
    all_ = list(dict.fromkeys(names))
    more = f" and {len(all_) - most} more" if len(all_) > most else ""
    return ", ".join(all_[:most]) + more


@lru_cache(maxsize=4096)
def near(name: str, names: frozenset[str], cutoff: float = 0.8) -> str:
    """The known name that is spelt most like this one; "" for none."""
    if len(name) > 80:
        return ""
    turned = (name[:n] + name[n + 1] + name[n] + name[n + 2 :] for n in range(len(name) - 1))
    if len(name) > 3 and (found := next((each for each in turned if each in names), "")):
        return found  # two letters changed places, which the ratio counts as two faults
    return next(iter(difflib.get_close_matches(name, sorted(names), 1, cutoff)), "")
