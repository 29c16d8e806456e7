"""The current command of a script's recipe, for rules that compare it with the script."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScriptRecipe:
    """`again` is the command that writes the script again; `image` is None if the job runs on the host."""

    again: str
    processes: int
    image: str | None = None
