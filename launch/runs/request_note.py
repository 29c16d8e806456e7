"""A note with the --into and --recipes of each run, in envcheck's home folder.

The run's record contains them as well, but is untrusted: a run folder from elsewhere must not determine which program
or recipe is used.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from envcheck.core import paths as places

LIMIT = 4 << 20  # bytes read from the end of the file; a line has about 200
Words = dict[str, str]


@dataclass(frozen=True)
class RequestNote:
    """The options of a run; None: not given."""

    into: Path | None = None
    recipes: Path | None = None

    def as_values(self) -> Words:
        """Return the given options as absolute paths."""
        return {name: str(path.absolute()) for name, path in vars(self).items() if path is not None}


def save_note(run: Path, note: RequestNote) -> None:
    """Append the note, unless it is empty; errors are ignored."""
    if not note.as_values():
        return
    with contextlib.suppress(OSError):
        places.envcheck_home().mkdir(parents=True, exist_ok=True)
        with _notes_path().open("a", encoding="utf-8") as file:
            file.write(json.dumps({"run": str(run), **note.as_values()}) + "\n")


def read_note(run: Path) -> RequestNote:
    """Return the latest note about the run, an empty one without."""
    for line in reversed(_read_notes()):
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict) and found.get("run") == str(run):
                paths = {name: found.get(name) for name in ("into", "recipes")}
                return RequestNote(**{name: Path(path) for name, path in paths.items() if isinstance(path, str)})
    return RequestNote()


def _notes_path() -> Path:
    return places.envcheck_home() / "runs-said.jsonl"


def _read_notes() -> list[str]:
    try:
        with _notes_path().open("rb") as file:
            file.seek(max(0, _notes_path().stat().st_size - LIMIT))
            return file.read(LIMIT).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
