"""Which installed packages a recipe needs: those that it names and all that these require, by their own metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from installers import programs
from installers.targets.target import Target

LOOK_S = 60.0
Requires = Mapping[str, Sequence[str]]  # requirement lines by canonical name


def look(target: Target, folders: Sequence[str]) -> tuple[Requires, tuple[str, ...]]:
    """What each package there requires, and the names of those installed editable from `folders`; nothing where the
    target's Python does not answer."""
    source = (Path(programs.__path__[0]) / "dependencies.py").read_text("utf-8")
    argv = (target.python, "-I", "-c", source, *folders)
    done = target.run(argv, timeout_s=LOOK_S, env=target.surroundings())
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
    if not line:
        return {}, ()
    said = json.loads(line.removeprefix("ENVCHECK "))
    requires = {str(canonicalize_name(name)): lines for name, lines in said["requires"].items()}
    return requires, tuple(said["editable"])


def closure(roots: Iterable[str], requires: Requires, python: str) -> frozenset[str]:
    """Canonical names of the installed packages among `roots` (with extras: name[extra]) and all that they require
    with this version of Python.  Pure."""
    reached: set[tuple[str, str]] = set()
    ahead = [pair for root in roots for pair in _parts(root)]
    while ahead:
        name, extra = ahead.pop()
        if (name, extra) in reached or name not in requires:
            continue
        reached.add((name, extra))
        ahead += [pair for line in requires[name] for pair in _required(line, extra, python)]
    return frozenset(name for name, _ in reached)


def _parts(requirement: str) -> list[tuple[str, str]]:
    """The package without an extra, and once with each."""
    try:
        known = Requirement(requirement)
    except InvalidRequirement:
        return []
    return [(str(canonicalize_name(known.name)), extra) for extra in ("", *sorted(known.extras))]


def _required(line: str, extra: str, python: str) -> list[tuple[str, str]]:
    """What a requirement line asks for where its marker holds; a line that is none asks for nothing."""
    try:
        marker = Requirement(line).marker
    except InvalidRequirement:
        return []
    return _parts(line) if marker is None or _holds(marker, extra, python) else []


def _holds(marker: Marker, extra: str, python: str) -> bool:
    """A marker that cannot be evaluated holds: rather a package too many than one too few."""
    where = {"python_version": ".".join(python.split(".")[:2]), "python_full_version": python}
    known = {name: text for name, text in where.items() if text}
    try:
        return marker.evaluate({**known, "extra": extra})
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion):  # a kernel's name is no version
        return True
