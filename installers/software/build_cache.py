"""Cache of build results on this host, keyed by their inputs and shared by environments, containers and hosts.

Each key is a folder with the files and a list of their hashes.  It appears complete or not at all, and is verified
before use.
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
from installers.recipes.recipe import RecipeBuild
from installers.state import checksums
from installers.targets.target import Target

LIMIT = 1 << 20  # characters of the list of hashes
SCHEMA = 1


@dataclass(frozen=True)
class CachedFile:
    """A file of a build result: its path in the checkout, its place in the cache, and its SHA-256."""

    path: str
    file: Path
    sha256: str


def compute_key(build: RecipeBuild, commit: str, python: str, architecture: str, before: Iterable[str] = ()) -> str:
    """Return the key of all inputs: source, commands, Python's minor version, architecture, and earlier results."""
    own = {k: v for k, v in dataclasses.asdict(build).items() if k not in ("deadline_s", "space_gib", "caution")}
    if "{checkout}" not in repr((build.commands, build.environment)):
        del own["checkout"]  # the checkout folder stays in the key otherwise: results may contain its name
    minor = ".".join(python.split(".")[:2])
    said = json.dumps([SCHEMA, own, commit, minor, architecture, list(before)], sort_keys=True)
    return f"{build.name}-{hashlib.sha256(said.encode()).hexdigest()[:24]}"


def cache_folder() -> Path:
    """Return the folder of all cached results."""
    return places.envcheck_home() / "builds"


def find_files(name: str, root: Path | None = None) -> tuple[CachedFile, ...]:
    """Return the files cached under this key; empty if there are none or one of them has changed."""
    place = (root or cache_folder()) / name
    try:
        with (place / "files.json").open(encoding="utf-8") as file:
            said = json.loads(file.read(LIMIT))
        kept = tuple(
            CachedFile(str(path), place / str(n), str(sha256)) for n, (path, sha256) in enumerate(said["files"])
        )
        return kept if all(checksums.compute_sha256(each.file) == each.sha256 for each in kept) else ()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ()


def store_files(
    name: str, paths: Sequence[str], base: str, target: Target, root: Path | None = None
) -> tuple[CachedFile, ...]:
    """Cache these files, given as paths below `base` in the target; return the cached files."""
    home = root or cache_folder()
    fresh = home / f"{name}.{os.getpid()}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        said = []
        for number, path in enumerate(paths):
            target.copy_out(f"{base}/{path}", fresh / str(number))
            said.append((path, checksums.compute_sha256(fresh / str(number))))
        (fresh / "files.json").write_text(json.dumps({"schema": SCHEMA, "files": said}), encoding="utf-8")
        shutil.rmtree(home / name, ignore_errors=True)
        fresh.rename(home / name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return tuple(CachedFile(path, home / name / str(n), sha256) for n, (path, sha256) in enumerate(said))
