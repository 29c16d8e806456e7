"""What agent.py can do besides on a host with RDMA devices: its text travels before that one's, for Python 3.8 too.

A tool that listens here ends when it is asked for, when the connection ends, and after its time whatever happens.
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
FIRST, LAST = 18515, 18899  # perftest's own port and the next: below those that the system gives to others
READY_S, CM_S = 5.0, 1.0
LISTENS, HALF_OPEN = "0A", "03"  # include/net/tcp_states.h
held: dict[str, dict[str, Any]] = {}


def rdma(tools: list[str]) -> dict[str, Any]:
    """Which of the tools are here, what variables say, and each port: its state, rate and addresses (GIDs)."""
    ports = [port for device in _inside(SYS, DEVICES) for port in _inside(device / "ports", PORTS)]
    return {
        "tools": [name for name in tools if shutil.which(name)],
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "ports": [_port(port) for port in ports],
    }


def _inside(folder: Path, most: int) -> list[Path]:
    try:
        return sorted(folder.iterdir())[:most]
    except OSError:
        return []


def _port(port: Path) -> dict[str, Any]:
    gids = {n: [_word(port / "gid_attrs" / "types" / str(n)), _word(port / "gids" / str(n))] for n in range(GIDS)}
    return {
        "device": port.parent.parent.name,
        "kind": _word(port.parent.parent / "node_type").rpartition(":")[2].strip(),
        "port": int(port.name),
        "state": _word(port / "state").rpartition(":")[2].strip(),
        "layer": _word(port / "link_layer"),
        "rate": _word(port / "rate"),
        "gids": {n: both for n, both in gids.items() if both[1].strip("0:")},
    }


def _word(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(100).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def serve(asked: list[Any], seconds: float) -> dict[str, Any]:
    """[key, argv, whether it listens by TCP] each → the port that stands in argv for PORT now, 0 for one that ended.

    Told when all listen.  Whoever connected to find out would be taken for the client.
    """
    free = iter(range(FIRST, LAST))
    ports = {}
    for key, argv, _ in asked:
        ports[key] = next((port for port in free if _free(port)), 0)
        held[key] = _begun([str(ports[key]) if word == "PORT" else word for word in argv], seconds)
        held[key]["port"] = ports[key]
    waited = [key for key, _, by_tcp in asked if by_tcp]
    end = time.monotonic() + (READY_S if waited else CM_S)
    while time.monotonic() < end:
        heard = _heard()
        if waited and all(ports[key] in heard or _ended(held[key]) for key in waited):
            break
        time.sleep(0.05)
    return {key: 0 if _ended(held[key]) else port for key, port in ports.items()}


def _free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("", port))
        except OSError:
            return False
    return True


def _heard() -> set[int]:
    return {port for port, state in _sockets() if state == LISTENS}


def _sockets() -> list[tuple[int, str]]:
    """`0: 00000000:4853 00000000:0000 0A ...`: the own address and port, the other's, the state."""
    found = []
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = [line.split() for line in Path(path).read_text().splitlines()]
        except OSError:
            continue
        found += [(int(row[1].rpartition(":")[2], 16), row[3]) for row in rows[1:] if len(row) > 3]
    return found


def call(asked: list[Any], seconds: float) -> dict[str, Any]:
    """[key, argv] each, all at once → the tool's status, none for one that was not done, and its words."""
    begun = {key: _begun(argv, seconds) for key, argv in asked}
    return _told(begun, time.monotonic() + seconds)


def served(seconds: float) -> dict[str, Any]:
    """What those that listened have said, and whether anybody came to their ports; nobody listens any more.

    Whoever came and was killed has left its socket here: only the tool itself could close that, and ends with it.
    """
    came = {port for port, state in _sockets() if state not in (LISTENS, HALF_OPEN)}
    met = {key: one["port"] in came for key, one in held.items()}
    told = _told(held, time.monotonic() + seconds)
    return {key: [code, text, code is not None or met[key]] for key, (code, text) in told.items()}


def _told(begun: dict[str, dict[str, Any]], end: float) -> dict[str, Any]:
    while time.monotonic() < end and not all(_ended(one) for one in begun.values()):
        time.sleep(0.02)
    codes = {key: one["process"].poll() if one["process"] else 127 for key, one in begun.items()}
    _killed(begun)
    return {key: [codes[key], bytes(begun.pop(key)["text"]).decode("utf-8", "replace")] for key in codes}


def _begun(argv: list[str], seconds: float) -> dict[str, Any]:
    """In a group of its own, and under `timeout`, which outlives this program."""
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
    one["reader"] = threading.Thread(target=_read, args=(one,), daemon=True)
    one["reader"].start()
    return one


def _read(one: dict[str, Any]) -> None:
    """Its last words."""
    for data in iter(lambda: os.read(one["process"].stdout.fileno(), 1 << 12), b""):
        one["text"] += data
        del one["text"][:-TEXT]


def _ended(one: dict[str, Any]) -> bool:
    return one["process"] is None or one["process"].poll() is not None


def _killed(begun: dict[str, dict[str, Any]]) -> None:
    for one in begun.values():
        if one["process"] is None:
            continue
        with contextlib.suppress(OSError):
            os.killpg(one["process"].pid, signal.SIGKILL)
        one["process"].wait()
        one["reader"].join(1)


def leave() -> None:
    _killed(held)


MORE = {"rdma": rdma, "serve": serve, "call": call, "served": served}
