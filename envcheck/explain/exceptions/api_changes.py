"""Which release of a package removed or added a name; pure."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envcheck.core.toml_file import load_own_record

FILE = Path(__file__).with_name("changes.toml")
_DROPPED = (".__init__",)  # of a function's name: its class is known


@dataclass(frozen=True)
class ApiChange:
    """Names of a package: Class.argument, Class.attribute, or what is imported.

    `removed` is the first release without them, `added` the first with them; one of both is given.
    """

    package: str
    names: tuple[str, ...]
    removed: str = ""
    added: str = ""
    instead: str = ""

    @property
    def requirement(self) -> str:
        """What pip has to install for code that uses the names."""
        return f"{self.package}<{self.removed}" if self.removed else f"{self.package}>={self.added}"


@dataclass(frozen=True)
class _ChangesFile:
    changes: tuple[ApiChange, ...]


@functools.cache
def load_changes() -> Mapping[str, ApiChange]:
    """Return the changes by name."""
    return {name: change for change in load_own_record(_ChangesFile, FILE).changes for name in change.names}


def find_change(groups: Mapping[str, str]) -> ApiChange | None:
    """Return the change of the name that an exception's text gives: an option, or a part of a module."""
    return next((change for name in _list_names(groups) if (change := load_changes().get(name))), None)


def _list_names(groups: Mapping[str, str]) -> Iterator[str]:
    function, option, name = (groups.get(key, "") for key in ("function", "option", "name"))
    for ending in _DROPPED:
        function = function.removesuffix(ending)
    if option and function:
        yield f"{function}.{option}"
        yield f"{function.rpartition('.')[2]}.{option}"
    elif name and groups.get("owner"):
        yield f"{groups['owner']}.{name}"
    elif name:
        yield name
