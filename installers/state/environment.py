"""Facts of a virtual environment, read from its files; nothing of it is run or imported."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

from envcheck.core.errors import UsageError
from envcheck.job.requirements.software_versions import find_version, is_allowed
from installers.recipes import recipe_digest
from installers.recipes.recipe import Package, Recipe
from installers.state import state_file as mark
from installers.state.state_file import TEARING, Proof


class FolderKind(str, enum.Enum):
    """What stands at the folder's path."""

    ABSENT = "absent"
    EMPTY = "empty"
    ENVIRONMENT = "environment"
    OTHER = "other"


@dataclass(frozen=True)
class Environment:
    """`python` is pyvenv.cfg's version; `works`: bin/python leads somewhere; `torn`: names pip left half-installed."""

    folder: Path
    kind: FolderKind
    python: str = ""
    works: bool = False
    packages: Mapping[str, str] = field(default_factory=dict)
    torn: tuple[str, ...] = ()
    mark: mark.EnvironmentState | None = None

    @property
    def interpreter(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def ours(self) -> bool:
        """Whether envcheck may clear it: it made it, or there is nothing."""
        return self.mark.made if self.mark else self.kind in (FolderKind.ABSENT, FolderKind.EMPTY)


def read(folder: Path) -> Environment:
    """Look at the folder; an unreadable one is wrong usage, since nobody can work there."""
    try:
        kind, ours = _kind(folder), mark.load(folder)
        if kind is not FolderKind.ENVIRONMENT:
            cut = ours is not None and ours.made and ours.doing in mark.EMPTYING
            return Environment(folder, FolderKind.EMPTY if cut and kind is FolderKind.OTHER else kind, mark=ours)
        packages, torn = _packages(folder)
        works = (folder / "bin" / "python").exists()
        return Environment(folder, kind, _python(folder / "pyvenv.cfg"), works, packages, torn, ours)
    except OSError as err:
        why = (err.strerror or str(err)).lower()
        raise UsageError(f"{folder} cannot be read: {why}", "choose another --into") from None


def _kind(folder: Path) -> FolderKind:
    if not folder.exists():
        return FolderKind.OTHER if folder.is_symlink() else FolderKind.ABSENT
    if not folder.is_dir():
        return FolderKind.OTHER
    if (folder / "pyvenv.cfg").is_file():
        return FolderKind.ENVIRONMENT
    return FolderKind.OTHER if any(path.name != ".envcheck" for path in folder.iterdir()) else FolderKind.EMPTY


def _python(config: Path) -> str:
    """'3.11.7' of 'version = 3.11.7' (venv) or 'version_info = 3.11.7.final.0' (virtualenv, uv)."""
    found = re.search(
        r"^version(?:_info)?\s*=\s*(\d+(?:\.\d+){1,2})", config.read_text("utf-8", "replace")[:65536], re.M
    )
    return found[1] if found else ""


def _packages(folder: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Versions by the names of the dist-info folders; pip writes RECORD last, and renames to ~name what it removes."""
    packages: dict[str, str] = {}
    torn: list[str] = []
    for path in sorted(folder.glob("lib/python3*/site-packages/*")):
        if path.name.startswith("~"):
            torn.append(path.name)
        elif path.name.endswith(".dist-info"):
            name, _, version = path.name.removesuffix(".dist-info").rpartition("-")
            if (path / "RECORD").is_file() and (path / "METADATA").is_file():
                packages[canonicalize_name(name)] = version
            else:
                torn.append(name)
    return packages, tuple(torn)


def fits(package: Package, packages: Mapping[str, str]) -> bool:
    """Whether the installed version is one that the recipe takes; pre-releases count where the recipe names one."""
    return is_allowed(find_version(package.name, packages), package.specifier) is True


def within(version: str, specifier: str) -> bool:
    return is_allowed(version, specifier) is True


def proven(recipe: Recipe, env: Environment, sources: Mapping[str, str] | None = None) -> bool:
    """Whether the recipe's last good proof was of what it asks for now, and saw what is there now.

    A version that changed counts, unless another recipe in the same environment needs that package and this one does
    not.  `sources` are commits and sums by path (see Proof), as far as they are known.
    """
    ours = env.mark
    if not ours or ours.doing in TEARING or not env.works or env.torn:
        return False
    proof = ours.proofs.get(recipe.name, Proof())
    if not proof.packages or proof.digest != recipe_digest.digest(recipe) or proof.python not in ("", env.python):
        return False
    foreign = _needed_by_others(recipe.name, ours)
    changed = {name for name, version in proof.packages.items() if env.packages.get(name) != version}
    moved = (path for path, known in proof.sources.items() if (sources or {}).get(path, known) != known)
    return not changed - foreign and not any(moved)


def _needed_by_others(recipe: str, ours: mark.EnvironmentState) -> set[str]:
    """Packages that other recipes need and this one does not; none where nobody could tell what this one needs."""
    own = ours.proofs[recipe]
    others = {name for other, proof in ours.proofs.items() if other != recipe for name in proof.needs}
    return others - set(own.needs or own.packages)


def ready(recipe: Recipe, folder: Path, sources: Mapping[str, str] | None = None) -> list[str]:
    """What is missing before the recipe can run there, in words; empty when it was provisioned and proved.

    `sources` are as for `proven`.
    """
    env = read(folder)
    if env.kind is not FolderKind.ENVIRONMENT or not env.works:
        return [f"there is no virtual environment at {folder}"]
    missing = [p for p in recipe.packages if not fits(p, env.packages)]
    words = [f"{p.name}{p.specifier} is not installed in {folder}" for p in missing]
    if not words and not proven(recipe, env, sources):
        words.append(f"{folder} has not been proved to work, or was changed since")
    return words
