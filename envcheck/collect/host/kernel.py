"""The running kernel, the installed ones, the devices' modules in each, and the tools for building modules.

kernel  {running, loaded: [module], versions: {module: version}, kernels: {release: {modules: [..], bootable}},
         headers: true | false | null, tools: {gcc, make, dkms: true | false}, secure_boot: true | false | null}
        modules are only those of the devices (Vendor.kernel_modules); kernels is empty in a container
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


def collect_kernel(vendors: "Iterable[Any]") -> "dict[str, Any]":
    """Return the facts above."""
    patterns = tuple(pattern for vendor in vendors for pattern in vendor.kernel_modules)
    running = os.uname().release
    names = (line.partition(" ")[0] for line in _read_text(Path("/proc/modules")).splitlines())
    loaded = [name for name in names if _is_device_module(name, patterns)]
    installed = sorted(entry for entry in _list_folders(MODULES))[:KERNELS_LIMIT]
    return {
        "running": running,
        "loaded": sorted(loaded),
        "versions": {name: version for name, version in _read_module_versions(loaded) if version},
        "kernels": {folder.name: _inspect_kernel(folder, patterns) for folder in installed},
        "headers": (MODULES / running / "build" / "Makefile").exists() if installed else None,
        "tools": {tool: shutil.which(tool) is not None for tool in TOOLS},
        "secure_boot": _read_secure_boot(),
    }


def _read_module_versions(loaded: "Iterable[str]") -> "Iterator[tuple[str, str]]":
    for name in loaded:
        yield name, _read_text(SYSTEM / name / "version").strip()[:64]


def _inspect_kernel(folder: "Path", patterns: "Sequence[str]") -> "dict[str, Any]":
    """Return the modules in modules.dep; the folder of an uninstalled kernel is not bootable."""
    names = {found[1].replace("-", "_") for found in _INDEXED.finditer(_read_text(folder / "modules.dep"))}
    images = [Path(f"/boot/{kind}-{folder.name}") for kind in ("vmlinuz", "Image", "vmlinux")]
    return {
        "modules": sorted(name for name in names if _is_device_module(name, patterns)),
        "bootable": any(image.exists() for image in (*images, folder / "vmlinuz")),
    }


def _is_device_module(name: str, patterns: "Sequence[str]") -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _read_secure_boot() -> "bool | None":
    """Return the fifth byte of the EFI variable; a host that did not boot by EFI has none."""
    try:
        data = SECURE_BOOT.read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return data[4:5] == b"\x01" if len(data) > 4 else None


def _list_folders(base: "Path") -> "list[Path]":
    try:
        return [entry for entry in base.iterdir() if entry.is_dir()]
    except OSError:
        return []


def _read_text(path: "Path") -> str:
    try:
        with path.open("rb") as file:
            return file.read(INDEX_LIMIT).decode(errors="replace")
    except OSError:
        return ""
