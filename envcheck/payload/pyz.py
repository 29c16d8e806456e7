"""envcheck as one file, envcheck.pyz, for other hosts.  The same sources give the same bytes.

It is a zip that Python runs: envcheck's packages, the pure Python libraries that they import, and psutil for each
architecture.  See unpack.py for how it starts.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from envcheck.core import local_files
from envcheck.payload import cache as user_cache
from envcheck.payload import psutil_libraries
from envcheck.payload.content import ROOT, Payload, pack_zip
from envcheck.payload.unpack import FILE

PACKAGES = ("envcheck", "probes", "installers", "launch")
# Import names of the requirements in setup.cfg and of their dependencies; a test compares them.
LIBRARIES = ("ClusterShell", "click", "defusedxml", "docker", "requests", "urllib3", "idna", "certifi",
             "charset_normalizer", "packaging", "pexpect", "ptyprocess", "rich", "tabulate", "yaml", "jinja2",
             "markupsafe")  # fmt: skip
NATIVE = "psutil"
WITHOUT = (
    "tree_sitter",
    "tree_sitter_bash",
    "ahocorasick_rs",
)  # compiled: without them no lint of scripts, and a slower log search
TOML = ("tomli", "tomllib")  # one reader with two names; Python 3.10 has no tomllib
MACHINES = tuple(psutil_libraries.ELF_MACHINES)
FIRST_LINE = b"#!/usr/bin/env python3\n"
LEFT_OUT = ("__pycache__", "tests", "test")
COMPILED = (".so", ".pyd", ".pyc", ".pyi", ".c", ".h", ".pyx")  # modules with a compiled variant also have a Python one


def find_own_file() -> Path | None:
    """Return the envcheck.pyz that this process runs from, None if it is installed."""
    path = ROOT / FILE
    return path if path.is_file() else None


def find_archive() -> Path | None:
    """Return the same file under the user's path if known: the copy in the cache can be removed by another version."""
    own = find_own_file()
    return own and next((Path(word).absolute() for word in sys.orig_argv[1:] if zipfile.is_zipfile(word)), own)


def build_environment() -> dict[str, str]:
    """Return the variables with which another Python can import this envcheck without an installation."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} if find_own_file() else {}


@cache
def build_payload(fetched: frozenset[str] = frozenset()) -> Payload:
    """Return envcheck.pyz with psutil for this architecture, for cached ones, and for `fetched` ones from the package
    index."""
    if own := find_own_file():
        return Payload.from_data(own.read_bytes())
    found = {machine: psutil_libraries.find_library(machine, machine in fetched) for machine in MACHINES}
    libraries = {machine: data for machine, data in found.items() if data is not None}
    places = (*(ROOT / name for name in PACKAGES), *map(_locate_library, (*LIBRARIES, NATIVE, _find_toml_reader())))
    return Payload.from_data(
        user_cache.read_or_make(places, lambda: pack_files(libraries), f"made-{'+'.join(libraries)}-")
    )


def write_file(path: Path, payload: Payload) -> None:
    """Write the file completely or not at all, and make it executable. UsageError if that fails."""
    local_files.write_file(path, payload.data, 0o755)


def list_machines(payload: Payload) -> list[str]:
    """Return the architectures for which the payload has psutil."""
    return [machine for machine in MACHINES if f"native/{machine}/".encode() in payload.data]


def pack_files(libraries: Mapping[str, bytes]) -> bytes:
    """Return the content of envcheck.pyz; `libraries` are psutil's compiled libraries by architecture."""
    files = dict(_list_files())
    for machine, library in libraries.items():
        folder = f"native/{machine}/{NATIVE}"
        files |= _read_tree(psutil_libraries.find_package(), folder)
        files[f"{folder}/{psutil_libraries.FILE}"] = library
    return pack_zip(files.items(), FIRST_LINE)


def _list_files() -> Iterator[tuple[str, bytes]]:
    yield "__main__.py", Path(__file__).with_name("pyz_main.py").read_bytes()
    for name in PACKAGES:
        yield from _read_tree(ROOT / name, name).items()
    for name in LIBRARIES:
        place = _locate_library(name)
        yield from _read_tree(place, place.name).items()
    yield from _read_tree(_locate_library(_find_toml_reader()), TOML[0]).items()


def _read_tree(place: Path, name: str) -> dict[str, bytes]:
    """Return the files of a module or of a package folder with its data, by name in the zip."""
    if place.is_file():
        return {name: place.read_bytes()}
    wanted = {path: path.relative_to(place) for path in place.rglob("*") if not path.name.endswith(COMPILED)}
    return {
        f"{name}/{inside}": path.read_bytes()
        for path, inside in wanted.items()
        if not set(inside.parts) & set(LEFT_OUT) and path.is_file()
    }


def _find_toml_reader() -> str:
    return next(name for name in TOML if importlib.util.find_spec(name))


def _locate_library(name: str) -> Path:
    """Return the folder or file of an installed library."""
    spec = importlib.util.find_spec(name)
    assert spec and spec.origin, name
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
