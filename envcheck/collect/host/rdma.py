"""RDMA devices as the kernel shows them, and the nodes by which programs reach them.

rdma  {devices: {name: {kind, ports: {number: {state, physical, layer, gids: {index: type}}}}}, verbs: [name]}
      state is ACTIVE, INIT or DOWN; gids: those that are set, of the first 16, by type (IB/RoCE v1, RoCE v2); verbs are
      the nodes /dev/infiniband/uverbsN.  Read from /sys/class/infiniband, which a container sees without the nodes.
"""

import re
from itertools import islice
from pathlib import Path
from typing import Any

SYS, DEV = Path("/sys/class/infiniband"), Path("/dev/infiniband")
DEVICES_LIMIT, PORTS_LIMIT, GIDS_LIMIT, TEXT_LIMIT = 64, 8, 16, 128


def rdma() -> "dict[str, Any]":
    devices = {path.name: _device(path) for path in _folders(SYS, DEVICES_LIMIT)}
    return {"devices": devices, "verbs": sorted(path.name for path in _folders(DEV, 256) if "uverbs" in path.name)}


def _device(path: "Path") -> "dict[str, Any]":
    ports = {port.name: _port(port) for port in _folders(path / "ports", PORTS_LIMIT)}
    return {"kind": _text(path / "hca_type"), "ports": ports}


def _port(path: "Path") -> "dict[str, Any]":
    set_ = [n for n in range(GIDS_LIMIT) if re.search(r"[1-9a-f]", _text(path / "gids" / str(n)) or "")]
    return {
        "state": _word(path / "state"),
        "physical": _word(path / "phys_state"),
        "layer": _text(path / "link_layer"),
        "gids": {str(n): _text(path / "gid_attrs/types" / str(n)) or "" for n in set_},
    }


def _word(path: "Path") -> "str | None":
    """`4: ACTIVE`"""
    said = _text(path)
    return said.rpartition(":")[2].strip() if said else None


def _text(path: "Path") -> "str | None":
    try:
        with path.open("rb") as file:
            return file.read(TEXT_LIMIT).decode("utf-8", "replace").strip() or None
    except OSError:
        return None


def _folders(path: "Path", limit: int) -> "list[Path]":
    try:
        return sorted(islice(path.iterdir(), limit))
    except OSError:
        return []
