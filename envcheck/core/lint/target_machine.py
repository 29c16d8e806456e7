"""The host that a script is checked for; its facts are collected only when a rule needs them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from envcheck.core.lint.script_model import UNKNOWN

if TYPE_CHECKING:
    from envcheck.core.facts import Facts


@dataclass(frozen=True)
class TargetMachine:
    """`gather` collects the facts, None: not available. `live`: it is this host, so paths can be tested.

    `variables` are those of the environment that starts the script, none if any environment may.
    """

    gather: Callable[[], Facts] | None = None
    live: bool = False
    folder: Path | None = None  # of the script
    root: Path | None = None  # of a simulated host, which has a few files
    variables: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def facts(self) -> Facts | None:
        """The facts, collected on first use; None if not available."""
        return self.gather() if self.gather else None

    @property
    def vendors(self) -> tuple[str, ...] | None:
        """The vendors found, None if unknown."""
        return tuple(each.name for each in self.facts.vendors) if self.facts else None

    @property
    def architecture(self) -> str | None:
        """The CPU architecture, None if unknown."""
        return self.facts.host.architecture if self.facts and self.facts.host else None

    @property
    def interfaces(self) -> Mapping[str, tuple[str, ...]] | None:
        """The addresses by interface, None if unknown."""
        if not (self.facts and self.facts.network and self.facts.network.interfaces):
            return None
        return {name: each.addresses for name, each in self.facts.network.interfaces.items()}

    @property
    def packages(self) -> Mapping[str, str]:
        """The packages of the host's Python; empty if unknown."""
        return self.facts.packages.packages if self.facts and self.facts.packages else {}

    def count_devices(self, vendor: str) -> int | None:
        """Return the number of the vendor's devices, None if unknown or there are none."""
        found = [each for each in self.facts.vendors if each.name == vendor] if self.facts else []
        return len(found[0].devices) or None if found else None

    def path_exists(self, path: str, cwd: str = "") -> bool | None:
        """Return whether the path exists; None if unknown: not this host and not recorded, or an unknown folder."""
        if UNKNOWN in path or UNKNOWN in cwd or not path or "\0" in path or len(path) > 4000:
            return None
        if not self.live:
            return self._find_in_recording(path)
        places = (
            [Path(path)] if path.startswith("/") else [Path(base) / cwd / path for base in self._list_base_folders()]
        )
        try:
            return any(place.exists() for place in places)
        except OSError:
            return None

    def find_file(self, path: str, cwd: str = "") -> Path | None:
        """Return a file that the script names: relative to the script's folder, or absolute on this host; None if it is
        not there, or cannot be known.
        """
        if self.folder is None or not path or UNKNOWN in path + cwd or "\0" in path + cwd or len(path) > 4000:
            return None
        if (path.startswith("/") or cwd.startswith("/")) and not self.live:
            return None
        try:
            there = Path(self.folder, cwd, path)
            return there if there.is_file() else None
        except OSError:
            return None

    def list_sibling_names(self, most: int) -> tuple[str, ...]:
        """Return the names in the script's folder, up to `most`; none if the folder is unknown or unreadable."""
        try:
            return tuple(each.name for each in islice(self.folder.iterdir(), most)) if self.folder else ()
        except OSError:
            return ()

    def find_free_bytes(self, path: str, cwd: str = "") -> int | None:
        """Return the free space for a path, which need not exist yet; None if unknown."""
        if not self.live or UNKNOWN in path + cwd or "\0" in path or len(path) > 4000:
            return None
        for base in self._list_base_folders():
            place = next(
                (each for each in (Path(base, cwd, path), *Path(base, cwd, path).parents) if each.exists()), None
            )
            if place is not None:
                return shutil.disk_usage(place).free
        return None

    def _list_base_folders(self) -> list[Path]:
        return [Path.cwd(), *([self.folder] if self.folder else [])]

    def _find_in_recording(self, path: str) -> bool | None:
        """Return whether a recording shows the path: read or listed, or a file of a simulated host."""
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
