"""The order of vendor version strings, which follow no common standard, and version ranges as the tables write them.

A version is split into runs of digits and of letters.  Numbers compare as numbers; a missing number is 0, so 8.0 is
8.0.0. Prereleases sort before the release (alpha, beta, T and B builds of a candidate, rc), post releases after it.  A
build suffix refines: 24.1.rc1 < 24.1.rc1.b030 < 24.1.rc2 < 24.1.0 < 24.1.0.b061.

Examples: 8.0.RC1 < 8.0.RC2 < 8.0.0 < 8.1.RC1; 3.1.0a0 < 3.1.0; 2.7.1 < 2.7.1.post2; a local label (2.1.0+cpu) is
ignored.

Sources: release notes of CANN and HDK (order of rc and release), PEP 440 for a, b, post, dev.
"""

from __future__ import annotations

import functools
import operator
import re

Places = tuple[tuple[int, int], ...]
Key = tuple[Places, Places]

# The rank of a word compared with the end of the version (0); further numbers rank higher.
_WORDS = {
    "dev": -6,
    "a": -5,
    "alpha": -5,
    "t": -5,
    "beta": -4,
    "b": -4,
    "c": -3,
    "rc": -3,
    "post": 1,
    "p": 1,
    "sp": 1,
    "spc": 1,
}
_VERSION = re.compile(
    r"v?\d+(?:[.\-_](?:\d+|[a-z]+)|(?<=\d)[a-z]+|(?<=[a-z])\d+)*(?:\+[a-z0-9]+(?:[.\-_][a-z0-9]+)*)?", re.ASCII
)
# Huawei's build of a driver, 24.1.rc1.b030, is not a beta as in 3.1.0b1.
_BUILD = re.compile(r"\.b(\d{3})(?!\d)", re.ASCII)
_LENGTH = 64
_END = (0, 0)

_RANGE = re.compile(r"(>=|<=|==|!=|>|<)\s*([^\s,<>=!]+)")
_HOLDS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


@functools.lru_cache(maxsize=4096)
def sort_key(version: str) -> Key | None:
    """Return a key that sorts like the version; None for text that is not a version (x.x.x, N/A, "")."""
    text = version.strip().lower()
    if len(text) > _LENGTH or not _VERSION.fullmatch(text):
        return None
    numbers: list[int] = []
    rest: list[tuple[int, int]] = []
    for part in re.findall(r"\d+|[a-z]+", _BUILD.sub(r".build\1", text.partition("+")[0].removeprefix("v"))):
        if part.isdigit() and not rest:
            numbers.append(int(part))
        elif part.isdigit() and rest[-1][1] == -1:
            rest[-1] = (rest[-1][0], int(part))
        elif part.isdigit():
            rest.append((0, int(part)))
        else:
            rest.append((_WORDS.get(part, 2), -1))
    return _split_release(numbers, rest)


def _split_release(numbers: list[int], rest: list[tuple[int, int]]) -> Key:
    """Return the release numbers and the rest, without trailing zeros, so that 24.1.rc1 sorts as a candidate of
    24.1.0.

    A build after a release (26.1.0.b061) sorts above it, because its rank is above the end's 0. A word without a number
    counts as its number 0: 1.0rc is 1.0rc0.
    """
    release = [(0, n) for n in numbers]
    after = [(weight, max(n, 0)) for weight, n in rest]
    for places in (release, after):
        while places and places[-1] == _END:
            places.pop()
    return tuple(release), (*after, _END)


def compare_versions(left: str, right: str) -> int | None:
    """Return -1, 0 or 1; None if either is not a version."""
    a, b = sort_key(left), sort_key(right)
    return None if a is None or b is None else (a > b) - (a < b)


def is_at_least(version: str, minimum: str) -> bool | None:
    """Return whether `version` is `minimum` or later; None if either is not a version."""
    order = compare_versions(version, minimum)
    return None if order is None else order >= 0


def is_same_release(left: str, right: str) -> bool | None:
    """Return whether the common parts agree: 24.1.rc1 and 24.1.rc1.b030 do, 22.0.2 and 22.0.4 do not."""
    a, b = sort_key(left), sort_key(right)
    if a is None or b is None:
        return None
    return a == b or left.lower().startswith(right.lower() + ".") or right.lower().startswith(left.lower() + ".")


def is_build_of(version: str, release: str) -> bool | None:
    """Return whether `version` is the release or a build of it: 24.1.rc1.b030 of 24.1.rc1, 3.10.14 of 3.10.

    A prerelease is not: 8.0.RC2.alpha003 comes before 8.0.RC2. None if either is not a version.
    """
    order = compare_versions(version, release)
    if order is None:
        return None
    return order == 0 or (order > 0 and version.lower().startswith(f"{release.lower()}."))


def fits_pattern(version: str, pattern: str, builds: bool = False) -> bool | None:
    """Return whether the version matches the pattern; None if either is invalid.

    Patterns: `any`; a release (with `builds`, also its builds); a prefix such as `25.5.X`; a range such as `>=1.21,<2`.
    """
    if sort_key(version) is None:
        return None
    if pattern == "any":
        return True
    if pattern.lower().endswith(".x"):
        return f"{_strip_version(version)}.".startswith(pattern.lower()[:-1])
    if pattern[:1] in "<>=!":
        return _fits_range(version, pattern, builds)
    same = compare_versions(version, pattern)
    return None if same is None else same == 0 or (builds and bool(is_build_of(version, pattern)))


def _fits_range(version: str, pattern: str, builds: bool) -> bool | None:
    answers = [_fits_term(version, term, builds) for term in pattern.split(",")]
    return None if None in answers else all(answers)


def _fits_term(version: str, term: str, builds: bool) -> bool | None:
    """Evaluate one comparison; a build of the bound counts as the bound."""
    read = _RANGE.fullmatch(term.strip())
    order = compare_versions(version, read[2]) if read else None
    if read is None or order is None:
        return None
    return bool(_HOLDS[read[1]](0 if builds and is_build_of(version, read[2]) else order, 0))


def _strip_version(version: str) -> str:
    return version.strip().lower().removeprefix("v").partition("+")[0]
