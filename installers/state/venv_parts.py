"""Tell the parts of a virtual environment from other files of the user in the same folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from installers.state import state_file

NAMES = ("bin", "include", "lib", "lib64", "share", "pyvenv.cfg")  # pyvenv.cfg, which identifies it, is removed last


def list_own(folder: Path) -> list[Path]:
    """Return the paths of the environment.

    Without pyvenv.cfg, bin and lib belong to the user, unless envcheck was interrupted while it removed them.
    """
    ours = state_file.load_state(folder)
    cut = ours is not None and ours.made and ours.doing in state_file.EMPTYING
    if not cut and not (folder / "pyvenv.cfg").is_file():
        return []
    named = [folder / name for name in NAMES if _is_there(folder / name)]
    return [path for path in (folder / ".gitignore",) if _is_venv_gitignore(path)] + named


def remove_path(path: Path) -> None:
    """Remove a file or folder; a symbolic link is removed, not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def list_others(folder: Path) -> list[str]:
    """Return the sorted names of everything that belongs neither to the environment nor to envcheck."""
    known = {path.name for path in list_own(folder)} | {state_file.state_folder(folder).name}
    return sorted(path.name for path in folder.iterdir() if path.name not in known)


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _is_venv_gitignore(path: Path) -> bool:
    """Return whether this is the .gitignore that Python 3.13 and newer, uv and virtualenv write."""
    try:
        text = "" if path.is_symlink() else path.read_text("utf-8", "replace")[:200]
    except OSError:
        return False
    return text.strip() == "*" or text.startswith(("# Created by venv", "# created by virtualenv"))
