"""The whole of envcheck as one file, for what changes a node: provisioning, training.  Content-hashed, travels once.

It is a zip of our packages and of the libraries that they import, unpacked in the node's cache, since their data are
read as files.  One library is compiled, psutil; it lies apart, and where the node cannot load it the node's own is
taken.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from envcheck.payload import cache as kept
from envcheck.payload.content import ROOT, Payload, pack_zip

PACKAGES = ("envcheck", "probes", "installers", "launch")
# Import names: those of setup.cfg and what they need, a test compares.
LIBRARIES = ("click", "defusedxml", "docker", "requests", "urllib3", "idna", "certifi", "charset_normalizer",
             "packaging", "pexpect", "ptyprocess", "rich", "tabulate", "yaml", "jinja2", "markupsafe")  # fmt: skip
NATIVE = "psutil"
# For asking hosts, reading scripts and large logs: not there, or slower there.
AT_HOME = ("ClusterShell", "tree_sitter", "tree_sitter_bash", "ahocorasick_rs")
ELSEWHERE = ("tomli", "pip._vendor.tomli")  # of Python 3.10 alone, taken from where it is found
LEFT_OUT = ("__pycache__", "tests", "test")
COMPILED = (".so", ".pyd", ".pyc", ".pyi", ".c", ".h", ".pyx")  # what has a compiled twin has a plain one, too


@cache
def parcel() -> Payload:
    places = (*(ROOT / name for name in PACKAGES), *(place for name in LIBRARIES for place in _found(name)))
    data = kept.through(places, packed, "whole-", "*")
    return Payload.of(data)


def packed() -> bytes:
    return pack_zip((name, path.read_bytes()) for name, path in _files())


def _files() -> Iterator[tuple[str, Path]]:
    """(name in the zip, where it is here)."""
    for name in PACKAGES:
        yield from _below(ROOT / name, name)
    for name in LIBRARIES:
        for place in _found(name):
            yield from _below(place, place.name)
    for place in _found(NATIVE):
        yield from _below(place, f"native/{place.name}", ".abi3.so")
    for name in ELSEWHERE:
        if found := list(_found(name)):
            yield from _below(found[0], "tomli")
            return


def _below(place: Path, name: str, also: str = "\0") -> Iterator[tuple[str, Path]]:
    """A module's file, or a package's folder with its data; `also`: with files of this ending."""
    if place.is_file():
        yield name, place
        return
    for path in place.rglob("*"):
        inside = path.relative_to(place)
        wanted = not path.name.endswith(COMPILED) or path.name.endswith(also)
        if wanted and not set(inside.parts) & set(LEFT_OUT) and path.is_file():
            yield f"{name}/{inside}", path


def _found(name: str) -> Iterator[Path]:
    """Where the library is installed here: a folder, or a single file."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return
    if spec and spec.origin:
        yield Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
