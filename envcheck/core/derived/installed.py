"""The Python packages that the job would train with, and the evidence of them; read from metadata."""

from __future__ import annotations

from envcheck.core.facts import Facts, Packages
from envcheck.core.findings import figures


def installed(facts: Facts) -> Packages | None:
    """Of the environment that provision made for the wanted recipe, else of the python3 on PATH."""
    made = facts.environments.get(facts.wanted.recipe) if facts.wanted else None
    return made or facts.packages


def metadata(found: Packages, *names: str) -> tuple[str, ...]:
    """Evidence: what the metadata of that Python's packages say."""
    said = {name: found.packages[name] for name in names} or {"version": str(found.python)}
    return figures(f"packages of {found.executable or 'python3'}", **said)
