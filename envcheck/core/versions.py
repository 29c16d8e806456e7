"""The order of the vendors' version strings, which no one standard describes, and the ranges that tables write them in.

A version is read as runs of digits and of letters.  Numbers compare as numbers; a missing number is 0, so 8.0 is 8.0.0.
What comes before a release sorts before it (alpha, beta, T and B builds of a candidate, rc), what comes after it after
(post).  A build suffix refines: 24.1.rc1 < 24.1.rc1.b030 < 24.1.rc2 < 24.1.0 < 24.1.0.b061.
8.0.RC1 < 8.0.RC2 < 8.0.0 < 8.1.RC1; 3.1.0a0 < 3.1.0; 2.7.1 < 2.7.1.post2; a local label (2.1.0+cpu) is left aside.
Sources: release notes of CANN and HDK (order of rc and release), PEP 440 for a, b, post, dev.
"""

from __future__ import annotations

import functools
import operator
import re

Places = tuple[tuple[int, int], ...]
Key = tuple[Places, Places]

# Where a word stands against "nothing more" (0) at its place; numbers (a further part) stand above.
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
_VERSION = re.compile(r"v?\d+(?:[.\-_]?(?:\d+|[a-z]+))*(?:\+[a-z0-9]+(?:[.\-_][a-z0-9]+)*)?", re.ASCII)
_BUILD = re.compile(
    r"\.b(\d{3})(?!\d)", re.ASCII
)  # Huawei's build of a driver, 24.1.rc1.b030, is no beta as in 3.1.0b1
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
def key(version: str) -> Key | None:
    """What sorts like the version; None for text that is no version (x.x.x, N/A, "")."""
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
    return _places(numbers, rest)


def _places(numbers: list[int], rest: list[tuple[int, int]]) -> Key:
    """24.1.rc1 is a candidate of 24.1.0: zeros at the end go, so that rc compares with the release at one place.

    A build behind a release (26.1.0.b061) comes out above it, since its weight is above the end's 0.  A word without a
    number counts as its number 0: 1.0rc is 1.0rc0.
    """
    release = [(0, n) for n in numbers]
    after = [(weight, max(n, 0)) for weight, n in rest]
    for places in (release, after):
        while places and places[-1] == _END:
            places.pop()
    return tuple(release), (*after, _END)


def compare(left: str, right: str) -> int | None:
    """-1, 0, 1; None when either is no version."""
    a, b = key(left), key(right)
    return None if a is None or b is None else (a > b) - (a < b)


def at_least(version: str, minimum: str) -> bool | None:
    """Whether `version` reaches `minimum`; None when either is no version."""
    order = compare(version, minimum)
    return None if order is None else order >= 0


def same_release(left: str, right: str) -> bool | None:
    """Whether the numbers agree as far as both say them: 24.1.rc1 and 24.1.rc1.b030 do, 22.0.2 and 22.0.4 do not."""
    a, b = key(left), key(right)
    if a is None or b is None:
        return None
    return a == b or left.lower().startswith(right.lower() + ".") or right.lower().startswith(left.lower() + ".")


def build_of(version: str, release: str) -> bool | None:
    """Whether `version` is the release or a build of it: 24.1.rc1.b030 of 24.1.rc1, 3.10.14 of 3.10.

    What comes before the release is none: 8.0.RC2.alpha003 is not yet 8.0.RC2.  None when either is no version.
    """
    order = compare(version, release)
    if order is None:
        return None
    return order == 0 or (order > 0 and version.lower().startswith(f"{release.lower()}."))


def fits(version: str, pattern: str, builds: bool = False) -> bool | None:
    """Whether the version is one that the pattern means; None when it is no version, or the pattern none of these.

    `any`; a release (`builds`: with its builds); `25.5.X`, whatever begins so; `>=1.21,<2`, all of them.
    """
    if key(version) is None:
        return None
    if pattern == "any":
        return True
    if pattern.lower().endswith(".x"):
        return f"{_bare(version)}.".startswith(pattern.lower()[:-1])
    if pattern[:1] in "<>=!":
        return _within(version, pattern, builds)
    same = compare(version, pattern)
    return None if same is None else same == 0 or (builds and bool(build_of(version, pattern)))


def _within(version: str, pattern: str, builds: bool) -> bool | None:
    answers = [_holds(version, term, builds) for term in pattern.split(",")]
    return None if None in answers else all(answers)


def _holds(version: str, term: str, builds: bool) -> bool | None:
    """One comparison; a build of the bound counts as the bound."""
    read = _RANGE.fullmatch(term.strip())
    order = compare(version, read[2]) if read else None
    if read is None or order is None:
        return None
    return bool(_HOLDS[read[1]](0 if builds and build_of(version, read[2]) else order, 0))


def _bare(version: str) -> str:
    return version.strip().lower().removeprefix("v").partition("+")[0]
