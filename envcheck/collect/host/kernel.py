"""The kernel that runs, those that are installed, and the cards' modules in each; what building a module takes.

kernel  {running, loaded: [module], versions: {module: version}, kernels: {release: {modules: [..], bootable}},
         headers: true | false | null, tools: {gcc, make, dkms: true | false}, secure_boot: true | false | null}
        modules are those of the cards alone (Vendor.kernel_modules); kernels is empty in a container
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

MODULES, SYSTEM = Path("/lib/modules"), Path("/sys/module")
SECURE_BOOT = Path("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c")
TOOLS = ("gcc", "make", "dkms")
KERNELS_LIMIT, INDEX_LIMIT = 32, 8 << 20
_INDEXED = re.compile(r"^(?:\S*/)?([\w-]+)\.ko(?:\.\w+)?:", re.MULTILINE)  # a line of modules.dep


def kernel(vendors: "Iterable[Any]") -> "dict[str, Any]":
    patterns = tuple(pattern for vendor in vendors for pattern in vendor.kernel_modules)
    running = os.uname().release
    names = (line.partition(" ")[0] for line in _text(Path("/proc/modules")).splitlines())
    loaded = [name for name in names if _of_cards(name, patterns)]
    installed = sorted(entry for entry in _folders(MODULES))[:KERNELS_LIMIT]
    return {
        "running": running,
        "loaded": sorted(loaded),
        "versions": {name: version for name, version in _versions(loaded) if version},
        "kernels": {folder.name: _kernel(folder, patterns) for folder in installed},
        "headers": (MODULES / running / "build" / "Makefile").exists() if installed else None,
        "tools": {tool: shutil.which(tool) is not None for tool in TOOLS},
        "secure_boot": _secure_boot(),
    }


def _versions(loaded: "Iterable[str]") -> "Iterator[tuple[str, str]]":
    for name in loaded:
        yield name, _text(SYSTEM / name / "version").strip()[:64]


def _kernel(folder: "Path", patterns: "Sequence[str]") -> "dict[str, Any]":
    """What modules.dep lists; a folder that an uninstalled kernel left behind boots nothing."""
    names = {found[1].replace("-", "_") for found in _INDEXED.finditer(_text(folder / "modules.dep"))}
    images = [Path(f"/boot/{kind}-{folder.name}") for kind in ("vmlinuz", "Image", "vmlinux")]
    return {
        "modules": sorted(name for name in names if _of_cards(name, patterns)),
        "bootable": any(image.exists() for image in (*images, folder / "vmlinuz")),
    }


def _of_cards(name: str, patterns: "Sequence[str]") -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _secure_boot() -> "bool | None":
    """The variable's fifth byte; a machine that did not start by EFI has none."""
    try:
        said = SECURE_BOOT.read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return said[4:5] == b"\x01" if len(said) > 4 else None


def _folders(base: "Path") -> "list[Path]":
    try:
        return [entry for entry in base.iterdir() if entry.is_dir()]
    except OSError:
        return []


def _text(path: "Path") -> str:
    try:
        with path.open("rb") as file:
            return file.read(INDEX_LIMIT).decode(errors="replace")
    except OSError:
        return ""
