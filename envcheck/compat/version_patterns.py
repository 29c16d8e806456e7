"""Compares a component's version with the patterns of a row.

The patterns are those of envcheck.core.versions.fits_pattern.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from envcheck.compat.components import load_components
from envcheck.core import versions

_OPPOSITE = {">=": "<", "<": ">=", ">": "<=", "<=": ">"}
_BOUND = re.compile(r"(>=|<=|<|>)([^,]+)")


def fits_any(component: str, version: str, patterns: Iterable[str]) -> bool | None:
    """Return whether one of the patterns matches; None if none does and one could not be compared."""
    answers = {_fits_pattern(component, version, pattern) for pattern in patterns}
    return True if True in answers else None if None in answers else False


@functools.lru_cache(maxsize=4096)  # the tables repeat the same patterns
def is_readable(component: str, pattern: str) -> bool:
    """Return whether the pattern is valid: a version, a range, 25.5.X or any; for a word, any text."""
    return load_components()[component].word or pattern == "any" or versions.fits_pattern("1.0", pattern) is not None


def is_comparable(component: str, version: str) -> bool:
    """Return whether the version can be compared; for a word, any text can."""
    return bool(version) if load_components()[component].word else versions.sort_key(version) is not None


def is_single_version(pattern: str) -> bool:
    """Return whether the pattern is a single version, which a solver can propose."""
    return pattern != "any" and pattern[:1] not in "<>=!" and not pattern.lower().endswith(".x")


def invert_bounds(patterns: Iterable[str]) -> str:
    """Return the range outside all patterns in pip's notation; "" if one is more than a plain bound."""
    bounds = [_BOUND.fullmatch(pattern) for pattern in patterns]
    return ",".join(f"{_OPPOSITE[m[1]]}{m[2]}" for m in bounds if m) if all(bounds) else ""


def _fits_pattern(component: str, version: str, pattern: str) -> bool | None:
    kind = load_components()[component]
    if kind.word:
        return version.lower().startswith(pattern.lower())  # 910B3 is a 910B
    return versions.fits_pattern(version, pattern, kind.builds)
