"""Permissions: of the device nodes, and of files whose mode drivers and engines check.

caller  {uid, gid, groups, user: name | null, capabilities: hex | null, host_pids: true | false | null}
paths   {paths: {path: {kind, mode, uid, gid, usable, target}}, named: {variable: {path: true | false}}}
        kind is char, file, folder, link (a broken one) or other; usable: this process may read and write it;
        target is the end of a link.  `named`: the paths in environment variables, and whether they exist.
"""

import glob
import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

HOST_PIDS = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel: the initial pid namespace
# Files that loaders and runtimes refuse with a wrong owner or mode.
WATCHED = ("/", "/usr", "/usr/local", "/usr/bin/runc", "/usr/local/bin/runc")
NAMING = ("CONDA_PREFIX", "VIRTUAL_ENV")
LISTING = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")
NODES_LIMIT, ENTRIES_LIMIT = 512, 64
_KINDS = ((stat.S_ISCHR, "char"), (stat.S_ISREG, "file"), (stat.S_ISDIR, "folder"), (stat.S_ISLNK, "link"))


def collect_caller() -> "dict[str, Any]":
    """Return user, groups and capabilities of this process, and whether it is in the host's pid namespace."""
    return {
        "uid": os.geteuid(),
        "gid": os.getegid(),
        "groups": sorted(os.getgroups()),
        "user": _find_user_name(os.geteuid()),
        "capabilities": _read_capabilities(),
        "host_pids": _has_host_pids(),
    }


def collect_paths(vendors: "Sequence[Any]") -> "dict[str, Any]":
    """Return the watched files and device nodes that exist, and the paths in environment variables."""
    watched = (path for vendor in vendors for path in (*vendor.driver_files, *vendor.watched_paths))
    found = {path: _inspect_path(path) for path in (*WATCHED, *watched, *_list_device_nodes(vendors))}
    return {"paths": {path: about for path, about in found.items() if about}, "named": _check_named_paths(vendors)}


def _list_device_nodes(vendors: "Iterable[Any]") -> "Iterator[str]":
    for vendor in vendors:
        if vendor.node_pattern:
            yield from sorted(glob.glob(vendor.node_pattern))[:NODES_LIMIT]
            yield from vendor.control_nodes


def _inspect_path(path: str) -> "dict[str, Any] | None":
    try:
        found = os.stat(path)
    except OSError:
        try:
            found = os.lstat(path)
        except OSError:
            return None
    kind = next((name for test, name in _KINDS if test(found.st_mode)), "other")
    return {
        "kind": kind,
        "mode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "gid": found.st_gid,
        "usable": os.access(path, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids),
        "target": os.path.realpath(path) if Path(path).is_symlink() else None,
    }


def _check_named_paths(vendors: "Iterable[Any]") -> "dict[str, dict[str, bool]]":
    naming = (*NAMING, *(name for vendor in vendors for name in (*vendor.toolkit_variables, *vendor.path_variables)))
    listed_paths = {name: [os.environ[name]] for name in naming if os.environ.get(name)}
    for name in LISTING:
        entries = [part for part in re.split(r"[:\s]+", os.environ.get(name, "")) if part.startswith("/")]
        if entries:
            listed_paths[name] = entries[:ENTRIES_LIMIT]
    return {name: {path: Path(path).exists() for path in listed} for name, listed in listed_paths.items()}


def _find_user_name(uid: int) -> "str | None":
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _read_capabilities() -> "str | None":
    try:
        status = Path("/proc/self/status").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return found[1] if found else None


def _has_host_pids() -> "bool | None":
    try:
        return os.readlink("/proc/self/ns/pid") == HOST_PIDS
    except OSError:
        return None
