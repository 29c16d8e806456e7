"""With which --into and --recipes a run was started: our own note, below our home.

The run's record says so as well, and is a stranger's word: a folder that came from elsewhere must not name the program
that is started, nor the recipe that names it.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from envcheck.core import paths as places

LIMIT = 4 << 20  # bytes of the note; a line has some 200
Words = dict[str, str]


@dataclass(frozen=True)
class RequestNote:
    """None is "not said"."""

    into: Path | None = None
    recipes: Path | None = None

    def as_values(self) -> Words:
        return {name: str(path.absolute()) for name, path in vars(self).items() if path is not None}


def remember(run: Path, said: RequestNote) -> None:
    """Nothing where nothing was said.  Not being able to write it down ends nothing."""
    if not said.as_values():
        return
    with contextlib.suppress(OSError):
        places.home().mkdir(parents=True, exist_ok=True)
        with _file().open("a", encoding="utf-8") as file:
            file.write(json.dumps({"run": str(run), **said.as_values()}) + "\n")


def of(run: Path) -> RequestNote:
    """What our note has of it; the last word counts."""
    for line in reversed(_lines()):
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict) and found.get("run") == str(run):
                paths = {name: found.get(name) for name in ("into", "recipes")}
                return RequestNote(**{name: Path(path) for name, path in paths.items() if isinstance(path, str)})
    return RequestNote()


def _file() -> Path:
    return places.home() / "runs-said.jsonl"


def _lines() -> list[str]:
    try:
        with _file().open("rb") as file:
            file.seek(max(0, _file().stat().st_size - LIMIT))
            return file.read(LIMIT).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
