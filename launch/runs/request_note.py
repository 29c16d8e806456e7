"""A note with the --into and --recipes of each run, in envcheck's home folder.

The run's record contains them as well, but is untrusted: a run folder from elsewhere must not determine which program
or recipe is used.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.core import paths as places

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
LIMIT = 4 << 20  # bytes read from the end of the file; a line has about 200
Words = dict[str, str]


@dataclass(frozen=True)
class RequestNote:
    """The options of a run; None: not given.  `words` are all options of train, typed in the folder `typed_in`."""

    into: Path | None = None
    recipes: Path | None = None
    words: tuple[str, ...] = ()
    typed_in: Path | None = None

    def as_values(self) -> Words:
        """Return the folders of --into and --recipes as absolute paths, if given."""
        return {name: str(path.absolute()) for name, path in _list_paths(self) if path is not None}


def _list_paths(note: RequestNote) -> tuple[tuple[str, Path | None], ...]:
    return ("into", note.into), ("recipes", note.recipes)


def save_note(run: Path, note: RequestNote) -> None:
    """Append the note, unless it is empty; errors are ignored."""
    if not note.as_values() and not note.words:
        return
    more = {"words": list(note.words), "typed_in": str(note.typed_in)} if note.words else {}
    with contextlib.suppress(OSError):
        places.envcheck_home().mkdir(parents=True, exist_ok=True)
        with _notes_path().open("a", encoding="utf-8") as file:
            file.write(json.dumps({"run": str(run), **note.as_values(), **more}) + "\n")


def read_note(run: Path) -> RequestNote:
    """Return the latest note about the run, an empty one without."""
    for line in reversed(_read_notes()):
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict) and found.get("run") == str(run):
                return _parse_note(found)
    return RequestNote()


def _parse_note(found: Mapping[str, Any]) -> RequestNote:
    into, recipes, folder = (
        Path(found[name]) if isinstance(found.get(name), str) else None for name in ("into", "recipes", "typed_in")
    )
    words = found.get("words")
    return RequestNote(into, recipes, tuple(map(str, words)) if isinstance(words, list) else (), folder)


def _notes_path() -> Path:
    return places.envcheck_home() / "runs-said.jsonl"


def _read_notes() -> list[str]:
    try:
        with _notes_path().open("rb") as file:
            file.seek(max(0, _notes_path().stat().st_size - LIMIT))
            return file.read(LIMIT).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def save_webhooks(run: Path, urls: tuple[str, ...]) -> None:
    """Keep the URLs of --webhook for `runs adopt` while the run is active, readable by this user only; errors are
    ignored.  They may hold secrets, so that no record and no note has them.
    """
    if not urls:
        return
    with contextlib.suppress(OSError):
        path = _webhooks_path(run)
        path.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch(PRIVATE_FILE, exist_ok=False)
        path.write_text(json.dumps({"run": str(run), "webhooks": list(urls)}), "utf-8")


def read_webhooks(run: Path) -> tuple[str, ...]:
    """Return the URLs of an active run, () without."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads(_webhooks_path(run).read_text("utf-8"))
        if isinstance(found, dict) and found.get("run") == str(run) and isinstance(found.get("webhooks"), list):
            return tuple(map(str, found["webhooks"]))
    return ()


def remove_webhooks(run: Path) -> None:
    """Delete the URLs of a run that has ended."""
    with contextlib.suppress(OSError):
        _webhooks_path(run).unlink(missing_ok=True)


def _webhooks_path(run: Path) -> Path:
    return places.envcheck_home() / "webhooks" / f"{run.name}.json"
