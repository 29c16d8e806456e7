"""The table of ranks that RANK_TABLE_FILE names: who has which card and which address, and nothing else of that file.

rank_table  {path, error, count, servers: [{id, devices: [{id, address, rank}]}]}
            path is null where the variable is not set; error: why the file says nothing; count: its own server_count.
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


def rank_table() -> "dict[str, Any]":
    named = os.environ.get(VARIABLE, "")
    if not named:
        return {"path": None, "error": None, "count": None, "servers": []}
    return {"path": named[:1024], **read(named)}


def read(named: str) -> "dict[str, Any]":
    try:
        text, error = _bytes(Path(named)), None
        said = json.loads(text)
    except OSError as err:
        said, error = None, err.strerror.lower() if err.strerror else str(err)
    except (ValueError, RecursionError):
        said, error = None, "it is no JSON"
    servers = said.get("server_list") if isinstance(said, dict) else None
    if error is None and not isinstance(servers, list):
        error = "it has no server_list"  # tables of the first kind (group_list), and of others
    listed = [_server(one) for one in servers[:SERVERS_LIMIT]] if isinstance(servers, list) else []
    count = said.get("server_count") if isinstance(said, dict) else None
    return {"error": error, "count": _number(count), "servers": listed}


def _bytes(path: "Path") -> bytes:
    """A pipe would hold us up, and a device has no end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError("it is no plain file")
    with path.open("rb") as file:
        text = file.read(BYTES_LIMIT + 1)
    if len(text) > BYTES_LIMIT:
        raise OSError("it is larger than 4 MiB")
    return text


def _server(said: "Any") -> "dict[str, Any]":
    said = said if isinstance(said, dict) else {}
    devices = said.get("device")
    listed = [one for one in devices if isinstance(one, dict)][:DEVICES_LIMIT] if isinstance(devices, list) else []
    return {
        "id": str(said.get("server_id", ""))[:128],
        "devices": [
            {
                "id": _number(one.get("device_id")),
                "address": _address(one.get("device_ip")),
                "rank": _number(one.get("rank_id")),
            }
            for one in listed
        ],
    }


def _number(value: "Any") -> "int | None":
    text = str(value) if type(value) in (int, str) else ""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def _address(value: "Any") -> "str | None":
    try:
        return str(ipaddress.ip_address(value)) if isinstance(value, str) else None
    except ValueError:
        return None
