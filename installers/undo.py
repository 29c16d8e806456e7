"""Undo a provisioning: remove what the journal lists, in reverse order, and then the environment."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.messages import NOTHING, Message, _, fill, join, mark, ngettext, verbatim
from installers.bundle import offline
from installers.state import environment, journal, lock, state_file, undo_result, venv_parts
from installers.state.journal import Entry
from installers.steps import create_environment
from installers.steps.dispatch import BY_NAME

BY_HAND = _("delete it yourself if it is not needed")
DEEDS = {
    "container": mark("container {name}"),
    "image": mark("image {name}"),
    "clone": mark("clone {name}"),
    "folder": mark("folder {name}"),
    "parts": mark("files unpacked from a bundle: {name}"),
}
CONDITIONS = {
    "clone": mark("{deed} (only if it has no local changes)"),
    "folder": mark("{deed} (only if it is empty)"),
}


def list_removable(folder: Path) -> tuple[Message, ...]:
    """Return messages about what would be removed, () if there is nothing.

    Raises UsageError if envcheck did not create the folder.
    """
    env = environment.read_environment(folder)
    if env.kind is environment.FolderKind.ABSENT:
        return ()
    if env.mark and env.mark.elsewhere:
        raise UsageError(
            _(
                "{folder} was copied, moved or created by another user: its state file names another folder",
                folder=folder,
            ),
            BY_HAND,
        )
    if env.mark and not env.mark.made:
        added = " ".join(env.mark.added)
        raise UsageError(
            _("envcheck did not create {folder}; it only added packages", folder=folder),
            _("to remove them, run `{interpreter} -m pip uninstall {added}`", interpreter=env.interpreter, added=added)
            if added
            else _("envcheck added no packages"),
        )
    if _is_barely_begun(folder):
        return (_("{folder}: lock of a run that was interrupted before its first step", folder=folder),)
    if not env.mark:
        raise UsageError(_("envcheck did not create {folder}: it has no valid state file", folder=folder), BY_HAND)
    outside = tuple(describe_deed(entry) for entry in reversed(journal.list_made(folder)))
    if outside and env.kind is not environment.FolderKind.ENVIRONMENT:
        return (*outside, _("{folder}: records for {recipes}", folder=folder, recipes=env.mark.recipe_names))
    found = ngettext(
        "{folder}: virtual environment for {recipes} with {count} package",
        "{folder}: virtual environment for {recipes} with {count} packages",
        len(env.packages),
        folder=folder,
        recipes=env.mark.recipe_names,
    )
    others = _name_others(folder)
    return (*outside, _("{removed}; not removed: {names}", removed=found, names=others) if others else found)


def _is_barely_begun(folder: Path) -> bool:
    """Return whether a run was interrupted between taking the lock and writing the first state file."""
    own = state_file.state_folder(folder)
    if own.is_symlink() or not own.is_dir() or [path.name for path in folder.iterdir()] != [own.name]:
        return False
    return {path.name for path in own.iterdir()} <= {"lock", "state.json.new"}


def _name_others(folder: Path) -> Message:
    """Return up to three names of other files in the folder, and the number of the rest; "" if there are none."""
    others = venv_parts.list_others(folder)
    names = join(", ", map(ascii, others[:3]))
    return _("{names} and {count} more", names=names, count=len(others) - 3) if len(others) > 3 else names


def describe_deed(entry: Entry) -> Message:
    """Return what would be removed, with the condition if there is one."""
    named, condition = _name_deed(entry), CONDITIONS.get(journal.split_deed(entry)[0])
    return fill(condition, deed=named) if condition else named


def _name_deed(entry: Entry) -> Message:
    kind, which = journal.split_deed(entry)
    names = entry.get("names")
    if kind == "image":
        which = str(names[-1]) if isinstance(names, list) and names else which[:19]
    return fill(DEEDS[kind], name=entry.get("host") or which) if kind in DEEDS else verbatim(f"{kind} {which}")


def undo_provisioning(folder: Path) -> tuple[Message, ...]:
    """Remove everything and return messages about what was kept.

    What is outside of the folder is removed first, each in the journal; envcheck's records are removed last, so that a
    run after an interruption can continue.
    """
    with lock.hold_lock(folder, lambda text: None):
        if _is_barely_begun(folder):
            return _remove_notes(folder)
        ours = state_file.load_state(folder)
        if ours is None or not ours.made:
            raise UsageError(_("envcheck did not create {folder}: it has no valid state file", folder=folder), BY_HAND)
        parts, others = venv_parts.list_own(folder), venv_parts.list_others(folder)
        state_file.save_state(folder, replace(ours, doing="undo" if parts else ours.doing))
        kept = tuple(filter(None, (_undo_entry(folder, entry) for entry in reversed(journal.list_made(folder)))))
        create_environment.undo({}, folder)  # recorded in the state file, not in the journal
        return (
            *kept,
            *(_("{path}: kept, not part of the environment", path=folder / name) for name in others),
            *_remove_notes(folder),
        )


def _remove_notes(folder: Path) -> tuple[Message, ...]:
    """Remove envcheck's records, the state file last, and the folder if it is empty."""
    own, note = state_file.state_folder(folder), state_file.find_note(folder)
    for path in sorted(own.iterdir(), key=lambda path: path.name == "state.json"):
        if path.name != "lock":
            venv_parts.remove_path(path)
    venv_parts.remove_path(own)
    if note:
        note.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other files stay
        folder.rmdir()
    return ()


def _undo_entry(folder: Path, entry: Entry) -> Message:
    """Undo one entry; return a message if something was kept."""
    result = _dispatch_undo(entry, folder)
    journal.write_entry(folder, "undo", "undone", deed=entry.get("deed"), said=result)
    return _("{deed}: {kept}", deed=_name_deed(entry), kept=result) if undo_result.is_kept(result) else NOTHING


def _dispatch_undo(entry: Entry, folder: Path) -> Message:
    step = str(entry.get("step"))
    if step == offline.UNPACKING:  # not a step of a plan: bundles are unpacked before the steps
        return offline.remove_parts(entry)
    if step not in BY_NAME:
        return undo_result.keep(_("another version of envcheck created it"))
    return BY_NAME[step].undo(entry, folder)
