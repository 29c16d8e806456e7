"""Models in the local caches of Hugging Face and ModelScope: folders with a config.json, without any network access.

Layouts: huggingface_hub, "Understand caching" (models--OWNER--NAME/snapshots/COMMIT); modelscope (OWNER/NAME, with ___
for a dot, below `hub` or `hub/models`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def find_cached_model(name: str) -> Path | None:
    """Return the folder of a model by its hub id or the part after the owner, in any case; None if it is not cached."""
    wanted = name.strip().lower()
    if not wanted or wanted.count("/") > 1:
        return None
    for hub_id, folder in _list_cached_models():
        if wanted in (hub_id, hub_id.rpartition("/")[2]):
            return folder
    return None


def _list_cached_models() -> Iterator[tuple[str, Path]]:
    """Yield the hub id in lower case and the folder of each cached model; unreadable folders are skipped."""
    for root in _list_hugging_face_roots():
        for place in _list_folders(root, "models--*"):
            hub_id = place.name.removeprefix("models--").replace("--", "/").lower()
            found = [config.parent for config in _list_folders(place, "snapshots/*/config.json")]
            if found:
                yield hub_id, max(found, key=lambda folder: (folder / "config.json").stat().st_mtime)
    for root in _list_modelscope_roots():
        for config in _list_folders(root, "*/*/config.json"):
            owner, name = config.parent.parent.name, config.parent.name.replace("___", ".")
            yield f"{owner}/{name}".lower(), config.parent


def _list_folders(root: Path, pattern: str) -> list[Path]:
    try:
        return [found for found in sorted(root.glob(pattern)) if found.exists()]
    except OSError:
        return []


def _list_hugging_face_roots() -> Iterator[Path]:
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface")
    for root in (os.environ.get("HF_HUB_CACHE"), home / "hub"):
        if root:
            yield Path(root).expanduser()


def _list_modelscope_roots() -> Iterator[Path]:
    root = Path(os.environ.get("MODELSCOPE_CACHE") or "~/.cache/modelscope/hub").expanduser()
    yield from (root, root / "models", root / "hub", root / "hub" / "models")
