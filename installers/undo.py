"""Taking back what envcheck did: what its journal says that it made, in reverse, and the folder with our mark."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from envcheck.core.errors import UsageError
from installers.bundle import from_bundle
from installers.state import environment, journal, lock, state_file, venv_parts
from installers.state.journal import Entry
from installers.steps import create_environment
from installers.steps.dispatch import BY_NAME

BY_HAND = "delete it yourself if it is not needed"
DEEDS = {
    "container": "the container {}",
    "image": "the image {}",
    "clone": "the clone {}, if nobody has worked in it",
    "folder": "the folder {}, if it is empty",
    "parts": "what was taken out of a bundle: {}",
}


def removable(folder: Path) -> tuple[str, ...]:
    """What would be removed, in words; UsageError when it is not ours to remove.  () when there is nothing."""
    env = environment.read(folder)
    if env.kind is environment.FolderKind.ABSENT:
        return ()
    if env.mark and env.mark.elsewhere:
        raise UsageError(
            f"{folder} was copied or moved there, or comes from somebody else: its mark is not of this place",
            BY_HAND,
        )
    if env.mark and not env.mark.made:
        added = " ".join(env.mark.added)
        raise UsageError(
            f"envcheck did not make {folder}, it only added packages to it",
            f"to take them out: {env.interpreter} -m pip uninstall {added}" if added else "nothing was added",
        )
    if _barely_begun(folder):
        return (f"{folder}: the lock of a run that was cut off before its first step",)
    if not env.mark:
        raise UsageError(f"{folder} does not carry envcheck's mark", BY_HAND)
    outside = tuple(describe_deed(entry) for entry in reversed(journal.made(folder)))
    if outside and env.kind is not environment.FolderKind.ENVIRONMENT:
        return (*outside, f"{folder}: the notes for {env.mark.recipes}")
    return (
        *outside,
        f"{folder}: the virtual environment for {env.mark.recipes} with {len(env.packages)} packages{_but(folder)}",
    )


def _barely_begun(folder: Path) -> bool:
    """Between the lock and the first mark a cut leaves these and nothing else."""
    own = state_file.folder_of(folder)
    if own.is_symlink() or not own.is_dir() or [path.name for path in folder.iterdir()] != [own.name]:
        return False
    return {path.name for path in own.iterdir()} <= {"lock", "state.json.new"}


def _but(folder: Path) -> str:
    stay = venv_parts.others(folder)
    more = f" and {len(stay) - 3} more" if len(stay) > 3 else ""
    return f"; {', '.join(map(ascii, stay[:3]))}{more} there stay" if stay else ""


def describe_deed(entry: Entry) -> str:
    """What would be removed."""
    kind, which = journal.split_deed(entry)
    names = entry.get("names")
    if kind == "image":
        which = str(names[-1]) if isinstance(names, list) and names else which[:19]
    return DEEDS[kind].format(entry.get("host") or which) if kind in DEEDS else f"{kind} {which}"


def undo(folder: Path) -> tuple[str, ...]:
    """Outside first, each deed noted when it is done; our notes go last, so that a cut leaves what a next run goes on
    from.  What was kept, in words."""
    with lock.held(folder, lambda text: None):
        if _barely_begun(folder):
            return _own_notes(folder)
        ours = state_file.load(folder)
        if ours is None or not ours.made:
            raise UsageError(f"{folder} does not carry envcheck's mark", BY_HAND)
        parts, stay = venv_parts.own(folder), venv_parts.others(folder)
        state_file.save(folder, replace(ours, doing="undo" if parts else ours.doing))
        told = tuple(filter(None, (_back(folder, entry) for entry in reversed(journal.made(folder)))))
        create_environment.undo({}, folder)  # which the mark says we made, and no entry of the journal
        return (*told, *(f"{folder / name}: kept, it is not of the environment" for name in stay), *_own_notes(folder))


def _own_notes(folder: Path) -> tuple[str, ...]:
    """The end: our notes, the mark as the last of them, and the folder if it is empty then."""
    own, note = state_file.folder_of(folder), state_file.note_of(folder)
    for path in sorted(own.iterdir(), key=lambda path: path.name == "state.json"):
        if path.name != "lock":
            venv_parts.remove(path)
    venv_parts.remove(own)
    if note:
        note.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # what else is there stays
        folder.rmdir()
    return ()


def _back(folder: Path, entry: Entry) -> str:
    """One deed taken back; words where something was kept."""
    told = _undo(entry, folder)
    journal.write(folder, "undo", "undone", deed=entry.get("deed"), said=told)
    return f"{describe_deed(entry).partition(', if')[0]}: {told}" if told.startswith("kept") else ""


def _undo(entry: Entry, folder: Path) -> str:
    step = str(entry.get("step"))
    if step == from_bundle.UNPACKING:  # no step of a plan: it comes before them
        return from_bundle.remove_parts(entry)
    return BY_NAME[step].undo(entry, folder) if step in BY_NAME else "kept, another version of envcheck made it"
