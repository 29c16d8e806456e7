"""Which two requirements in pip's list exclude each other; pure.

xformers 0.0.24 depends on torch==2.2.0
accelerate 0.34.1 depends on torch>=1.10.0
unsloth-zoo 2024.10.1 depends on torch>=2.4.0
"""

from __future__ import annotations

import re
from itertools import combinations

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from envcheck.explain.exceptions.installed_versions import normalize_name

_LINE = re.compile(r"^ {2,8}((?:\S{1,60} \S{1,30} depends on|The user requested) ([^\n]{2,160}))$", re.MULTILINE)
_STEP = ".0.0.0.1"  # after a bound


def describe_conflict(text: str) -> str:
    """Return two lines whose requirements no release meets, otherwise the first that limits the releases, or ""."""
    limited = [(line, wanted) for line, wanted in _read_lines(text) if wanted.specifier]
    for (line, one), (other_line, other) in combinations(limited, 2):
        if normalize_name(one.name) == normalize_name(other.name) and _exclude(one.specifier, other.specifier):
            return f"{line}; {other_line}"
    return next((line for line, _unused in limited), "")


def _read_lines(text: str) -> list[tuple[str, Requirement]]:
    found = []
    for line, wanted in _LINE.findall(text):
        try:
            found.append((line.strip(), Requirement(wanted)))
        except InvalidRequirement:
            continue
    return found


def _exclude(one: SpecifierSet, other: SpecifierSet) -> bool:
    """Return whether no release meets both: a release at a bound, or next to one, would."""
    both = one & other
    bounds = [part.version.removesuffix(".*") for part in both]
    try:
        tried = [Version(bound + step) for bound in bounds for step in ("", _STEP)] + [Version("0")]
    except InvalidVersion:
        return False
    return not any(both.contains(version, prereleases=True) for version in tried)
