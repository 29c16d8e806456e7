"""Who may open what: the device nodes, and files that the drivers and engines are particular about.

caller  {uid, gid, groups, user: name | null, capabilities: hex | null, host_pids: true | false | null}
paths   {paths: {path: {kind, mode, uid, gid, usable, target}}, named: {variable: {path: true | false}}}
        kind is char, file, folder, link (that leads nowhere) or other; usable: this process may read and write it;
        target is where a link leads.  `named`: the paths that variables of the environment name, and whether they are.
"""

import glob
import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

HOST_PIDS = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel: the first namespace of process ids
# Files that one is given by mounting, or that loaders and runtimes refuse with a wrong owner or mode.
WATCHED = ("/", "/usr", "/usr/local", "/usr/bin/runc", "/usr/local/bin/runc")
NAMING = ("CONDA_PREFIX", "VIRTUAL_ENV")
LISTING = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")
NODES_LIMIT, ENTRIES_LIMIT = 512, 64
_KINDS = ((stat.S_ISCHR, "char"), (stat.S_ISREG, "file"), (stat.S_ISDIR, "folder"), (stat.S_ISLNK, "link"))


def caller() -> "dict[str, Any]":
    return {
        "uid": os.geteuid(),
        "gid": os.getegid(),
        "groups": sorted(os.getgroups()),
        "user": _user(os.geteuid()),
        "capabilities": _capabilities(),
        "host_pids": _host_pids(),
    }


def paths(vendors: "Sequence[Any]") -> "dict[str, Any]":
    watched = (path for vendor in vendors for path in (*vendor.driver_files, *vendor.watched_paths))
    found = {path: _look(path) for path in (*WATCHED, *watched, *_nodes(vendors))}
    return {"paths": {path: told for path, told in found.items() if told}, "named": _named(vendors)}


def _nodes(vendors: "Iterable[Any]") -> "Iterator[str]":
    for vendor in vendors:
        if vendor.node_pattern:
            yield from sorted(glob.glob(vendor.node_pattern))[:NODES_LIMIT]
            yield from vendor.control_nodes


def _look(path: str) -> "dict[str, Any] | None":
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


def _named(vendors: "Iterable[Any]") -> "dict[str, dict[str, bool]]":
    naming = (*NAMING, *(name for vendor in vendors for name in (*vendor.toolkit_variables, *vendor.path_variables)))
    said = {name: [os.environ[name]] for name in naming if os.environ.get(name)}
    for name in LISTING:
        entries = [part for part in re.split(r"[:\s]+", os.environ.get(name, "")) if part.startswith("/")]
        if entries:
            said[name] = entries[:ENTRIES_LIMIT]
    return {name: {path: Path(path).exists() for path in listed} for name, listed in said.items()}


def _user(uid: int) -> "str | None":
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _capabilities() -> "str | None":
    try:
        status = Path("/proc/self/status").read_text(errors="replace")
    except OSError:
        return None
    said = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return said[1] if said else None


def _host_pids() -> "bool | None":
    try:
        return os.readlink("/proc/self/ns/pid") == HOST_PIDS
    except OSError:
        return None
