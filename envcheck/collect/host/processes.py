"""Processes with an open device node, from the links in /proc/PID/fd, independent of the vendor tool.

processes  {pids: [..], blind: n, holding: [{pid, name, uid, parent, state, age_s, container, run, nodes: [..]}]}
           blind: the number of processes that may not be inspected; container: the first twelve digits of its id,
           or null; run: the id of the envcheck run that the process belongs to, if its supervisor has ended, or null
"""

import os
import re
import time
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

PIDS_LIMIT, HOLDERS_LIMIT = 32768, 256
DEPTH_LIMIT, MARK = 64, "ENVCHECK_RUN="  # levels of processes; the variable with the folder of a run
BUDGET_S = 2.0  # with many thousand processes the rest is not inspected and counts as blind
_CONTAINER = re.compile(r"[0-9a-f]{64}")


def collect_processes(vendors: "Iterable[Any]") -> "dict[str, Any]":
    """Return all process ids, and the processes with open device nodes."""
    pids = sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit())[:PIDS_LIMIT]
    patterns = [vendor.node_pattern for vendor in vendors if vendor.node_pattern]
    prefixes = tuple(pattern.partition("[")[0] for pattern in patterns)
    holding = []  # type: list[dict[str, Any]]
    began, blind = time.monotonic(), 0
    for pid in pids if any(_has_nodes(prefix) for prefix in prefixes) else ():
        nodes = _list_open_nodes(pid, prefixes) if time.monotonic() - began < BUDGET_S else None
        blind += nodes is None
        mine = sorted(node for node in nodes or () if any(fnmatch(node, pattern) for pattern in patterns))
        if mine and pid != os.getpid() and len(holding) < HOLDERS_LIMIT:
            holding.append({"pid": pid, "nodes": mine, **_describe_process(pid)})
    return {"pids": pids, "blind": blind, "holding": holding}


def _has_nodes(prefix: str) -> bool:
    folder, _, name = prefix.rpartition("/")
    try:
        return any(entry.startswith(name) for entry in os.listdir(folder))
    except OSError:
        return False


def _list_open_nodes(pid: int, prefixes: "tuple[str, ...]") -> "set[str] | None":
    """Return the device nodes that the process has open; None without permission."""
    folder, found = f"/proc/{pid}/fd", set()
    try:
        descriptors = os.listdir(folder)
    except PermissionError:
        return None
    except OSError:
        return set()  # the process has ended
    for descriptor in descriptors:
        try:
            target = os.readlink(f"{folder}/{descriptor}")
        except OSError:
            continue
        if target.startswith(prefixes):
            found.add(target)
    return found


def _describe_process(pid: int) -> "dict[str, Any]":
    """Return data from /proc/PID/stat: `20817 (python3) S 1 ...`; the name may contain brackets, so the last one
    counts."""
    base = Path(f"/proc/{pid}")
    name, _, rest = _read_text(base / "stat").rpartition(")")
    words, inside = rest.split(), _CONTAINER.search(_read_text(base / "cgroup"))
    started_s = int(words[19]) / os.sysconf("SC_CLK_TCK") if len(words) > 19 else None
    uptime = _read_text(Path("/proc/uptime")).split()
    return {
        "name": name.partition("(")[2][:64] or None,
        "uid": base.stat().st_uid if base.exists() else None,
        "parent": int(words[1]) if len(words) > 1 else None,
        "state": words[0] if words else None,
        "age_s": int(float(uptime[0]) - started_s) if started_s is not None and uptime else None,
        "container": inside[0][:12] if inside else None,
        "run": _find_orphaned_run(pid),
    }


def _find_orphaned_run(pid: int) -> "str | None":
    """Return the id of the process's run if the process above all of the run's is not its supervisor."""
    mark = _read_run_mark(pid)
    if not mark:
        return None
    for _unused in range(DEPTH_LIMIT):
        words = _read_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
        pid = int(words[1]) if len(words) > 1 else 0
        if _read_run_mark(pid) != mark:
            is_supervised = "envcheck" in _read_text(Path(f"/proc/{pid}/cmdline"))
            return None if is_supervised else os.path.basename(mark)[:200]
    return None


def _read_run_mark(pid: int) -> str:
    entries = _read_text(Path(f"/proc/{pid}/environ")).split("\0") if pid > 0 else []
    return next((entry[len(MARK) :] for entry in entries if entry.startswith(MARK)), "")


def _read_text(path: "Path") -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
