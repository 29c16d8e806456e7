"""What a training would find at its place, as one JSON document.

In a container it runs under the container's Python, 3.8 or newer, with the modules of ours that it names (see
launch.programs.carried); on this host it is called.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from launch.programs import data_probe

GROUPS = (  # limit, use, and what of the use the kernel gives back when it is asked; of cgroup 2, then of 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file",
    ),
)
CONFIG_LIMIT, COMMIT = 1 << 20, 40
PORT_RANGE, SOCKETS = "/proc/sys/net/ipv4/ip_local_port_range", ("/proc/self/net/tcp", "/proc/self/net/tcp6")


def size(path: Path) -> int | None:
    """Bytes; a folder counts as 1, or 0 when it is empty; None where it is not there or cannot be read."""
    try:
        if path.is_dir():
            return int(any(True for _ in path.iterdir()))
        return path.stat().st_size if os.access(str(path), os.R_OK) else None
    except OSError:
        return None


def room(folder: Path) -> tuple[int | None, int | None]:
    """Bytes in all and free where the folder is, or would be made."""
    there = next((place for place in (folder, *folder.parents) if place.is_dir()), Path("/"))
    try:
        found = os.statvfs(str(there))
    except OSError:
        return None, None
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def shared() -> tuple[int | None, int | None]:
    return room(Path("/dev/shm")) if Path("/dev/shm").is_dir() else (None, None)


def memory_left() -> int | None:
    """Bytes that the limit of this group of processes leaves; None where there is no limit."""
    for limit, used, details, name in GROUPS:
        try:
            most = int(Path(limit).read_text())
            rows = dict(row.split() for row in Path(details).read_text().splitlines())
            return max(0, most - int(Path(used).read_text()) + int(rows.get(name, 0))) if most < 1 << 60 else None
        except (OSError, ValueError):
            continue
    return None


def marks() -> dict[int, str]:
    """The runs whose processes live here: what $ENVCHECK_RUN says in each."""
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
    """Why nobody could listen there, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OverflowError:
            return "no such port"
        except OSError as err:
            return (err.strerror or str(err)).lower()
    return None


def kernel_ports() -> tuple[int, int] | None:
    """How many of the ports that the kernel hands out by itself no socket holds, and how many there are; None where
    that cannot be read."""
    try:
        first, last = (int(text) for text in Path(PORT_RANGE).read_text().split())
        texts = [Path(place).read_text() for place in SOCKETS if Path(place).exists()]
        rows = [row.split() for text in texts for row in text.splitlines()]
        held = {int(row[1].rpartition(":")[2], 16) for row in rows if row[0] != "sl"}
    except (OSError, ValueError, IndexError):
        return None
    return sum(port not in held for port in range(first, last + 1)), max(0, last - first + 1)


def model(folder: Path) -> dict[str, Any]:
    """Every shard by its header and the index; config.json's own values."""
    from installers.bundle import weights

    checked = weights.check(folder, within=Path("/"))  # links may lead anywhere: a hub's cache is made of them
    flaws = [{"what": str(f), "next": f.next_step, "sure": f.sure} for f in checked.flaws]
    return {"shards": checked.shards, "size_bytes": checked.size_bytes, "flaws": flaws, "config": config(folder)}


def config(folder: Path) -> dict[str, Any]:
    try:
        with (folder / "config.json").open("rb") as file:
            said = json.loads(file.read(CONFIG_LIMIT).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def commit(folder: Path) -> str:
    """The commit that a clone stands on; "" where nobody can tell.  Nothing of git is run."""
    try:
        head = (folder / ".git" / "HEAD").read_text().strip()
        if head.startswith("ref: "):
            head = (folder / ".git" / head[5:]).read_text().strip()
    except OSError:
        return ""
    return head if len(head) == COMMIT else ""


def look(asked: dict[str, Any]) -> dict[str, Any]:
    """`asked`: workdir, runs, and lists of paths, data, models, ports, names (of sets, in the file `registry`) and
    clones; what is not asked for is not looked at."""
    workdir = Path(asked["workdir"])

    def at(path: str) -> Path:
        return workdir / Path(path).expanduser()

    registry: str = asked.get("registry") or ""
    names: list[str] = asked.get("names") or []
    sets = data_probe.named(at(registry), names) if registry and names else {}
    files = [*asked.get("data", ()), *(path for path in sets.values() if path not in ("", "hub"))]
    total, left = shared()
    return {
        "sizes": {path: size(at(path)) for path in [*asked["paths"], *files]},
        "free_bytes": room(Path(asked["runs"]))[1],
        "marks": marks(),
        "environment": dict(os.environ),
        "shm_bytes": total,
        "shm_free_bytes": left,
        "memory_bytes": memory_left(),
        "ports": {str(port): port_error(port) for port in asked.get("ports", ())},
        "kernel_ports": kernel_ports(),
        "data": {path: data_probe.look(at(path)) for path in files},
        "sets": sets,
        "models": {path: model(at(path)) for path in asked.get("models", ()) if size(at(path))},
        "commits": {path: commit(at(path)) for path in asked.get("clones", ())},
    }


def main() -> None:
    print("ENVCHECK " + json.dumps(look(json.loads(sys.argv[1]))))
