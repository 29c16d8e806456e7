"""What a node tells of itself to the others, and what a stranger may have sent in its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

SCHEMA = 1
LIMIT = 256 << 10  # bytes; a thousand packages are 40 kB
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("host", "address", "role", "device", "driver", "toolkit", "python", "job", "envcheck"), (str,)),
    **dict.fromkeys(("nodes", "devices"), (int,)),
    "rank": (int, type(None)),
    "now": (int, float),
}


@dataclass(frozen=True)
class Hello:
    """`rank` is None where it is left to node 0; `job` a hash of the command without what differs by node; `packages`
    are the recipe's, by version; `now` the own clock in seconds since 1970, `skew_s` by how much it goes before that of
    node 0; "" is not known."""

    host: str
    address: str
    nodes: int
    job: str
    rank: int | None = None
    role: str = ""
    device: str = ""
    devices: int = 0
    driver: str = ""
    toolkit: str = ""
    python: str = ""
    envcheck: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    now: float = 0.0
    skew_s: float = 0.0

    @property
    def title(self) -> str:
        rank = "a node" if self.rank is None else f"rank {self.rank}"
        return f"{rank} ({self.host}, {self.address})"


def packed(greeting: Hello) -> bytes:
    return json.dumps({"envcheck-node": SCHEMA, **asdict(greeting)}).encode() + b"\n"


def unpacked(line: bytes) -> Hello | None:
    """None where it is none of ours: any port is knocked at by strangers."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("envcheck-node") != SCHEMA or not _right(said):
        return None
    packages = {str(name)[:200]: str(text)[:200] for name, text in said["packages"].items()}
    plain = {key: _short(said[key]) for key in _KINDS}
    return replace(Hello("", "", 0, ""), **plain, packages=packages)


def _right(said: Mapping[str, Any]) -> bool:
    kinds = all(isinstance(said.get(key), kinds) and not isinstance(said[key], bool) for key, kinds in _KINDS.items())
    return kinds and isinstance(said.get("packages"), dict) and len(said["packages"]) < 5000


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return "".join(c if c.isprintable() else "?" for c in value[:200])
    return value
