"""The agent's part for hosts with RDMA devices; sent ahead of agent.py, and for Python 3.8 too.

A listening tool ends on request, when the connection ends, and in any case after its time limit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

SYS = Path("/sys/class/infiniband")
VARIABLES = ("NCCL_IB_HCA", "FLAGCX_IB_HCA", "NCCL_IB_GID_INDEX")
DEVICES, PORTS, GIDS, TEXT = 64, 8, 16, 1 << 14
FIRST, LAST = 18515, 18899  # perftest's default port and up; below the system's ephemeral ports
READY_S, CM_S = 5.0, 1.0
LISTENS, HALF_OPEN = "0A", "03"  # include/net/tcp_states.h
held: dict[str, dict[str, Any]] = {}


def describe_rdma(tools: list[str]) -> dict[str, Any]:
    """Return the installed tools, the relevant variables, and each port with state, rate and addresses (GIDs)."""
    ports = [port for device in _list_folder(SYS, DEVICES) for port in _list_folder(device / "ports", PORTS)]
    return {
        "tools": [name for name in tools if shutil.which(name)],
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "ports": [_describe_port(port) for port in ports],
    }


def _list_folder(folder: Path, most: int) -> list[Path]:
    try:
        return sorted(folder.iterdir())[:most]
    except OSError:
        return []


def _describe_port(port: Path) -> dict[str, Any]:
    gids = {
        n: [_read_value(port / "gid_attrs" / "types" / str(n)), _read_value(port / "gids" / str(n))]
        for n in range(GIDS)
    }
    return {
        "device": port.parent.parent.name,
        "kind": _read_value(port.parent.parent / "node_type").rpartition(":")[2].strip(),
        "port": int(port.name),
        "state": _read_value(port / "state").rpartition(":")[2].strip(),
        "layer": _read_value(port / "link_layer"),
        "rate": _read_value(port / "rate"),
        "gids": {n: both for n, both in gids.items() if both[1].strip("0:")},
    }


def _read_value(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(100).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def start_listeners(asked: list[Any], seconds: float) -> dict[str, Any]:
    """Start listeners [key, argv, whether it listens by TCP]; return the port used for PORT in argv, 0 if it ended.

    Returns when all listen.  This is read from /proc: a connection to find out would be taken for the client.
    """
    free = iter(range(FIRST, LAST))
    ports = {}
    for key, argv, _ in asked:
        ports[key] = next((port for port in free if _is_port_free(port)), 0)
        held[key] = _start_process([str(ports[key]) if word == "PORT" else word for word in argv], seconds)
        held[key]["port"] = ports[key]
    waited = [key for key, _, by_tcp in asked if by_tcp]
    end = time.monotonic() + (READY_S if waited else CM_S)
    while time.monotonic() < end:
        heard = _list_listening_ports()
        if waited and all(ports[key] in heard or _has_ended(held[key]) for key in waited):
            break
        time.sleep(0.05)
    return {key: 0 if _has_ended(held[key]) else port for key, port in ports.items()}


def _is_port_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("", port))
        except OSError:
            return False
    return True


def _list_listening_ports() -> set[int]:
    return {port for port, state in _list_sockets() if state == LISTENS}


def _list_sockets() -> list[tuple[int, str]]:
    """Parse lines like `0: 00000000:4853 00000000:0000 0A ...`: local address and port, the peer's, the state."""
    found = []
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = [line.split() for line in Path(path).read_text().splitlines()]
        except OSError:
            continue
        found += [(int(row[1].rpartition(":")[2], 16), row[3]) for row in rows[1:] if len(row) > 3]
    return found


def run_clients(asked: list[Any], seconds: float) -> dict[str, Any]:
    """Run clients [key, argv] in parallel; return each tool's status (None if unfinished) and output."""
    begun = {key: _start_process(argv, seconds) for key, argv in asked}
    return _collect_results(begun, time.monotonic() + seconds)


def collect_listeners(seconds: float) -> dict[str, Any]:
    """Return the listeners' output and whether a client connected; then none listens any more.

    A client that was killed leaves its socket open here: only the tool can close it, and ends with it.
    """
    came = {port for port, state in _list_sockets() if state not in (LISTENS, HALF_OPEN)}
    met = {key: one["port"] in came for key, one in held.items()}
    results = _collect_results(held, time.monotonic() + seconds)
    return {key: [code, text, code is not None or met[key]] for key, (code, text) in results.items()}


def _collect_results(begun: dict[str, dict[str, Any]], end: float) -> dict[str, Any]:
    while time.monotonic() < end and not all(_has_ended(one) for one in begun.values()):
        time.sleep(0.02)
    codes = {key: one["process"].poll() if one["process"] else 127 for key, one in begun.items()}
    _kill_processes(begun)
    return {key: [codes[key], bytes(begun.pop(key)["text"]).decode("utf-8", "replace")] for key in codes}


def _start_process(argv: list[str], seconds: float) -> dict[str, Any]:
    """Start in a process group of its own and under `timeout`, which outlives this program."""
    bound = ["timeout", "-s", "KILL", str(int(seconds) + 5)] if shutil.which("timeout") else []
    one: dict[str, Any] = {"process": None, "text": bytearray(), "reader": None}
    try:
        one["process"] = subprocess.Popen(
            bound + argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except OSError as err:
        one["text"] += str(err).encode()
        return one
    one["reader"] = threading.Thread(target=_read_output, args=(one,), daemon=True)
    one["reader"].start()
    return one


def _read_output(one: dict[str, Any]) -> None:
    """Read the end of its output."""
    for data in iter(lambda: os.read(one["process"].stdout.fileno(), 1 << 12), b""):
        one["text"] += data
        del one["text"][:-TEXT]


def _has_ended(one: dict[str, Any]) -> bool:
    return one["process"] is None or one["process"].poll() is not None


def _kill_processes(begun: dict[str, dict[str, Any]]) -> None:
    for one in begun.values():
        if one["process"] is None:
            continue
        with contextlib.suppress(OSError):
            os.killpg(one["process"].pid, signal.SIGKILL)
        one["process"].wait()
        one["reader"].join(1)


def leave() -> None:
    """End all listeners."""
    _kill_processes(held)


MORE = {"rdma": describe_rdma, "serve": start_listeners, "call": run_clients, "served": collect_listeners}
