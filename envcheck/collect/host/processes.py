"""Who has a device node open, by the links in /proc/PID/fd; whatever the vendor's tool lists.

processes  {pids: [..], blind: n, holding: [{pid, name, uid, parent, state, age_s, container, nodes: [..]}]}
           blind: so many processes may not be looked into; container: the first twelve digits of its id, or null
"""

import os
import re
import time
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

PIDS_LIMIT, HOLDERS_LIMIT = 32768, 256
BUDGET_S = 2.0  # a host of many thousand processes is looked through only so far; the rest counts as blind
_CONTAINER = re.compile(r"[0-9a-f]{64}")


def processes(vendors: "Iterable[Any]") -> "dict[str, Any]":
    pids = sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit())[:PIDS_LIMIT]
    patterns = [vendor.node_pattern for vendor in vendors if vendor.node_pattern]
    prefixes = tuple(pattern.partition("[")[0] for pattern in patterns)
    holding = []  # type: list[dict[str, Any]]
    began, blind = time.monotonic(), 0
    for pid in pids if any(_there(prefix) for prefix in prefixes) else ():
        nodes = _nodes(pid, prefixes) if time.monotonic() - began < BUDGET_S else None
        blind += nodes is None
        mine = sorted(node for node in nodes or () if any(fnmatch(node, pattern) for pattern in patterns))
        if mine and pid != os.getpid() and len(holding) < HOLDERS_LIMIT:
            holding.append({"pid": pid, "nodes": mine, **_about(pid)})
    return {"pids": pids, "blind": blind, "holding": holding}


def _there(prefix: str) -> bool:
    folder, _, name = prefix.rpartition("/")
    try:
        return any(entry.startswith(name) for entry in os.listdir(folder))
    except OSError:
        return False


def _nodes(pid: int, prefixes: "tuple[str, ...]") -> "set[str] | None":
    """Device nodes that it has open; None where one may not look."""
    folder, found = f"/proc/{pid}/fd", set()
    try:
        descriptors = os.listdir(folder)
    except PermissionError:
        return None
    except OSError:
        return set()  # it ended meanwhile
    for descriptor in descriptors:
        try:
            target = os.readlink(f"{folder}/{descriptor}")
        except OSError:
            continue
        if target.startswith(prefixes):
            found.add(target)
    return found


def _about(pid: int) -> "dict[str, Any]":
    """From /proc/PID/stat: `20817 (python3) S 1 ...`; the name may hold anything, so the last bracket counts."""
    base = Path(f"/proc/{pid}")
    name, _, rest = _text(base / "stat").rpartition(")")
    words, inside = rest.split(), _CONTAINER.search(_text(base / "cgroup"))
    started_s = int(words[19]) / os.sysconf("SC_CLK_TCK") if len(words) > 19 else None
    uptime = _text(Path("/proc/uptime")).split()
    return {
        "name": name.partition("(")[2][:64] or None,
        "uid": base.stat().st_uid if base.exists() else None,
        "parent": int(words[1]) if len(words) > 1 else None,
        "state": words[0] if words else None,
        "age_s": int(float(uptime[0]) - started_s) if started_s is not None and uptime else None,
        "container": inside[0][:12] if inside else None,
    }


def _text(path: "Path") -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
