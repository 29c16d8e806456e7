"""What of a folder is the virtual environment that `python -m venv` makes there: the rest is the user's."""

from __future__ import annotations

import shutil
from pathlib import Path

from installers.state import state_file

NAMES = ("bin", "include", "lib", "lib64", "share", "pyvenv.cfg")  # the last one goes last: it tells what this is


def own(folder: Path) -> list[Path]:
    """The environment's entries.  A bin and a lib without pyvenv.cfg are somebody's, unless we were just at it."""
    ours = state_file.load(folder)
    cut = ours is not None and ours.made and ours.doing in state_file.EMPTYING
    if not cut and not (folder / "pyvenv.cfg").is_file():
        return []
    named = [folder / name for name in NAMES if _there(folder / name)]
    return [path for path in (folder / ".gitignore",) if _venvs(path)] + named


def remove(path: Path) -> None:
    """A link is removed, never followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def others(folder: Path) -> list[str]:
    """Names of what is neither the environment's nor our own, sorted."""
    known = {path.name for path in own(folder)} | {state_file.folder_of(folder).name}
    return sorted(path.name for path in folder.iterdir() if path.name not in known)


def _there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _venvs(path: Path) -> bool:
    """Python 3.13 and newer write one, uv and virtualenv as well."""
    try:
        text = "" if path.is_symlink() else path.read_text("utf-8", "replace")[:200]
    except OSError:
        return False
    return text.strip() == "*" or text.startswith(("# Created by venv", "# created by virtualenv"))
