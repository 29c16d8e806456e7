"""Facts of a virtual environment, read from its files without running or importing anything of it."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.messages import Message, _
from envcheck.job.requirements.software_versions import find_version, is_allowed
from installers.recipes import fingerprint
from installers.recipes.recipe import Package, Recipe
from installers.state import state_file as mark
from installers.state.state_file import TEARING, RecipeProof


class FolderKind(str, enum.Enum):
    """What exists at the path of the folder."""

    ABSENT = "absent"
    EMPTY = "empty"
    ENVIRONMENT = "environment"
    OTHER = "other"


@dataclass(frozen=True)
class Environment:
    """`python` is the version that pyvenv.cfg or conda records; `works`: bin/python exists; `torn`: packages that pip
    left incomplete."""

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
    def is_ours(self) -> bool:
        """Return whether envcheck may clear the folder: it created it, or it is absent or empty."""
        return self.mark.made if self.mark else self.kind in (FolderKind.ABSENT, FolderKind.EMPTY)


def read_environment(folder: Path) -> Environment:
    """Return the facts of the folder; raise UsageError if it cannot be read."""
    try:
        kind, ours = _detect_kind(folder), mark.load_state(folder)
        if kind is not FolderKind.ENVIRONMENT:
            cut = ours is not None and ours.made and ours.doing in mark.EMPTYING
            return Environment(folder, FolderKind.EMPTY if cut and kind is FolderKind.OTHER else kind, mark=ours)
        packages, torn = _read_packages(folder)
        works = (folder / "bin" / "python").exists()
        return Environment(folder, kind, _read_python(folder), works, packages, torn, ours)
    except OSError as err:
        why = describe_os_error(err)
        raise UsageError(
            _("cannot read {folder}: {why}", folder=folder, why=why), _("choose another folder with --into")
        ) from None


def _detect_kind(folder: Path) -> FolderKind:
    if not folder.exists():
        return FolderKind.OTHER if folder.is_symlink() else FolderKind.ABSENT
    if not folder.is_dir():
        return FolderKind.OTHER
    if (folder / "pyvenv.cfg").is_file() or is_conda(folder):
        return FolderKind.ENVIRONMENT
    return FolderKind.OTHER if any(path.name != ".envcheck" for path in folder.iterdir()) else FolderKind.EMPTY


def is_conda(folder: Path) -> bool:
    """Return whether the folder is a conda environment, whatever program made it."""
    return (folder / "conda-meta").is_dir()


def _read_python(folder: Path) -> str:
    """Return 3.11.7 from 'version = 3.11.7' (venv) or 'version_info = 3.11.7.final.0' (virtualenv, uv); conda has it in
    the name of a record."""
    if is_conda(folder):
        records = sorted(folder.glob("conda-meta/python-[23].*.json"))
        named = re.match(r"python-(\d+\.\d+\.\d+)-", records[-1].name) if records else None
        return named[1] if named else ""
    config = (folder / "pyvenv.cfg").read_text("utf-8", "replace")[:65536]
    found = re.search(r"^version(?:_info)?\s*=\s*(\d+(?:\.\d+){1,2})", config, re.M)
    return found[1] if found else ""


def _read_packages(folder: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the packages in the dist-info folders, and the incomplete ones.

    pip writes RECORD last, and renames a package to ~NAME before it removes it.
    """
    packages: dict[str, str] = {}
    torn: list[str] = []
    for path in sorted(folder.glob("lib/python3*/site-packages/*")):
        if path.name.startswith("~"):
            torn.append(path.name)
        elif path.name.endswith(".dist-info"):
            name, _unused, version = path.name.removesuffix(".dist-info").rpartition("-")
            if (path / "RECORD").is_file() and (path / "METADATA").is_file():
                packages[canonicalize_name(name)] = version
            else:
                torn.append(name)
    return packages, tuple(torn)


def is_satisfied(package: Package, packages: Mapping[str, str]) -> bool:
    """Return whether the installed version fits the recipe; pre-releases are allowed only if the recipe names one."""
    return is_allowed(find_version(package.name, packages), package.specifier) is True


def is_allowed_version(version: str, specifier: str) -> bool:
    """Return whether the version is known and fits the specifier."""
    return is_allowed(version, specifier) is True


def is_proven(recipe: Recipe, env: Environment, sources: Mapping[str, str] | None = None) -> bool:
    """Return whether the recipe's last successful verification is still valid for this environment.

    It is invalid after a change of the recipe, of Python or of a package version, except for packages that only other
    recipes in the environment need.  `sources` are commits and checksums by path (see RecipeProof), as far as known.
    """
    ours = env.mark
    if not ours or ours.doing in TEARING or not env.works or env.torn:
        return False
    proof = ours.proofs.get(recipe.name, RecipeProof())
    if (
        not proof.packages
        or proof.digest != fingerprint.compute_fingerprint(recipe)
        or proof.python not in ("", env.python)
    ):
        return False
    foreign = _needed_by_others(recipe.name, ours)
    changed = {name for name, version in proof.packages.items() if env.packages.get(name) != version}
    moved = (path for path, known in proof.sources.items() if (sources or {}).get(path, known) != known)
    return not changed - foreign and not any(moved)


def _needed_by_others(recipe: str, ours: mark.EnvironmentState) -> set[str]:
    """Return the packages that only other recipes need; none if the needs of this recipe are unknown."""
    own = ours.proofs[recipe]
    others = {name for other, proof in ours.proofs.items() if other != recipe for name in proof.needs}
    return others - set(own.needs or own.packages)


def list_missing(recipe: Recipe, folder: Path, sources: Mapping[str, str] | None = None) -> list[Message]:
    """Return messages about what is missing before the recipe can run in the folder; [] if it is verified.

    `sources` are as for `is_proven`.
    """
    env = read_environment(folder)
    if env.kind is not FolderKind.ENVIRONMENT or not env.works:
        return [_("no virtual environment at {folder}", folder=folder)]
    missing = [p for p in recipe.packages if not is_satisfied(p, env.packages)]
    words = [
        _("{package}{specifier} is not installed in {folder}", package=p.name, specifier=p.specifier, folder=folder)
        for p in missing
    ]
    if not words and not is_proven(recipe, env, sources):
        words.append(_("{folder} is not verified, or was changed since its last verification", folder=folder))
    return words
