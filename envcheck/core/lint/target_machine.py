"""The machine that a script is judged for: what is known of it, and what is there; asked only when a rule asks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.core.lint.model import UNKNOWN

if TYPE_CHECKING:
    from envcheck.core.facts import Facts


@dataclass(frozen=True)
class TargetMachine:
    """`gather` gives the facts, None: nobody was asked.  `live`: it is this one, so paths can be looked up."""

    gather: Callable[[], Facts] | None = None
    live: bool = False
    folder: Path | None = None  # of the script
    root: Path | None = None  # of a simulated machine, which has a few files

    @cached_property
    def facts(self) -> Facts | None:
        return self.gather() if self.gather else None

    @property
    def vendors(self) -> tuple[str, ...] | None:
        return tuple(each.name for each in self.facts.vendors) if self.facts else None

    @property
    def architecture(self) -> str | None:
        return self.facts.host.architecture if self.facts and self.facts.host else None

    @property
    def interfaces(self) -> Mapping[str, tuple[str, ...]] | None:
        if not (self.facts and self.facts.network and self.facts.network.interfaces):
            return None
        return {name: each.addresses for name, each in self.facts.network.interfaces.items()}

    @property
    def packages(self) -> Mapping[str, str]:
        """What is installed in the Python that was looked at."""
        return self.facts.packages.packages if self.facts and self.facts.packages else {}

    def cards(self, vendor: str) -> int | None:
        found = [each for each in self.facts.vendors if each.name == vendor] if self.facts else []
        return len(found[0].devices) or None if found else None

    def exists(self, path: str, cwd: str = "") -> bool | None:
        """None where it cannot be told: no live machine and no answer on it, a folder that is not known."""
        if UNKNOWN in path or UNKNOWN in cwd or not path or "\0" in path or len(path) > 4000:
            return None
        if not self.live:
            return self._recorded(path)
        places = [Path(path)] if path.startswith("/") else [Path(base) / cwd / path for base in self._bases()]
        try:
            return any(place.exists() for place in places)
        except OSError:
            return None

    def free_bytes(self, path: str, cwd: str = "") -> int | None:
        """Room for a path that may not be there yet; None where nobody can look."""
        if not self.live or UNKNOWN in path + cwd or "\0" in path or len(path) > 4000:
            return None
        for base in self._bases():
            place = next(
                (each for each in (Path(base, cwd, path), *Path(base, cwd, path).parents) if each.exists()), None
            )
            if place is not None:
                return shutil.disk_usage(place).free
        return None

    def _bases(self) -> list[Path]:
        return [Path.cwd(), *([self.folder] if self.folder else [])]

    def _recorded(self, path: str) -> bool | None:
        """What a recording happens to say of a path: it was read or listed; what a simulated machine has."""
        if self.root and path.startswith("/") and ".." not in path and (self.root / path.lstrip("/")).exists():
            return True
        if not self.facts or not path.startswith("/"):
            return None
        for key, answer in self.facts.answers.items():
            verb, _, what = key.partition(" ")
            if (verb == "read" and what == path and answer.ok) or (verb == "list" and path in answer.out.splitlines()):
                return True
            if verb in ("read", "list") and what == path and answer.outcome.value in ("absent", "empty"):
                return False
        return None
