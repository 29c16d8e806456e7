"""Facts of a virtual environment, read from its files; nothing of it is run or imported."""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from envcheck.core.errors import UsageError
from installers.recipes.recipe import Package, Recipe
from installers.state import state_file as mark

PROOF = 1  # raised when the proof asks for more, so that old marks no longer count


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
    version = packages.get(canonicalize_name(package.name.partition("[")[0]))
    return version is not None and within(version, package.specifier)


def within(version: str, specifier: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False


def digest(recipe: Recipe) -> str:
    """A hash of all that decides what is installed and what is proved."""
    lists = (recipe.packages, recipe.checkouts, recipe.builds)
    image = dict(recipe.image.references) if recipe.image else {}
    wanted = [PROOF, recipe.python, *([asdict(each) for each in listed] for listed in lists), recipe.verify, image]
    wanted += [dict(recipe.environment), recipe.scripts, recipe.device, recipe.hardware.cards]
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:16]


def proven(recipe: Recipe, env: Environment) -> bool:
    """The last good proof was of this recipe and of the very versions that are there now."""
    ours = env.mark
    if not ours or ours.doing or ours.digest != digest(recipe) or not env.works or env.torn:
        return False
    return bool(ours.proven) and all(env.packages.get(name) == version for name, version in ours.proven.items())


def ready(recipe: Recipe, folder: Path) -> list[str]:
    """What is missing before the recipe can run there, in words; empty when it was provisioned and proved."""
    env = read(folder)
    if env.kind is not FolderKind.ENVIRONMENT or not env.works:
        return [f"there is no virtual environment at {folder}"]
    missing = [p for p in recipe.packages if not fits(p, env.packages)]
    words = [f"{p.name}{p.specifier} is not installed in {folder}" for p in missing]
    if not words and not proven(recipe, env):
        words.append(f"{folder} has not been proved to work, or was changed since")
    return words
