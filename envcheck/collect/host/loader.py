"""What the dynamic loader will meet: libraries named for preloading, the C++ library, and copies of OpenMP's.

loader  {preload: {path: {machine, soname} | null}, standard: {path, gives} | null,
         wants: {library: GLIBCXX}, openmp: [path], copies: {library: [path]}}
        standard is the libstdc++ that a program here gets first; wants: the newest that frameworks' libraries want of
        it; openmp: copies of libgomp that wheels brought; copies: the files that LD_LIBRARY_PATH has of a vendor's
        library, where these are several.  Read from the files; nothing is loaded.
"""

import glob
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from envcheck.collect.host import elf
from envcheck.core import home_folder

LIBRARY = "libstdc++.so.6"
SYSTEM = ("/usr/lib/{machine}-linux-gnu", "/lib/{machine}-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib")
FRAMEWORKS = (
    "paddle/base/libpaddle.so",
    "paddle_custom_device/*.so",
    "torch/lib/libtorch_cpu.so",
    "torch_npu/lib/libtorch_npu.so",
)
OPENMP = ("*.libs/libgomp*.so*", "*/lib/libgomp*.so*", "*/.libs/libgomp*.so*")
FILES_LIMIT = 32


def loader(vendors: "Iterable[Any]") -> "dict[str, Any]":
    named = [part for part in re.split(r"[:\s]+", os.environ.get("LD_PRELOAD", "")) if part.startswith("/")]
    sites = list(_sites())[:FILES_LIMIT]
    return {
        "preload": {path: _preloaded(Path(path)) for path in named[:FILES_LIMIT]},
        "standard": _standard(),
        "wants": _wants(sites),
        "copies": _copies(vendors),
        "openmp": [path for site in sites for pattern in OPENMP for path in _glob(f"{site}/{pattern}")][:FILES_LIMIT],
    }


def _preloaded(path: "Path") -> "dict[str, Any] | None":
    if not path.exists():
        return None
    found = elf.read(path)
    return {"machine": found.machine if found else "no library", "soname": found.soname if found else None}


def _standard() -> "dict[str, Any] | None":
    """LD_LIBRARY_PATH, then a conda Python's own folder (its RPATH reaches what it loads), then the system's."""
    said = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part.startswith("/")]
    prefix = _prefix()
    own = [str(prefix / "lib")] if prefix and (prefix / "conda-meta").is_dir() else []
    system = [folder.format(machine=os.uname().machine) for folder in SYSTEM]
    for folder in (*said, *own, *system):
        found = elf.read(Path(folder) / LIBRARY)
        if found and found.gives:
            return {"path": f"{folder}/{LIBRARY}", "gives": _dotted(found.gives)}
    return None


def _wants(sites: "list[Path]") -> "dict[str, str]":
    paths = [path for site in sites for pattern in FRAMEWORKS for path in _glob(f"{site}/{pattern}")][:FILES_LIMIT]
    read = {path: elf.read(Path(path)) for path in paths}
    return {path: _dotted(found.wants) for path, found in read.items() if found and found.wants}


def _copies(vendors: "Iterable[Any]") -> "dict[str, list[str]]":
    folders = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part.startswith("/")]
    names = {name for vendor in vendors for name, _ in vendor.libraries} | {"libruntime.so"}
    found = {}  # type: dict[str, list[str]]
    for name in sorted(names):
        there = [Path(folder) / name for folder in folders[:FILES_LIMIT]]
        real = dict.fromkeys(os.path.realpath(path) for path in there if path.exists())
        if len(real) > 1:
            found[name] = list(real)
    return found


def _sites() -> "Iterator[Path]":
    """Where the python3 on PATH finds packages, without asking it."""
    home = home_folder.user_home()
    bases = [str(base) for base in (_prefix(), Path("/usr/local"), home and home / ".local") if base]
    for base in dict.fromkeys(bases):
        for kind in ("site-packages", "dist-packages"):
            yield from map(Path, _glob(f"{base}/lib/python3*/{kind}"))


def _prefix() -> "Path | None":
    """Of the environment whose python3 comes first; a virtual one is a folder, too."""
    found = shutil.which("python3")
    return Path(found).parent.parent if found else None


def _glob(pattern: str) -> "list[str]":
    return sorted(glob.glob(pattern))


def _dotted(version: "tuple[int, ...]") -> str:
    return ".".join(map(str, version))
