"""The HCCL rank table in RANK_TABLE_FILE: servers, devices, addresses and ranks.

rank_table  {path, error, count, servers: [{id, devices: [{id, address, rank}]}]}
            path is null if the variable is not set; error: why the file cannot be used; count: its server_count.
"""

import ipaddress
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

VARIABLE = "RANK_TABLE_FILE"
BYTES_LIMIT, SERVERS_LIMIT, DEVICES_LIMIT = 4 << 20, 4096, 64


def collect_rank_table() -> "dict[str, Any]":
    """Return the table that the variable names."""
    named = os.environ.get(VARIABLE, "")
    if not named:
        return {"path": None, "error": None, "count": None, "servers": []}
    return {"path": named[:1024], **read_rank_table(named)}


def read_rank_table(named: str) -> "dict[str, Any]":
    """Return {error, count, servers} of a file; `error` is set if it cannot be read or is of another format."""
    try:
        return parse_rank_table(_read_bytes(Path(named)))
    except OSError as err:
        return {"error": err.strerror.lower() if err.strerror else str(err), "count": None, "servers": []}
    except ValueError:  # a path with a null byte
        return parse_rank_table(b"")


def parse_rank_table(text: bytes) -> "dict[str, Any]":
    """Return {error, count, servers} of the content of a file."""
    try:
        value, error = json.loads(text), None
    except (ValueError, RecursionError):
        value, error = None, "not valid JSON"
    servers = value.get("server_list") if isinstance(value, dict) else None
    if error is None and not isinstance(servers, list):
        error = "server_list is missing"  # tables of the first format (group_list), and others
    listed = [_parse_server(one) for one in servers[:SERVERS_LIMIT]] if isinstance(servers, list) else []
    count = value.get("server_count") if isinstance(value, dict) else None
    return {"error": error, "count": _parse_number(count), "servers": listed}


def _read_bytes(path: "Path") -> bytes:
    """Return the content of a regular file: a pipe would block, and a device has no end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("not a regular file")
    with path.open("rb") as file:
        text = file.read(BYTES_LIMIT + 1)
    if len(text) > BYTES_LIMIT:
        raise OSError("larger than 4 MiB")
    return text


def _parse_server(value: "Any") -> "dict[str, Any]":
    value = value if isinstance(value, dict) else {}
    devices = value.get("device")
    listed = [one for one in devices if isinstance(one, dict)][:DEVICES_LIMIT] if isinstance(devices, list) else []
    return {
        "id": str(value.get("server_id", ""))[:128],
        "devices": [
            {
                "id": _parse_number(one.get("device_id")),
                "address": _parse_address(one.get("device_ip")),
                "rank": _parse_number(one.get("rank_id")),
            }
            for one in listed
        ],
    }


def _parse_number(value: "Any") -> "int | None":
    text = str(value) if type(value) in (int, str) else ""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def _parse_address(value: "Any") -> "str | None":
    try:
        return str(ipaddress.ip_address(value)) if isinstance(value, str) else None
    except ValueError:
        return None
