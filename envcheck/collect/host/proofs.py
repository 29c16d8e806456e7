"""What provision proved for each recipe in the recipe's own place, read from the state files that it keeps.

{"schema": 2, "doing": "", "place": "/home/me/.local/share/envcheck/environments/tiny-cpu",
 "proofs": {"tiny-cpu": {"digest": "8c1f...", "packages": {"numpy": "1.26.4"}}}}
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = 2
OLD_SCHEMA = 1  # one recipe in each environment
LIMIT = 1 << 20  # characters; a state file holds a few thousand


def of_folder(folder: "Path", installed: "Mapping[str, str] | None") -> str:
    """The digest of what was proved for the recipe of that name; "" where nothing was, where a step was begun since, or
    where what is `installed` changed; None: it is not seen from here."""
    state = _state(folder)
    proofs = _only_proof(state) if state.get("schema") == OLD_SCHEMA else state.get("proofs")
    proof = proofs.get(folder.name) if isinstance(proofs, dict) else None
    if not isinstance(proof, dict) or state.get("doing") or state.get("schema") not in (SCHEMA, OLD_SCHEMA):
        return ""
    here = os.path.realpath(folder)
    seen, digest = proof.get("packages"), proof.get("digest")
    if state.get("place", here) != here or not isinstance(digest, str) or not isinstance(seen, dict) or not seen:
        return ""
    is_changed = installed is not None and any(installed.get(name) != version for name, version in seen.items())
    return "" if is_changed else digest


def _only_proof(state: "dict[str, Any]") -> "dict[str, Any]":
    return {str(state.get("recipe")): {"digest": state.get("digest"), "packages": state.get("proven")}}


def _state(folder: "Path") -> "dict[str, Any]":
    try:
        with (folder / ".envcheck" / "state.json").open(encoding="utf-8") as file:
            found = json.loads(file.read(LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
