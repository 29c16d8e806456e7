"""The Python packages that the job will use, and evidence for them; from package metadata."""

from __future__ import annotations

from envcheck.core.facts import Facts, Packages
from envcheck.core.findings import quote_values


def find_job_packages(facts: Facts) -> Packages | None:
    """Return the packages of the environment for the requested recipe, else of the python3 on PATH."""
    made = facts.environments.get(facts.wanted.recipe) if facts.wanted else None
    return made or facts.packages


def quote_metadata(found: Packages, *names: str) -> tuple[str, ...]:
    """Return evidence: the versions of these packages."""
    versions = {name: found.packages[name] for name in names} or {"version": str(found.python)}
    return quote_values(f"packages of {found.executable or 'python3'}", **versions)
