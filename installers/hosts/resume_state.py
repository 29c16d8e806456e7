"""The state of each host after the last `provision --hosts` with the same arguments, for --unfinished."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from envcheck.core import paths
from envcheck.core.errors import UsageError
from envcheck.core.messages import _

DONE = ("done", "ready", "removed", "absent")
KEPT = 50  # number of most recent commands to remember
NEXT = _("omit --unfinished: completed steps are kept and not repeated")


def state_path() -> Path:
    """Return the path of the file with the states."""
    return paths.envcheck_home() / "fleet" / "provision.json"


def save_states(words: str, hosts: Mapping[str, str]) -> None:
    """Save the states of hosts for these arguments (`words`); other hosts and arguments are kept.

    Errors are ignored: --unfinished reports that there is no saved state.
    """
    others = _load_states()
    known = {**others.pop(words, {}), **hosts}
    kept = {words: known, **dict(list(others.items())[: KEPT - 1])}
    with contextlib.suppress(OSError):
        state_path().parent.mkdir(parents=True, exist_ok=True)
        fresh = state_path().with_suffix(".new")
        fresh.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        fresh.replace(state_path())


def list_unfinished(words: str, hosts: list[str]) -> list[str]:
    """Return those of the hosts that are not done; raise UsageError if there is no saved state for the arguments."""
    known = _load_states().get(words)
    if known is None:
        raise UsageError(_("--unfinished: no earlier run with these options and hosts found"), NEXT)
    return [host for host in hosts if known.get(host) not in DONE]


def _load_states() -> dict[str, dict[str, str]]:
    try:
        read = json.loads(state_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in read.items() if isinstance(v, dict)} if isinstance(read, dict) else {}
