"""What is installed in a Python, read from the names of its *.dist-info folders; nothing is imported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from envcheck.core import process
from probes.host import requirements
from probes.host.package_names import normalize_name

PACKAGES_LIMIT = 2000
_ASK = "import json,sys;print(json.dumps(['%d.%d.%d' % sys.version_info[:3], sys.executable, sys.path]))"
# numpy-1.26.4.dist-info, foo-1.0.egg-info, foo-1.0-py3.10.egg-info
_NAMED = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info$")


def of_path_python() -> dict[str, Any]:
    """The python3 that a shell here would start, which need not be the one that runs envcheck."""
    done = process.run(("python3", "-c", _ASK), timeout_s=8.0)
    try:
        version, executable, path = json.loads(done.out)
    except ValueError:
        return {"python": None, "executable": None, "packages": {}, "unmet": None}
    return {"python": version, "executable": executable, **_told((Path(p) for p in path if p), version)}


def of_environment(folder: Path) -> dict[str, Any]:
    """A virtual environment, by its folders: no process is started."""
    libraries = sorted((folder / "lib").glob("python3*/site-packages"))
    told = re.search(r"^version\S*\s*=\s*(\d+\.\d+\.\d+)", _text(folder / "pyvenv.cfg"), re.MULTILINE)
    python = told[1] if told else None
    return {"python": python, "executable": str(folder / "bin" / "python"), **_told(libraries, python)}


def _told(folders: Iterable[Path], python: str | None) -> dict[str, Any]:
    found = _packages(folders)
    unmet = requirements.unmet(found, python) if requirements.MATTER & found.keys() else []
    return {"packages": {name: version for name, (version, _) in found.items()}, "unmet": unmet}


def _packages(folders: Iterable[Path]) -> dict[str, tuple[str, Path]]:
    """Version and folder of each; the first folder wins, as on sys.path."""
    found: dict[str, tuple[str, Path]] = {}
    for folder in folders:
        for entry in sorted(_names(folder)):
            named = _NAMED.match(entry)
            if named and len(found) < PACKAGES_LIMIT:
                found.setdefault(normalize_name(named["name"]), (named["version"], folder / entry))
    return found


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir() if entry.name.endswith("-info")]
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
