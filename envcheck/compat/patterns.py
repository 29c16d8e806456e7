"""Whether a component's version is one that a row means.  The patterns are those of envcheck.core.versions.fits."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from envcheck.compat.components import components
from envcheck.core import versions

_OPPOSITE = {">=": "<", "<": ">=", ">": "<=", "<=": ">"}
_BOUND = re.compile(r"(>=|<=|<|>)([^,]+)")


def fits(component: str, version: str, patterns: Iterable[str]) -> bool | None:
    """Whether one of the patterns fits; None when none does and one could not be compared."""
    answers = {_fits(component, version, pattern) for pattern in patterns}
    return True if True in answers else None if None in answers else False


@functools.lru_cache(maxsize=4096)  # the tables say the same ones often
def readable(component: str, pattern: str) -> bool:
    """Whether the pattern is one at all: a version, a range, 25.5.X, any; for a word, any text."""
    return components()[component].word or pattern == "any" or versions.fits("1.0", pattern) is not None


def comparable(component: str, version: str) -> bool:
    return bool(version) if components()[component].word else versions.key(version) is not None


def literal(pattern: str) -> bool:
    """Whether the pattern names one version, so that a solver may propose it."""
    return pattern != "any" and pattern[:1] not in "<>=!" and not pattern.lower().endswith(".x")


def outside(patterns: Iterable[str]) -> str:
    """What is left when none of the patterns may fit, as pip writes it; "" where one is more than a plain bound."""
    bounds = [_BOUND.fullmatch(pattern) for pattern in patterns]
    return ",".join(f"{_OPPOSITE[m[1]]}{m[2]}" for m in bounds if m) if all(bounds) else ""


def _fits(component: str, version: str, pattern: str) -> bool | None:
    kind = components()[component]
    if kind.word:
        return version.lower().startswith(pattern.lower())  # 910B3 is a 910B
    return versions.fits(version, pattern, kind.builds)
