"""What the dynamic loader will find: preloaded libraries, the C++ library, and copies of OpenMP's library.

loader  {preload: {path: {machine, soname} | null}, standard: {path, gives} | null,
         wants: {library: GLIBCXX}, openmp: [path], copies: {library: [path]}}
        standard: the libstdc++ that a program gets first; wants: the newest GLIBCXX that framework libraries need;
        openmp: copies of libgomp in wheels; copies: the files of a vendor library on LD_LIBRARY_PATH, if several.
        Read from the files; nothing is loaded.
"""

import glob
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from envcheck.collect.host import elf
from envcheck.core.portable import home_folder

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


def collect_loader(vendors: "Iterable[Any]") -> "dict[str, Any]":
    """Return the facts above from LD_PRELOAD, LD_LIBRARY_PATH and the site-packages folders."""
    named = [part for part in re.split(r"[:\s]+", os.environ.get("LD_PRELOAD", "")) if part.startswith("/")]
    sites = list(_find_site_packages())[:FILES_LIMIT]
    return {
        "preload": {path: _inspect_preloaded(Path(path)) for path in named[:FILES_LIMIT]},
        "standard": _find_libstdcxx(),
        "wants": _read_glibcxx_needs(sites),
        "copies": _find_library_copies(vendors),
        "openmp": [path for site in sites for pattern in OPENMP for path in _sorted_glob(f"{site}/{pattern}")][
            :FILES_LIMIT
        ],
    }


def _inspect_preloaded(path: "Path") -> "dict[str, Any] | None":
    if not path.exists():
        return None
    found = elf.read_library(path)
    return {"machine": found.machine if found else "not a library", "soname": found.soname if found else None}


def _find_libstdcxx() -> "dict[str, Any] | None":
    """Search LD_LIBRARY_PATH, then the lib folder of a conda Python (its RPATH), then the system's folders."""
    given = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part.startswith("/")]
    prefix = _find_python_prefix()
    own = [str(prefix / "lib")] if prefix and (prefix / "conda-meta").is_dir() else []
    system = [folder.format(machine=os.uname().machine) for folder in SYSTEM]
    for folder in (*given, *own, *system):
        found = elf.read_library(Path(folder) / LIBRARY)
        if found and found.gives:
            return {"path": f"{folder}/{LIBRARY}", "gives": _format_version(found.gives)}
    return None


def _read_glibcxx_needs(sites: "list[Path]") -> "dict[str, str]":
    paths = [path for site in sites for pattern in FRAMEWORKS for path in _sorted_glob(f"{site}/{pattern}")][
        :FILES_LIMIT
    ]
    read = {path: elf.read_library(Path(path)) for path in paths}
    return {path: _format_version(found.wants) for path, found in read.items() if found and found.wants}


def _find_library_copies(vendors: "Iterable[Any]") -> "dict[str, list[str]]":
    folders = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part.startswith("/")]
    names = {name for vendor in vendors for name, _ in vendor.libraries} | {"libruntime.so"}
    found = {}  # type: dict[str, list[str]]
    for name in sorted(names):
        there = [Path(folder) / name for folder in folders[:FILES_LIMIT]]
        real = dict.fromkeys(os.path.realpath(path) for path in there if path.exists())
        if len(real) > 1:
            found[name] = list(real)
    return found


def _find_site_packages() -> "Iterator[Path]":
    """Yield the package folders of the python3 on PATH, without running it."""
    home = home_folder.find_user_home()
    bases = [str(base) for base in (_find_python_prefix(), Path("/usr/local"), home and home / ".local") if base]
    for base in dict.fromkeys(bases):
        for kind in ("site-packages", "dist-packages"):
            yield from map(Path, _sorted_glob(f"{base}/lib/python3*/{kind}"))


def _find_python_prefix() -> "Path | None":
    """Return the prefix of the first python3 on PATH, which can be a virtual environment."""
    found = shutil.which("python3")
    return Path(found).parent.parent if found else None


def _sorted_glob(pattern: str) -> "list[str]":
    return sorted(glob.glob(pattern))


def _format_version(version: "tuple[int, ...]") -> str:
    return ".".join(map(str, version))
