"""Which installed packages a recipe needs: the named ones and their dependencies, by package metadata."""

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


def inspect_dependencies(target: Target, folders: Sequence[str]) -> tuple[Requires, tuple[str, ...]]:
    """Return what each package requires, and the names of those installed editable from `folders`.

    Both are empty if the target's Python does not answer.
    """
    source = (Path(programs.__path__[0]) / "dependencies.py").read_text("utf-8")
    argv = (target.python, "-I", "-c", source, *folders)
    done = target.run_command(argv, timeout_s=LOOK_S, env=target.list_variables())
    line = next((x for x in done.out.splitlines() if x.startswith("ENVCHECK ")), "")
    if not line:
        return {}, ()
    said = json.loads(line.removeprefix("ENVCHECK "))
    requires = {str(canonicalize_name(name)): lines for name, lines in said["requires"].items()}
    return requires, tuple(said["editable"])


def compute_closure(roots: Iterable[str], requires: Requires, python: str) -> frozenset[str]:
    """Return the canonical names of the installed packages among `roots` (with extras: name[extra]) and of all
    their dependencies with this version of Python.
    """
    reached: set[tuple[str, str]] = set()
    ahead = [pair for root in roots for pair in _split_extras(root)]
    while ahead:
        name, extra = ahead.pop()
        if (name, extra) in reached or name not in requires:
            continue
        reached.add((name, extra))
        ahead += [pair for line in requires[name] for pair in _required_by(line, extra, python)]
    return frozenset(name for name, _ in reached)


def _split_extras(requirement: str) -> list[tuple[str, str]]:
    """Return the package without extras, and once with each extra."""
    try:
        known = Requirement(requirement)
    except InvalidRequirement:
        return []
    return [(str(canonicalize_name(known.name)), extra) for extra in ("", *sorted(known.extras))]


def _required_by(line: str, extra: str, python: str) -> list[tuple[str, str]]:
    """Return what a requirement line asks for if its marker applies; empty for an invalid line."""
    try:
        marker = Requirement(line).marker
    except InvalidRequirement:
        return []
    return _split_extras(line) if marker is None or _marker_holds(marker, extra, python) else []


def _marker_holds(marker: Marker, extra: str, python: str) -> bool:
    """Return whether the marker applies; one that cannot be evaluated does: a superfluous package is harmless."""
    where = {"python_version": ".".join(python.split(".")[:2]), "python_full_version": python}
    known = {name: text for name, text in where.items() if text}
    try:
        return marker.evaluate({**known, "extra": extra})
    except (
        UndefinedComparison,
        UndefinedEnvironmentName,
        InvalidVersion,
    ):  # a kernel name, for example
        return True
