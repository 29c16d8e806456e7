"""Inspect the place where a training will run: files, models, ports, memory and disks.

On this host `probe_place` is called directly.  In a container the module runs under the container's Python (3.8 or
newer) with the modules bundled by launch.programs.inline_program, and prints its result as JSON.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.core.messages import describe, mark
from launch.programs import data_probe, weight_values

GROUPS = (  # memory limit, usage, statistics and name of the reclaimable part: cgroup 2, then cgroup 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file",
    ),
)
CONFIG_LIMIT, COMMIT = 1 << 20, 40
OF_SYSTEM = ("/usr/", "/opt/", "/etc/")  # on a simulated machine, files below these are the machine's
PORT_RANGE, SOCKETS = "/proc/sys/net/ipv4/ip_local_port_range", ("/proc/self/net/tcp", "/proc/self/net/tcp6")


def file_size_bytes(path: Path) -> int | None:
    """Return the size in bytes; 1 for a folder (0 if empty); None if missing or unreadable."""
    try:
        if path.is_dir():
            return int(any(True for _ in path.iterdir()))
        return path.stat().st_size if os.access(str(path), os.R_OK) else None
    except OSError:
        return None


def measure_disk(folder: Path) -> tuple[int | None, int | None]:
    """Return (total, free) bytes of the file system of the folder or its closest existing parent; None if unknown."""
    there = next((place for place in (folder, *folder.parents) if place.is_dir()), Path("/"))
    try:
        found = os.statvfs(str(there))
    except OSError:
        return None, None
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def measure_shared_memory() -> tuple[int | None, int | None]:
    """Return (total, free) bytes of /dev/shm; None if it does not exist."""
    return measure_disk(Path("/dev/shm")) if Path("/dev/shm").is_dir() else (None, None)


def memory_left_bytes() -> int | None:
    """Return the bytes left below the memory limit of this control group; None without a limit."""
    for limit, used, details, name in GROUPS:
        try:
            most = int(Path(limit).read_text())
            rows = dict(row.split() for row in Path(details).read_text().splitlines())
            return max(0, most - int(Path(used).read_text()) + int(rows.get(name, 0))) if most < 1 << 60 else None
        except (OSError, ValueError):
            continue
    return None


def list_run_marks() -> dict[int, str]:
    """Map the pids of all readable processes of runs to their $ENVCHECK_RUN."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            entries = (place / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        found.update(
            {int(place.name): e[13:].decode("utf-8", "replace") for e in entries if e[:13] == b"ENVCHECK_RUN="}
        )
    return found


def port_error(port: int) -> str | None:
    """Return the error when binding the TCP port, None if it is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OverflowError:
            return mark("no such port")
        except OSError as err:
            return (err.strerror or str(err)).lower()
    return None


def count_kernel_ports() -> tuple[int, int] | None:
    """Return (free, total) numbers of ephemeral ports; None if the kernel's tables cannot be read."""
    try:
        first, last = (int(text) for text in Path(PORT_RANGE).read_text().split())
        texts = [Path(place).read_text() for place in SOCKETS if Path(place).exists()]
        rows = [row.split() for text in texts for row in text.splitlines()]
        held = {int(row[1].rpartition(":")[2], 16) for row in rows if row[0] != "sl"}
    except (OSError, ValueError, IndexError):
        return None
    return sum(port not in held for port in range(first, last + 1)), max(0, last - first + 1)


def check_model_folder(folder: Path) -> dict[str, Any]:
    """Check headers and index of the weights; return shards, size_bytes, flaws and the values of config.json."""
    from installers.bundle import weights

    checked = weights.check_weights(folder, within=Path("/"))  # a hub's cache consists of links to other folders
    flaws = [{**add_templates({"what": str(f), "next": f.next_step}), "sure": f.sure} for f in checked.flaws]
    return {"shards": checked.shards, "size_bytes": checked.size_bytes, "flaws": flaws, "config": read_config(folder)}


