"""RDMA devices as the kernel shows them, and their device nodes.

rdma  {devices: {name: {kind, ports: {number: {state, physical, layer, gids: {index: type}}}}}, verbs: [name]}
      state is ACTIVE, INIT or DOWN; gids: those of the first 16 that are set, by type (IB/RoCE v1, RoCE v2); verbs:
      the nodes /dev/infiniband/uverbsN.  Read from /sys/class/infiniband, which a container has even without nodes.
"""

import re
from itertools import islice
from pathlib import Path
from typing import Any

SYS, DEV = Path("/sys/class/infiniband"), Path("/dev/infiniband")
DEVICES_LIMIT, PORTS_LIMIT, GIDS_LIMIT, TEXT_LIMIT = 64, 8, 16, 128


def collect_rdma() -> "dict[str, Any]":
    """Return the facts above."""
    devices = {path.name: _read_device(path) for path in _list_folder(SYS, DEVICES_LIMIT)}
    return {"devices": devices, "verbs": sorted(path.name for path in _list_folder(DEV, 256) if "uverbs" in path.name)}


def _read_device(path: "Path") -> "dict[str, Any]":
    ports = {port.name: _read_port(port) for port in _list_folder(path / "ports", PORTS_LIMIT)}
    return {"kind": _read_text(path / "hca_type"), "ports": ports}


def _read_port(path: "Path") -> "dict[str, Any]":
    set_ = [n for n in range(GIDS_LIMIT) if re.search(r"[1-9a-f]", _read_text(path / "gids" / str(n)) or "")]
    return {
        "state": _read_state_word(path / "state"),
        "physical": _read_state_word(path / "phys_state"),
        "layer": _read_text(path / "link_layer"),
        "gids": {str(n): _read_text(path / "gid_attrs/types" / str(n)) or "" for n in set_},
    }


def _read_state_word(path: "Path") -> "str | None":
    """Return ACTIVE for `4: ACTIVE`."""
    text = _read_text(path)
    return text.rpartition(":")[2].strip() if text else None


def _read_text(path: "Path") -> "str | None":
    try:
        with path.open("rb") as file:
            return file.read(TEXT_LIMIT).decode("utf-8", "replace").strip() or None
    except OSError:
        return None


def _list_folder(path: "Path", limit: int) -> "list[Path]":
    try:
        return sorted(islice(path.iterdir(), limit))
    except OSError:
        return []
