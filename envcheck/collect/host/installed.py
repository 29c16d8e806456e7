"""The packages installed in a Python, from the names of its *.dist-info folders; nothing is imported."""

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PACKAGES_LIMIT, REQUIRES_LIMIT = 2000, 200
MACHINE = os.uname().machine
# Packages whose requirements matter for training; conflicts of other packages are not reported.
CHECKED_PACKAGES = frozenset(
    {
        *("torch", "torch-npu", "torchvision", "triton", "paddlepaddle", "paddlepaddle-gpu", "paddle-custom-npu"),
        *("paddle-iluvatar-gpu", "paddleformers", "erniekit", "transformers", "datasets", "peft", "trl", "accelerate"),
        *("deepspeed", "llamafactory", "ms-swift", "modelscope", "vllm", "vllm-ascend", "megatron-core", "tokenizers"),
        *("safetensors", "huggingface-hub"),
    }
)
HEAD_LIMIT = 256 << 10  # bytes of a METADATA file; the requirements precede the description
_ASK = "import json,sys;print(json.dumps(['%d.%d.%d' % sys.version_info[:3], sys.executable, sys.path]))"
# numpy-1.26.4.dist-info, foo-1.0.egg-info, foo-1.0-py3.10.egg-info
_NAMED = re.compile(r"^(?P<name>[^-]+)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info$")


def normalize_name(name: str) -> str:
    """Return paddle-custom-npu for Paddle_Custom.NPU (rule of the packaging specification)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def inspect_path_python(run: "Callable[..., Any]") -> "dict[str, Any]":
    """Return the packages of the python3 on PATH, which can differ from the Python that runs envcheck."""
    done = run(("python3", "-c", _ASK), 8.0)
    try:
        version, executable, path = json.loads(done.out)
    except ValueError:
        return {"python": None, "executable": None, "packages": {}, "requires": None, "architecture": MACHINE}
    return _describe_python(version, executable, (Path(p) for p in path if p))


def inspect_environment(folder: Path) -> "dict[str, Any]":
    """Return the packages of a virtual environment from its folders, without starting a process."""
    libraries = sorted((folder / "lib").glob("python3*/site-packages"))
    found = re.search(r"^version\S*\s*=\s*(\d+\.\d+\.\d+)", _read_text(folder / "pyvenv.cfg"), re.MULTILINE)
    return _describe_python(found[1] if found else None, str(folder / "bin" / "python"), libraries)


def _describe_python(python: "str | None", executable: str, folders: "Iterable[Path]") -> "dict[str, Any]":
    found = _find_packages(folders)
    return {
        "python": python,
        "executable": executable,
        "packages": {name: version for name, (version, _) in found.items()},
        "requires": {name: _read_requirements(found[name][1]) for name in sorted(CHECKED_PACKAGES & set(found))},
        "architecture": MACHINE,
    }


def _find_packages(folders: "Iterable[Path]") -> "dict[str, tuple[str, Path]]":
    """Return version and folder of each package; the first folder wins, as on sys.path."""
    found = {}  # type: dict[str, tuple[str, Path]]
    for folder in folders:
        for entry in sorted(_list_info_folders(folder)):
            named = _NAMED.match(entry)
            if named and len(found) < PACKAGES_LIMIT:
                found.setdefault(normalize_name(named["name"]), (named["version"], folder / entry))
    return found


def _read_requirements(folder: Path) -> "list[str]":
    """Return the Requires-Dist lines of the metadata, without those of extras."""
    try:
        with (folder / "METADATA").open("rb") as file:
            head = file.read(HEAD_LIMIT).decode("utf-8", "replace").partition("\n\n")[0]
    except OSError:
        return []
    lines = (line.partition(": ")[2] for line in head.splitlines() if line.startswith("Requires-Dist: "))
    return [line for line in lines if "extra ==" not in line][:REQUIRES_LIMIT]


def _list_info_folders(folder: "Path") -> "list[str]":
    try:
        return [entry.name for entry in folder.iterdir() if entry.name.endswith("-info")]
    except OSError:
        return []


def _read_text(path: "Path") -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