def check_checkpoint_folder(folder: Path) -> dict[str, Any]:
    """Check a checkpoint to resume from; return files, size_bytes, sampled and flaws."""
    from launch.programs import checkpoint_check

    checked = checkpoint_check.check_checkpoint(folder)
    flaws = [{**add_templates({"what": str(f), "next": f.next_step}), "sure": f.sure} for f in checked.flaws]
    return {"files": checked.files, "size_bytes": checked.size_bytes, "flaws": flaws}


def add_templates(texts: Mapping[str, str]) -> dict[str, Any]:
    """Add NAME_message with the template and values of each text: JSON keeps only the English text of a message."""
    described = {f"{name}_message": describe(text) for name, text in texts.items()}
    return {**{name: str(text) for name, text in texts.items()}, **described}


def _probe_values(folder: Path) -> dict[str, str]:
    flaw = weight_values.find_value_flaw(folder)
    return {"flaw": flaw} if flaw else {}


def read_config(folder: Path) -> dict[str, Any]:
    """Return the values of config.json, {} if it is missing or invalid."""
    try:
        with (folder / "config.json").open("rb") as file:
            said = json.loads(file.read(CONFIG_LIMIT).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def read_commit(folder: Path) -> str:
    """Return the checked-out commit of a git clone, "" if unknown; git itself is not run."""
    try:
        head = (folder / ".git" / "HEAD").read_text().strip()
        if head.startswith("ref: "):
            head = (folder / ".git" / head[5:]).read_text().strip()
    except OSError:
        return ""
    return head if len(head) == COMMIT else ""


def probe_place(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that `asked` requests, as JSON values.

    `asked` has workdir, runs and paths, and optionally lists of data, models, ports, clones and names (of data sets in
    the file `registry`); see launch.targets.stage.StageQuestion.  `system_root` is the folder with the system's files
    of a simulated machine.
    """
    workdir, system_root = Path(asked["workdir"]), asked.get("system_root") or ""

    def at(path: str) -> Path:
        if system_root and path.startswith(OF_SYSTEM):
            return Path(system_root) / path.lstrip("/")
        return workdir / Path(path).expanduser()

    def size(path: str) -> int | None:
        found = file_size_bytes(at(path))
        simulated = system_root and path.startswith(OF_SYSTEM)
        return 1 if found == 0 and simulated else found  # a simulated machine's libraries have no contents

    registry: str = asked.get("registry") or ""
    names: list[str] = asked.get("names") or []
    sets = data_probe.resolve_set_files(at(registry), names) if registry and names else {}
    files = [*asked.get("data", ()), *(path for path in sets.values() if path not in ("", "hub"))]
    total, left = measure_shared_memory()
    return {
        "sizes": {path: size(path) for path in [*asked["paths"], *files]},
        "free_bytes": measure_disk(Path(asked["runs"]))[1],
        "marks": list_run_marks(),
        "environment": dict(os.environ),
        "shm_bytes": total,
        "shm_free_bytes": left,
        "memory_bytes": memory_left_bytes(),
        "ports": {str(port): port_error(port) for port in asked.get("ports", ())},
        "kernel_ports": count_kernel_ports(),
        "data": {path: add_templates(data_probe.probe_file(at(path))) for path in files},
        "sets": sets,
        "models": {path: check_model_folder(at(path)) for path in asked.get("models", ()) if file_size_bytes(at(path))},
        "checkpoints": {path: check_checkpoint_folder(at(path)) for path in asked.get("checkpoints", ())},
        "values": {path: add_templates(_probe_values(at(path))) for path in asked.get("weights", ())},
        "commits": {path: read_commit(at(path)) for path in asked.get("clones", ())},
    }


def main() -> None:
    """Print the answer to the question in the first argument (JSON)."""
    print("ENVCHECK " + json.dumps(probe_place(json.loads(sys.argv[1]))))
