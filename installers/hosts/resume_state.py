"""How each host stood after the last `provision --hosts` of these words, for --resume; kept on this side."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from envcheck.core import paths
from envcheck.core.errors import UsageError

DONE = ("done", "ready", "removed", "absent")
KEPT = 50  # provisionings, the newest
NEXT = "leave --resume out: what is done on a host stays, and is not done again"


def file() -> Path:
    return paths.home() / "fleet" / "provision.json"


def write(words: str, hosts: Mapping[str, str]) -> None:
    """With what is known of other hosts by the same words, and of other words; where it cannot be kept, --resume will
    say so."""
    others = _read()
    known = {**others.pop(words, {}), **hosts}
    kept = {words: known, **dict(list(others.items())[: KEPT - 1])}
    with contextlib.suppress(OSError):
        file().parent.mkdir(parents=True, exist_ok=True)
        fresh = file().with_suffix(".new")
        fresh.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        fresh.replace(file())


def missing(words: str, hosts: list[str]) -> list[str]:
    """Of these hosts those that were not done."""
    known = _read().get(words)
    if known is None:
        raise UsageError("--resume: no provisioning of hosts with these options is known here", NEXT)
    return [host for host in hosts if known.get(host) not in DONE]


def _read() -> dict[str, dict[str, str]]:
    try:
        read = json.loads(file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in read.items() if isinstance(v, dict)} if isinstance(read, dict) else {}
