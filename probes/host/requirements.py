"""Finds installed packages with missing or incompatible dependencies, like `pip check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envcheck.core.messages import NOTHING, Message, _

UNMET_LIMIT = 50


def list_unmet(
    packages: Mapping[str, str], requires: Mapping[str, Sequence[str]], python: str | None, machine: str | None
) -> tuple[str, ...]:
    """Return messages such as "vllm 0.9.1 requires torch==2.7.0; 2.5.1 is installed".

    `requires` are the Requires-Dist lines by package, `packages` the installed versions; `python` and `machine` select
    the environment markers.
    """
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
            if problem := _describe_lack(wanted, packages):
                found.append(
                    _(
                        "{name} {version} requires {requirement}; {problem}",
                        name=name,
                        version=packages.get(name, ""),
                        requirement=f"{wanted.name}{wanted.specifier}",
                        problem=problem,
                    )
                )
    return tuple(found[:UNMET_LIMIT])


def _describe_lack(wanted: object, packages: Mapping[str, str]) -> Message:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion

    assert isinstance(wanted, Requirement)
    there = packages.get(canonicalize_name(wanted.name))
    if there is None:
        return _("not installed")
    try:
        return (
            NOTHING
            if wanted.specifier.contains(there, prereleases=True)
            else _("{version} is installed", version=there)
        )
    except InvalidVersion:
        return NOTHING
