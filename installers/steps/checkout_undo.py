"""Undo a clone: it is removed only if it has no local changes."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envcheck.core.errors import EnvcheckError, describe_os_error
from envcheck.core.messages import NOTHING, Message, _, join
from installers.software import checkouts
from installers.software.checkouts import GitRunner
from installers.state import undo_result
from installers.targets.target import VenvTarget

# What envcheck's own steps leave in a clone: git configuration, metadata of an editable installation, bytecode.
CONFIGURED = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks)"
    r"|remote\.origin\.(url|fetch)|envcheck\.\w+|extensions\.(objectformat|partialclone)"
)
LEFT = re.compile(r"\.egg-info/|(?:^\S\S |/)__pycache__/|\.pyc\"?$")


def find_host_path(path: str, mounts: Iterable[Mapping[str, Any]]) -> str:
    """Return the path on this host of a path in a container; "" if it is not in a bind mount.  Pure."""
    found = ""
    for mount in sorted(mounts, key=lambda each: len(str(each.get("Destination")))):
        target, source = str(mount.get("Destination") or ""), str(mount.get("Source") or "")
        inner = posixpath.relpath(path, target) if target.startswith("/") else ".."
        if inner.split("/")[0] != "..":
            found = posixpath.normpath(posixpath.join(source, inner)) if mount.get("Type") == "bind" else ""
    return found


def undo_clone(folder: Path, entry: Mapping[str, object], deeds: Iterable[object]) -> Message:
    """Remove the clone and return the result (`undo_result.keep` if it stays); `deeds` are those not undone yet."""
    path, boxed = str(entry.get("host") or ""), str(entry.get("container") or "")
    if not path:
        return (
            _("removed with its container")
            if f"container {boxed}" in deeds
            else undo_result.keep(_("it is in container {container}", container=boxed))
        )
    place, recorded = Path(path), entry.get("built")
    if place.is_symlink() or not place.is_dir():
        if not place.exists():
            return _("already removed")
        return undo_result.keep(_("it is no longer the folder that envcheck created"))
    try:
        built = tuple(map(str, recorded)) if isinstance(recorded, list) else ()
        if reason := explain_changes(GitRunner(VenvTarget(folder), path), str(entry.get("commit") or ""), built):
            return undo_result.keep(reason)
        shutil.rmtree(place)
    except EnvcheckError as err:
        return undo_result.keep(err.message)
    except OSError as err:
        return undo_result.keep(_("{reason}; remove it with `rm -r {path}`", reason=describe_os_error(err), path=path))
    return _("removed")


def explain_changes(git: GitRunner, commit: str, built: tuple[str, ...] = ()) -> Message:
    """Return why the clone must be kept; "" if it is as envcheck left it.  Doubt counts as a local change.

    Programs in a container can write to the clone's git configuration.  If that sets anything unexpected, git is not
    run in the clone, because the configuration can name commands to run.
    """
    if reason := _explain_unsafe(git):
        return reason
    if not commit:
        making = git.read_output("config", "--local", "--get", checkouts.MAKING)
        return (
            NOTHING
            if making or git.target.list_folder(git.place) == [".git"]
            else _("cannot determine which commit envcheck checked out")
        )
    if git.read_output("rev-parse", "--verify", "HEAD") != commit:
        return _("its HEAD is not the commit that envcheck checked out")
    if git.read_output("for-each-ref", "refs/heads", "refs/stash"):
        return _("it has local branches or a stash")
    done = git.run_git("status", "--porcelain", "--untracked-files=all", "--ignored=matching")
    if done.status != 0:
        return _("git cannot determine whether it has local changes")
    changed = [line[3:] for line in done.out.splitlines() if line.strip() and not _is_ours(line, built)]
    return _("it has local changes: {changed}", changed=join(", ", changed[:3])) if changed else NOTHING


def _explain_unsafe(git: GitRunner) -> Message:
    inside = Path(git.place) / ".git"
    if inside.is_symlink() or not inside.is_dir() or (inside / "config").is_symlink() or (inside / "modules").exists():
        return _("it has submodules, or is no longer the clone that envcheck created")
    done = git.run_git("config", "--file", str(inside / "config"), "--no-includes", "--name-only", "--list")
    unexpected = [key for key in done.out.splitlines() if not CONFIGURED.fullmatch(key)]
    if done.status != 0:
        return _("git cannot read its configuration")
    return _("its git configuration sets {key!a}", key=unexpected[0]) if unexpected else NOTHING


def _is_ours(line: str, built: tuple[str, ...]) -> bool:
    path = line[3:]
    inside = any(path == known or (known.endswith("/") and path.startswith(known)) for known in built)
    return line[:2] in ("??", "!!") and (inside or bool(LEFT.search(line)))
