"""envcheck as one file, envcheck.pyz: how it gets to other machines.  The same sources give the same bytes.

It is a zip that Python runs: our packages and the libraries that they import, all pure Python, and psutil for each type
of machine.  unpack.py says how it begins.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from envcheck.core.errors import StepError
from envcheck.payload import cache as user_cache
from envcheck.payload import psutil_libraries
from envcheck.payload.content import ROOT, Payload, pack_zip
from envcheck.payload.unpack import FILE

PACKAGES = ("envcheck", "probes", "installers", "launch")
# Import names: those of setup.cfg and what they need, a test compares.
LIBRARIES = ("ClusterShell", "click", "defusedxml", "docker", "requests", "urllib3", "idna", "certifi",
             "charset_normalizer", "packaging", "pexpect", "ptyprocess", "rich", "tabulate", "yaml", "jinja2",
             "markupsafe")  # fmt: skip
NATIVE = "psutil"
WITHOUT = ("tree_sitter", "tree_sitter_bash", "ahocorasick_rs")  # compiled: no lint of scripts, slower search of logs
TOML = ("tomli", "tomllib")  # one reader by two names, for Python 3.10, which has none: the first that is here
MACHINES = tuple(psutil_libraries.ELF_MACHINES)
FIRST_LINE = b"#!/usr/bin/env python3\n"
LEFT_OUT = ("__pycache__", "tests", "test")
COMPILED = (".so", ".pyd", ".pyc", ".pyi", ".c", ".h", ".pyx")  # what has a compiled twin has a plain one, too


def own_file() -> Path | None:
    """The envcheck.pyz that this process runs from."""
    path = ROOT / FILE
    return path if path.is_file() else None


def archive() -> Path | None:
    """The same, as the user named it where that is known: the copy in the cache may go when another version comes."""
    own = own_file()
    return own and next((Path(word).absolute() for word in sys.orig_argv[1:] if zipfile.is_zipfile(word)), own)


def environment() -> dict[str, str]:
    """What another Python needs to import this envcheck, where nothing is installed."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} if own_file() else {}


@cache
def build(fetched: frozenset[str] = frozenset()) -> Payload:
    """With psutil for this type of machine, for those in the user's cache, and for `fetched` from the package index."""
    if own := own_file():
        return Payload.of(own.read_bytes())
    found = {machine: psutil_libraries.find(machine, machine in fetched) for machine in MACHINES}
    libraries = {machine: data for machine, data in found.items() if data is not None}
    places = (*(ROOT / name for name in PACKAGES), *map(_find, (*LIBRARIES, NATIVE, _toml())))
    return Payload.of(user_cache.read_or_make(places, lambda: pack(libraries), f"made-{'+'.join(libraries)}-"))


def write(path: Path, payload: Payload) -> None:
    """Whole or not at all, executable; StepError in a sentence."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.absolute().parent, prefix=f".{FILE}-", delete=False) as file:
            part = Path(file.name)
            file.write(payload.data)
        part.chmod(0o755)
        part.replace(path)
    except OSError as err:
        raise StepError(
            f"cannot write {path}: {(err.strerror or str(err)).lower()}", "choose another file with -o"
        ) from None


def machines(payload: Payload) -> list[str]:
    """Types of machines for which a file has psutil."""
    return [machine for machine in MACHINES if f"native/{machine}/".encode() in payload.data]


def pack(libraries: Mapping[str, bytes]) -> bytes:
    """`libraries`: psutil's compiled part by the type of machine."""
    files = dict(_files())
    for machine, library in libraries.items():
        folder = f"native/{machine}/{NATIVE}"
        files |= _below(psutil_libraries.package(), folder)
        files[f"{folder}/{psutil_libraries.FILE}"] = library
    return pack_zip(files.items(), FIRST_LINE)


def _files() -> Iterator[tuple[str, bytes]]:
    yield "__main__.py", Path(__file__).with_name("pyz_main.py").read_bytes()
    for name in PACKAGES:
        yield from _below(ROOT / name, name).items()
    for name in LIBRARIES:
        place = _find(name)
        yield from _below(place, place.name).items()
    yield from _below(_find(_toml()), TOML[0]).items()


def _below(place: Path, name: str) -> dict[str, bytes]:
    """A module's file, or a package's folder with its data."""
    if place.is_file():
        return {name: place.read_bytes()}
    wanted = {path: path.relative_to(place) for path in place.rglob("*") if not path.name.endswith(COMPILED)}
    return {
        f"{name}/{inside}": path.read_bytes()
        for path, inside in wanted.items()
        if not set(inside.parts) & set(LEFT_OUT) and path.is_file()
    }


def _toml() -> str:
    return next(name for name in TOML if importlib.util.find_spec(name))


def _find(name: str) -> Path:
    """Where a library is installed here: a folder, or a single file."""
    spec = importlib.util.find_spec(name)
    assert spec and spec.origin, name
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
