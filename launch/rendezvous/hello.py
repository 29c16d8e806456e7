"""The facts that each node sends to node 0, and their validation: any process can connect to the port."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from envcheck.core.messages import Message, _

SCHEMA = 1
LIMIT = 256 << 10  # bytes of a message; a thousand packages take 40 kB
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("host", "address", "role", "device", "driver", "toolkit", "python", "job", "envcheck"), (str,)),
    **dict.fromkeys(("nodes", "devices"), (int,)),
    "rank": (int, type(None)),
    "now": (int, float),
}


@dataclass(frozen=True)
class Hello:
    """Facts of a node; "" is unknown. `rank` is None if node 0 assigns it; `job` is a hash of the command without the
    options that differ between nodes; `packages`: package of the recipe → version; `now` is the clock of the node in
    seconds since 1970, `skew_s` how far it is ahead of the clock of node 0."""

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
    def title(self) -> Message:
        """The node in messages: its rank if known, name and address."""
        if self.rank is None:
            return _("node {host} ({address})", host=self.host, address=self.address)
        return _("rank {rank} ({host}, {address})", rank=self.rank, host=self.host, address=self.address)


def pack_hello(greeting: Hello) -> bytes:
    """Return the line that a node sends to node 0."""
    return json.dumps({"envcheck-node": SCHEMA, **asdict(greeting)}).encode() + b"\n"


def unpack_hello(line: bytes) -> Hello | None:
    """Return the facts in a line; None if it is not a valid message of envcheck."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.get("envcheck-node") != SCHEMA or not _has_valid_types(values):
        return None
    packages = {str(name)[:200]: str(text)[:200] for name, text in values["packages"].items()}
    plain = {key: _shorten_value(values[key]) for key in _KINDS}
    return replace(Hello("", "", 0, ""), **plain, packages=packages)


def _has_valid_types(values: Mapping[str, Any]) -> bool:
    if not all(
        isinstance(values.get(key), kinds) and not isinstance(values[key], bool) for key, kinds in _KINDS.items()
    ):
        return False
    return isinstance(values.get("packages"), dict) and len(values["packages"]) < 5000


def _shorten_value(value: Any) -> Any:
    if isinstance(value, str):
        return "".join(c if c.isprintable() else "?" for c in value[:200])
    return value
