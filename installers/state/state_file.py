"""The state file of an environment: .envcheck/state.json, replaced atomically.

It records whether envcheck created the folder, which step is running, and what the verification of each recipe found.
A step recorded as running tells the next run that this one was interrupted.

The file proves ownership only at the place where it was written: it contains the real path of the folder and, outside
of envcheck's home, an id that must match a note in that home.  A copied, moved or downloaded folder is not envcheck's.
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
OLD_SCHEMA = 1  # one recipe per environment; still read, always written as the new schema
LIMIT = 1 << 20  # characters; a typical file has a few thousand
TEARING = ("clear", "environment", "packages", "library", "undo")  # if interrupted, they leave incomplete packages
EMPTYING = ("clear", "environment", "undo")  # if interrupted, they leave an environment without pyvenv.cfg
_ID = re.compile(r"[0-9a-f]{32}")


def state_folder(environment: Path) -> Path:
    """Return the folder for envcheck's files in an environment: state, journal, lock, logs, pip's temporary files."""
    return environment / ".envcheck"


@dataclass(frozen=True)
class RecipeProof:
    """The last successful verification of a recipe; `digest` is the recipe's fingerprint, "" once a new step started.

    `packages` are all installed versions, `needs` the names of the packages that the recipe needs, empty if unknown.
    `sources` are commits by folder of the clone, and checksums by path of the built file.
    """

    digest: str = ""
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EnvironmentState:
    """`made`: envcheck created the folder and may remove it; `doing`: the running step; `proofs`: by recipe.

    `added` are the packages that envcheck added to a user's environment.  `as_published`: its container uses the
    options of the published document, `cards` are the device node numbers in it.  `elsewhere`: the state was written at
    another path.
    """

    made: bool
    proofs: Mapping[str, RecipeProof] = field(default_factory=dict)
    doing: str = ""
    added: tuple[str, ...] = ()
    as_published: bool = False
    cards: tuple[int, ...] = ()
    elsewhere: bool = False

    @property
    def recipe_names(self) -> str:
        """Return the names of the provisioned recipes, separated by commas."""
        return ", ".join(sorted(self.proofs))

    def was_proved(self, recipe: str) -> bool:
        """Return whether the recipe was ever verified; the verification may be outdated."""
        return bool(self.proofs.get(recipe, RecipeProof()).packages)


def begin_step(mark: EnvironmentState, recipe: str, doing: str) -> EnvironmentState:
    """Return the state at the start of a step: it invalidates the recipe's verification, and all if it empties.

    Verifications of other recipes are kept; their package versions show whether the step changed something.
    """
    kept = {} if doing in EMPTYING else mark.proofs
    own = replace(kept.get(recipe, RecipeProof()), digest="")
    return replace(mark, doing=doing, proofs={**kept, recipe: own})


def load_state(environment: Path) -> EnvironmentState | None:
    """Return the state; None if there is no state file or it is not valid (then the folder is not envcheck's)."""
    try:
        document = _read_document(environment)
        if document["schema"] not in (SCHEMA, OLD_SCHEMA) or not isinstance(document["made"], bool):
            return None
        here = _is_in_place(environment, document)
        old = document["schema"] == OLD_SCHEMA
        return EnvironmentState(
            made=document["made"] and here,
            proofs=_only_proof(document) if old else _parse_proofs(document["proofs"]),
            doing=str(document["doing"]),
            added=tuple(str(name) for name in document["added"]),
            as_published=document.get("as_published") is True,
            cards=tuple(int(number) for number in document.get("cards", ())),
            elsewhere=document["made"] and not here,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _parse_proofs(proofs: Mapping[str, Any]) -> dict[str, RecipeProof]:
    return {
        str(recipe): RecipeProof(
            digest=str(proof["digest"]),
            python=str(proof["python"]),
            packages=_parse_texts(proof["packages"]),
            needs=tuple(str(name) for name in proof["needs"]),
            sources=_parse_texts(proof["sources"]),
        )
        for recipe, proof in proofs.items()
    }


def _only_proof(document: Mapping[str, Any]) -> dict[str, RecipeProof]:
    """Return the verification in a file of the old schema; there, a running step invalidates it implicitly."""
    digest = "" if document["doing"] else str(document["digest"])
    return {str(document["recipe"]): RecipeProof(digest, packages=_parse_texts(document["proven"]))}


def _parse_texts(table: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(text) for key, text in table.items()}


def is_as_published(environment: Path) -> bool:
    """Return whether the environment's container uses the options of the published document."""
    mark = load_state(environment)
    return mark is not None and mark.as_published


def save_state(environment: Path, mark: EnvironmentState) -> None:
    """Write the state atomically: an interruption leaves the old file or the new one."""
    folder = state_folder(environment)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / "state.json.new"
    values = {key: value for key, value in asdict(mark).items() if key != "elsewhere"}
    document = {"schema": SCHEMA, **values, **_write_identity(environment, mark)}
    try:
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(folder / "state.json")
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def find_note(environment: Path) -> Path | None:
    """Return the path of the note about a folder in envcheck's home, so that it can be removed with the folder."""
    try:
        return _note_path(_read_document(environment))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _read_document(environment: Path) -> Any:
    with (state_folder(environment) / "state.json").open(encoding="utf-8") as file:
        return json.loads(file.read(LIMIT))


def _write_identity(environment: Path, mark: EnvironmentState) -> dict[str, str]:
    """Return path and id of the folder; its note is written before the state file that refers to it."""
    if not mark.made:
        return {}
    try:
        known = str(_read_document(environment)["id"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        known = ""
    values = {"place": os.path.realpath(environment), "id": known if _ID.fullmatch(known) else secrets.token_hex(16)}
    note = _note_path(values)
    if note and not _is_at_home(environment):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(values["place"] + "\n", encoding="utf-8", errors="surrogateescape")
    return values


def _is_in_place(environment: Path, document: Mapping[str, Any]) -> bool:
    """Return whether the state was written at this path; files of the first versions count only in envcheck's home."""
    if document.get("place", os.path.realpath(environment)) != os.path.realpath(environment):
        return False
    if _is_at_home(environment):
        return True
    note = _note_path(document)
    try:
        return note is not None and note.read_text("utf-8", "surrogateescape") == f"{document['place']}\n"
    except OSError:
        return False


def _note_path(document: Mapping[str, Any]) -> Path | None:
    identity = document.get("id", "")
    return paths.envcheck_home() / "made" / identity if isinstance(identity, str) and _ID.fullmatch(identity) else None


def _is_at_home(environment: Path) -> bool:
    home = Path(os.path.realpath(paths.envcheck_home()))
    return home in Path(os.path.realpath(environment)).parents
