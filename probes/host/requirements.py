"""Which installed packages lack what they ask for: as `pip check`, for what training needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

UNMET_LIMIT = 50


def list_unmet(
    packages: Mapping[str, str], requires: Mapping[str, Sequence[str]], python: str | None, machine: str | None
) -> tuple[str, ...]:
    """ "vllm 0.9.1 wants torch==2.7.0, 2.5.1 is there"; `requires` has the Requires-Dist lines of packages by name,
    `packages` the versions of all, in a Python of this version on a machine of this architecture."""
    from packaging.requirements import InvalidRequirement, Requirement

    here = {"extra": "", **({"platform_machine": machine} if machine else {})}
    if python:
        here |= {"python_version": ".".join(python.split(".")[:2]), "python_full_version": python}
    found: list[str] = []
    for name, lines in sorted(requires.items()):
        for line in lines:
            try:
                wanted = Requirement(line)
                if wanted.marker and not wanted.marker.evaluate(here):
                    continue
            except (InvalidRequirement, ValueError, KeyError):
                continue
            if words := _describe_lack(wanted, packages):
                found.append(f"{name} {packages.get(name, '')} wants {wanted.name}{wanted.specifier}, {words}")
    return tuple(found[:UNMET_LIMIT])


def _describe_lack(wanted: object, packages: Mapping[str, str]) -> str:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion

    assert isinstance(wanted, Requirement)
    there = packages.get(canonicalize_name(wanted.name))
    if there is None:
        return "none is there"
    try:
        return "" if wanted.specifier.contains(there, prereleases=True) else f"{there} is there"
    except InvalidVersion:
        return ""
