"""The recipes that provision verified in each environment, read from the environment's state file.

{"schema": 2, "doing": "", "place": "/home/me/.local/share/envcheck/environments/tiny-cpu",
 "proofs": {"tiny-cpu": {"digest": "8c1f...", "packages": {"numpy": "1.26.4"}}}}
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = 2
OLD_SCHEMA = 1  # one recipe per environment
LIMIT = 1 << 20  # characters; a state file has a few thousand


def read_proof(folder: "Path", installed: "Mapping[str, str] | None") -> str:
    """Return the digest of the verified recipe of that name.

    "" if it is not verified, if a step has started since, or if the `installed` packages changed (None: not known
    here).
    """
    state = _read_state(folder)
    proofs = _convert_old_state(state) if state.get("schema") == OLD_SCHEMA else state.get("proofs")
    proof = proofs.get(folder.name) if isinstance(proofs, dict) else None
    if not isinstance(proof, dict) or state.get("doing") or state.get("schema") not in (SCHEMA, OLD_SCHEMA):
        return ""
    here = os.path.realpath(folder)
    seen, digest = proof.get("packages"), proof.get("digest")
    if state.get("place", here) != here or not isinstance(digest, str) or not isinstance(seen, dict) or not seen:
        return ""
    is_changed = installed is not None and any(installed.get(name) != version for name, version in seen.items())
    return "" if is_changed else digest


def _convert_old_state(state: "dict[str, Any]") -> "dict[str, Any]":
    return {str(state.get("recipe")): {"digest": state.get("digest"), "packages": state.get("proven")}}


def _read_state(folder: "Path") -> "dict[str, Any]":
    try:
        with (folder / ".envcheck" / "state.json").open(encoding="utf-8") as file:
            found = json.loads(file.read(LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
