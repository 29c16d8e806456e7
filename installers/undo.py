"""Taking away what envcheck made: only a folder that carries our mark, and says that we made it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from envcheck.errors import UsageError
from installers import environment, lock, mark, steps


def removable(folder: Path) -> str:
    """What would be removed, in words; UsageError when it is not ours to remove.  "" when there is nothing."""
    env = environment.read(folder)
    if env.kind is environment.Kind.ABSENT:
        return ""
    if env.mark and not env.mark.made:
        added = " ".join(env.mark.added)
        raise UsageError(
            f"envcheck did not make {folder}, it only added packages to it",
            f"to take them out: {env.interpreter} -m pip uninstall {added}" if added else "nothing was added",
        )
    if not env.mark:
        raise UsageError(f"{folder} does not carry envcheck's mark", "delete it yourself if it is not needed")
    return f"{folder}: the virtual environment for {env.mark.recipe} with {len(env.packages)} packages"


def undo(folder: Path) -> None:
    """Our notes go last, so that a cut leaves a folder that is still known as ours."""
    with lock.held(folder, lambda text: None):
        ours = mark.load(folder)
        if ours is None or not ours.made:
            raise UsageError(f"{folder} does not carry envcheck's mark")
        mark.save(folder, replace(ours, doing="undo"))
        own = mark.folder_of(folder)
        for path in folder.iterdir():
            if path != own:
                steps.remove(path)
        steps.remove(own)
    with contextlib.suppress(OSError):  # somebody put something there meanwhile
        folder.rmdir()
