"""A clone of ours is taken back as we left it; whatever somebody did in it keeps it."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envcheck.core.errors import EnvcheckError
from installers.software import checkouts
from installers.software.checkouts import Git
from installers.targets.target import VenvTarget

# What our own steps leave in a clone: an editable installation's notes, and what Python compiles.
CONFIGURED = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks)"
    r"|remote\.origin\.(url|fetch)|envcheck\.\w+|extensions\.(objectformat|partialclone)"
)
LEFT = re.compile(r"\.egg-info/|(?:^\S\S |/)__pycache__/|\.pyc\"?$")


def on_host(path: str, mounts: Iterable[Mapping[str, Any]]) -> str:
    """Where a path of a container stands on this host by its mounts; "" where it is the container's own.  Pure."""
    found = ""
    for mount in sorted(mounts, key=lambda each: len(str(each.get("Destination")))):
        target, source = str(mount.get("Destination") or ""), str(mount.get("Source") or "")
        inner = posixpath.relpath(path, target) if target.startswith("/") else ".."
        if inner.split("/")[0] != "..":
            found = posixpath.normpath(posixpath.join(source, inner)) if mount.get("Type") == "bind" else ""
    return found


def undo(folder: Path, entry: Mapping[str, object], deeds: Iterable[object]) -> str:
    """What became of it, in words that begin with "kept" where it stays; `deeds` are those not taken back yet."""
    path, boxed = str(entry.get("host") or ""), str(entry.get("boxed") or "")
    if not path:
        return "goes with its container" if f"container {boxed}" in deeds else f"kept, in the container {boxed}"
    place, said = Path(path), entry.get("built")
    if place.is_symlink() or not place.is_dir():
        return "it is gone already" if not place.exists() else "kept, it is no folder of ours any more"
    try:
        built = tuple(map(str, said)) if isinstance(said, list) else ()
        if reason := worked_in(Git(VenvTarget(folder), path), str(entry.get("commit") or ""), built):
            return f"kept, {reason}"
        shutil.rmtree(place)
    except EnvcheckError as err:
        return f"kept, {err.message}"
    except OSError as err:
        return f"kept, {(err.strerror or str(err)).lower()}: rm -r {path}"
    return "removed"


def worked_in(git: Git, commit: str, built: tuple[str, ...] = ()) -> str:
    """Why it is not as we left it, in words; "" when it is.  What cannot be told counts as somebody's work.

    What runs in a container may write into a clone's configuration: one that names anything
    but what we set is not asked further, since it could name commands.
    """
    if reason := _unsafe(git):
        return reason
    if not commit:
        making = git.says("config", "--local", "--get", checkouts.MAKING)
        return "" if making or git.target.names(git.place) == [".git"] else "nobody knows at which commit we left it"
    if git.says("rev-parse", "--verify", "HEAD") != commit:
        return "it is at another commit than we left it at"
    if git.says("for-each-ref", "refs/heads", "refs/stash"):
        return "it has branches or a stash of somebody's"
    told = git.run("status", "--porcelain", "--untracked-files=all", "--ignored=matching")
    if told.status != 0:
        return "git cannot tell whether somebody has worked in it"
    changed = [line[3:] for line in told.out.splitlines() if line.strip() and not _ours(line, built)]
    return f"it has changes of somebody's: {', '.join(changed[:3])}" if changed else ""


def _unsafe(git: Git) -> str:
    inside = Path(git.place) / ".git"
    if inside.is_symlink() or not inside.is_dir() or (inside / "config").is_symlink() or (inside / "modules").exists():
        return "it has submodules, or is no clone of ours any more"
    told = git.run("config", "--file", str(inside / "config"), "--no-includes", "--name-only", "--list")
    strange = [key for key in told.out.splitlines() if not CONFIGURED.fullmatch(key)]
    if told.status != 0:
        return "git cannot read its configuration"
    return f"somebody has set {strange[0]!a} in it" if strange else ""


def _ours(line: str, built: tuple[str, ...]) -> bool:
    path = line[3:]
    inside = any(path == known or (known.endswith("/") and path.startswith(known)) for known in built)
    return line[:2] in ("??", "!!") and (inside or bool(LEFT.search(line)))
