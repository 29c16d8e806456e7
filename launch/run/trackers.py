"""Where experiment trackers keep the curves of a run: folders, and links to pages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

KINDS = ("tensorboard", "visualdl", "wandb", "swanlab")
DEPTH, ENTRIES = 5, 20_000  # of the folders that are searched
LOG_BYTES = 1 << 20  # of each end of a log
LOGS = ("launcher.log", "workerlog.0")
# A file or folder with this name, of which tracker; the folder above it is what the tracker's viewer opens.
FILES = (
    (re.compile(r"events\.out\.tfevents\..+"), "tensorboard"),
    (re.compile(r"vdlrecords\..+\.log"), "visualdl"),
)
FOLDERS = ((re.compile(r"(?:offline-)?run-\d{8}_\d{6}-\w+"), "wandb"), (re.compile(r"run-\d{8}_\d{6}-\w+"), "swanlab"))
ABOVE = {"wandb": "wandb", "swanlab": "swanlog"}  # name of the folder above
LINKS = (
    ("wandb", re.compile(r"https?://[\w.-]{1,100}(?::\d{1,5})?/[\w.-]{1,100}/[\w.-]{1,100}/runs/\w{1,40}")),
    ("swanlab", re.compile(r"https?://[\w.-]{1,100}(?::\d{1,5})?/@[\w.-]{1,100}/[\w.-]{1,100}/runs/\w{1,60}")),
)


def list_trackers(run: Path) -> list[dict[str, str]]:
    """Return {"kind", "path"} or {"kind", "link"} of each tracker of the run, in a stable order."""
    found = {("path", kind, str(path)) for kind, path in _find_folders(run)}
    found |= {("link", kind, link) for kind, link in _find_links(run / "log")}
    return [{"kind": kind, what: value} for what, kind, value in sorted(found, key=lambda one: (one[1], one))]


def _find_folders(run: Path) -> Iterator[tuple[str, Path]]:
    seen = 0
    for top, folders, files in os.walk(run):
        place = Path(top)
        seen += len(folders) + len(files)
        if seen > ENTRIES or len(place.relative_to(run).parts) >= DEPTH:
            folders.clear()
        for pattern, kind in FILES:
            if any(pattern.fullmatch(name) for name in files):
                yield kind, place
        for pattern, kind in FOLDERS:
            if place.name == ABOVE[kind] and any(pattern.fullmatch(name) for name in folders):
                yield kind, place


def _find_links(logs: Path) -> Iterator[tuple[str, str]]:
    for name in LOGS:
        text = _read_ends(logs / name)
        for kind, pattern in LINKS:
            yield from ((kind, link) for link in pattern.findall(text))


def _read_ends(path: Path) -> str:
    """Return the beginning and the end of a log."""
    try:
        with path.open("rb") as file:
            data = file.read(LOG_BYTES)
            file.seek(max(file.tell(), path.stat().st_size - LOG_BYTES))
            return (data + b"\n" + file.read(LOG_BYTES)).decode("utf-8", "replace")
    except OSError:
        return ""
