"""What envcheck leaves in an environment that it works on: .envcheck/state.json, replaced whole or not at all.

The mark says whose the folder is, which step was begun, and what the proof of each recipe there saw; a step that was
begun and not ended is how the next run learns that this one was cut off.

A mark makes a folder ours only where it was made: it holds the folder's real path, and outside of our own home an id
that a note of ours below that home must confirm.  A folder that was copied, moved or got from a stranger is not ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from envcheck.core import paths

SCHEMA = 2
OLD_SCHEMA = 1  # one recipe in each environment; read, and written as the new one
LIMIT = 1 << 20  # characters; ours hold a few thousand
TEARING = ("clear", "environment", "packages", "library", "undo")  # steps that leave a mess when they are cut off
EMPTYING = ("clear", "environment", "undo")  # those of them that leave an environment without its pyvenv.cfg
_ID = re.compile(r"[0-9a-f]{32}")


def folder_of(environment: Path) -> Path:
    """Where everything of ours stands in an environment: mark, journal, lock, logs, pip's temporary files."""
    return environment / ".envcheck"


@dataclass(frozen=True)
class Proof:
    """What the last good proof of a recipe saw; `digest` is of what the recipe asked for, "" since a step of it began.

    `packages` are all versions that were there, `needs` the names of those that the recipe needs, empty where nobody
    could tell.  `sources` are commits by the clone's folder and sums by the built file's path.
    """

    digest: str = ""
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EnvironmentState:
    """`made`: the folder is ours to remove; `doing`: a step begun; `proofs`: of each recipe that was provisioned there.

    `as_published`: its container was made, or begun, with the document's own options.
    `elsewhere`: it was made at another place, and came here without us.
    """

    made: bool
    proofs: Mapping[str, Proof] = field(default_factory=dict)
    doing: str = ""
    added: tuple[str, ...] = ()
    as_published: bool = False
    elsewhere: bool = False

    @property
    def recipes(self) -> str:
        """Their names, for people."""
        return ", ".join(sorted(self.proofs))

    def was_proved(self, recipe: str) -> bool:
        """Once; whether that still counts is another question."""
        return bool(self.proofs.get(recipe, Proof()).packages)


def begin(mark: EnvironmentState, recipe: str, doing: str) -> EnvironmentState:
    """The mark when a step of the recipe begins: its own proof counts no more, nor anybody's in what is emptied.

    What the proofs of other recipes saw tells whether the step touched them.
    """
    kept = {} if doing in EMPTYING else mark.proofs
    own = replace(kept.get(recipe, Proof()), digest="")
    return replace(mark, doing=doing, proofs={**kept, recipe: own})


def load(environment: Path) -> EnvironmentState | None:
    """The mark, or None where there is none or none that can be understood (such a folder is not ours)."""
    try:
        said = _said(environment)
        if said["schema"] not in (SCHEMA, OLD_SCHEMA) or not isinstance(said["made"], bool):
            return None
        here = _here(environment, said)
        return EnvironmentState(
            made=said["made"] and here,
            proofs=_only_proof(said) if said["schema"] == OLD_SCHEMA else _proofs(said["proofs"]),
            doing=str(said["doing"]),
            added=tuple(str(name) for name in said["added"]),
            as_published=said.get("as_published") is True,
            elsewhere=said["made"] and not here,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _proofs(said: Mapping[str, Any]) -> dict[str, Proof]:
    return {
        str(recipe): Proof(
            digest=str(proof["digest"]),
            python=str(proof["python"]),
            packages=_texts(proof["packages"]),
            needs=tuple(str(name) for name in proof["needs"]),
            sources=_texts(proof["sources"]),
        )
        for recipe, proof in said.items()
    }


def _only_proof(said: Mapping[str, Any]) -> dict[str, Proof]:
    """Of the old layout, where a step that was begun made the proof void without a word."""
    digest = "" if said["doing"] else str(said["digest"])
    return {str(said["recipe"]): Proof(digest, packages=_texts(said["proven"]))}


def _texts(said: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(text) for key, text in said.items()}


def is_as_published(environment: Path) -> bool:
    """Whether the environment's container was asked for with the document's own options."""
    mark = load(environment)
    return mark is not None and mark.as_published


def save(environment: Path, mark: EnvironmentState) -> None:
    """Under a temporary name, to the disk, then renamed: a cut leaves the old mark or the new one."""
    folder = folder_of(environment)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / "state.json.new"
    told = {key: value for key, value in asdict(mark).items() if key != "elsewhere"}
    try:
        with fresh.open("w", encoding="utf-8") as file:
            json.dump({"schema": SCHEMA, **told, **_identity(environment, mark)}, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(folder / "state.json")
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def note_of(environment: Path) -> Path | None:
    """Our note of a folder, for whoever removes it."""
    try:
        return _note(_said(environment))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _said(environment: Path) -> Any:
    with (folder_of(environment) / "state.json").open(encoding="utf-8") as file:
        return json.loads(file.read(LIMIT))


def _identity(environment: Path, mark: EnvironmentState) -> dict[str, str]:
    """Where the folder is and which it is; the note is there before a mark asks for it."""
    if not mark.made:
        return {}
    try:
        known = str(_said(environment)["id"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        known = ""
    said = {"place": os.path.realpath(environment), "id": known if _ID.fullmatch(known) else secrets.token_hex(16)}
    note = _note(said)
    if note and not _at_home(environment):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(said["place"] + "\n", encoding="utf-8", errors="surrogateescape")
    return said


def _here(environment: Path, said: Mapping[str, Any]) -> bool:
    """Marks of our first versions name no place: they count below our own home alone."""
    if said.get("place", os.path.realpath(environment)) != os.path.realpath(environment):
        return False
    if _at_home(environment):
        return True
    note = _note(said)
    try:
        return note is not None and note.read_text("utf-8", "surrogateescape") == f"{said['place']}\n"
    except OSError:
        return False


def _note(said: Mapping[str, Any]) -> Path | None:
    identity = said.get("id", "")
    return paths.home() / "made" / identity if isinstance(identity, str) and _ID.fullmatch(identity) else None


def _at_home(environment: Path) -> bool:
    home = Path(os.path.realpath(paths.home()))
    return home in Path(os.path.realpath(environment)).parents
