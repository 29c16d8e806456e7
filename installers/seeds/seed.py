"""Which host passes an image on, where it listens, and by what it knows the hosts of its run.

It travels as a file that this user alone can read: words of a command are seen by everybody on a machine.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from envcheck.core.errors import UsageError

TOKEN = re.compile(r"[0-9a-f]{64}")
NAME = "seed.json"  # in the luggage
LIMIT = 4096
WHY = "/why"  # asked of the host that passes it on: what keeps a part from coming, as text
NEXT = "it is written by envcheck provision --hosts ... --seed-node NODE"


@dataclass(frozen=True)
class Seed:
    """`address` is "" in what the serving host itself gets; `port` 0: one that the system chooses."""

    node: str
    token: str
    port: int = 0
    address: str = ""

    @property
    def at(self) -> str:
        return f"{self.address}:{self.port}"

    @property
    def packed(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def read(path: Path) -> Seed:
    try:
        with path.open("rb") as file:
            said = json.loads(file.read(LIMIT))
        seed = Seed(str(said["node"]), str(said["token"]), int(said["port"]), str(said["address"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(f"{path}: says of no host that passes an image on", NEXT) from None
    if not TOKEN.fullmatch(seed.token) or not 0 <= seed.port < 1 << 16:
        raise UsageError(f"{path}: says of no host that passes an image on", NEXT)
    return seed


def refusal(code: str, message: str) -> bytes:
    """As the registries' protocol has it."""
    return json.dumps({"errors": [{"code": code, "message": message[:400]}]}).encode()
