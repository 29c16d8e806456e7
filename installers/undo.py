"""Taking back what envcheck did: what its journal says that it made, in reverse, and the folder with our mark."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from envcheck.core import paths
from envcheck.core.errors import UsageError
from installers.state import environment, journal, lock, state_file, venv_parts
from installers.steps import checkout_undo

Entry = Mapping[str, object]
BY_HAND = "delete it yourself if it is not needed"
REMOVE_S = 600.0  # the engine answers when all files are deleted: those of a vendor's image of 39 GB, on a busy disk


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
    outside = tuple(words(entry) for entry in reversed(journal.made(folder)))
    if outside and env.kind is not environment.FolderKind.ENVIRONMENT:
        return (*outside, f"{folder}: the notes for {env.mark.recipe}")
    return (
        *outside,
        f"{folder}: the virtual environment for {env.mark.recipe} with {len(env.packages)} packages{_but(folder)}",
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


def words(entry: Entry) -> str:
    kind, _, what = str(entry.get("deed")).partition(" ")
    names = entry.get("names")
    if kind == "container":
        return f"the container {what}"
    if kind == "image":
        return f"the image {names[-1] if isinstance(names, list) and names else what[:19]}"
    if kind == "clone":
        return f"the clone {entry.get('host') or what}, if nobody has worked in it"
    if kind == "parts":
        return f"what was taken out of a bundle: {what}"
    return f"the folder {what}, if it is empty"


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
        for path in parts:
            venv_parts.remove(path)
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
    kind, _, what = str(entry.get("deed")).partition(" ")
    told = ""
    if kind == "folder":
        with contextlib.suppress(OSError):  # not empty: its content is the user's
            Path(what).rmdir()
    elif kind == "parts":
        if Path(what).parent == paths.home() / "bundles":
            shutil.rmtree(what, ignore_errors=True)
    elif kind == "clone":
        told = checkout_undo.undo(folder, entry, [other.get("deed") for other in journal.made(folder)])
    else:
        told = _in_engine(kind, what, entry)
    journal.write(folder, "undo", "undone", deed=entry.get("deed"), said=told)
    return f"{words(entry).partition(', if')[0]}: {told}" if told.startswith("kept") else ""


def _in_engine(kind: str, what: str, entry: Entry) -> str:
    from installers.containers import container
    from installers.images import engine, engine_lock, image, pull_resume

    host = engine.look()
    client = engine.connect(host, REMOVE_S)
    try:
        if kind == "container":
            with engine_lock.held(host.url, what):
                if container.is_strangers(client.api, what):
                    return "kept, since it is another one by now, which envcheck did not make"
                return "removed" if container.remove(client.api, what) else "it is gone already"
        names = entry.get("names")
        known = [str(name) for name in names] if isinstance(names, list) else []
        for digest in (name.partition("@")[2] for name in known if "@" in name):
            pull_resume.forget(client, digest)
        told = image.undo(client, what, known)
        if entry.get("was"):
            image.lead_back(client, str(entry["was"]), known)
        return told
    finally:
        client.close()
