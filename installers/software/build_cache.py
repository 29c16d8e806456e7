"""What builds made, kept on this host under what they were made from, for the next environment, container or host.

A folder per key with the files and a list of their hashes; it appears whole or not at all, and is looked at before it
is used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from envcheck.core import paths as places
from installers.recipes.recipe import Build
from installers.state import checksums
from installers.targets.target import Target

LIMIT = 1 << 20  # characters of a list
SCHEMA = 1


@dataclass(frozen=True)
class Kept:
    """A file of a result: where it stands below the checkout, where in the cache, and its hash."""

    path: str
    file: Path
    sha256: str


def key(build: Build, commit: str, python: str, architecture: str, before: Iterable[str] = ()) -> str:
    """Of all that decides the result: source, commands, Python's minor version, machine, results before it."""
    own = {k: v for k, v in dataclasses.asdict(build).items() if k not in ("deadline_s", "space_gib", "caution")}
    if "{checkout}" not in repr((build.commands, build.environment)):
        del own["checkout"]  # else the result may hold the folder's name
    minor = ".".join(python.split(".")[:2])
    said = json.dumps([SCHEMA, own, commit, minor, architecture, list(before)], sort_keys=True)
    return f"{build.name}-{hashlib.sha256(said.encode()).hexdigest()[:24]}"


def folder() -> Path:
    return places.home() / "builds"


def find(name: str, root: Path | None = None) -> tuple[Kept, ...]:
    """The files kept under this key; none where there are none, or where one of them is not what it was."""
    place = (root or folder()) / name
    try:
        with (place / "files.json").open(encoding="utf-8") as file:
            said = json.loads(file.read(LIMIT))
        kept = tuple(Kept(str(path), place / str(n), str(sha256)) for n, (path, sha256) in enumerate(said["files"]))
        return kept if all(checksums.sha256(each.file) == each.sha256 for each in kept) else ()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ()


def put(name: str, paths: Sequence[str], base: str, target: Target, root: Path | None = None) -> tuple[Kept, ...]:
    """Keep these files, given below `base` in the target."""
    home = root or folder()
    fresh = home / f"{name}.{os.getpid()}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        said = []
        for number, path in enumerate(paths):
            target.bring(f"{base}/{path}", fresh / str(number))
            said.append((path, checksums.sha256(fresh / str(number))))
        (fresh / "files.json").write_text(json.dumps({"schema": SCHEMA, "files": said}), encoding="utf-8")
        shutil.rmtree(home / name, ignore_errors=True)
        fresh.rename(home / name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return tuple(Kept(path, home / name / str(n), sha256) for n, (path, sha256) in enumerate(said))
