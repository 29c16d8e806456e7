"""A machine for emitted scripts: a simulated machine's files and device nodes where a real engine finds them, vendors'
libraries in an image and on the host, and stand-ins for what the recipes install."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from envcheck.simulate.build import write_simulation
from envcheck.simulate.machine_file import load_machine
from installers.recipes.recipe import Package
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import WRAPPER, DockerEngine, start_engine
from tests.installers.provision_helpers import write_wheel
from tests.installers.software.source_parts import IN_TREE, make_project, require_gcc

ROOT = Path(__file__).parents[2]
LOCAL_MAJOR = 240  # a node that is there, and no driver behind it
CARDS = 16
VENDOR_C = f"int vendor_card_count(void) {{ return {CARDS}; }}\n"
ASCEND = "usr/local/Ascend"
TOOLKIT, ATB = f"{ASCEND}/ascend-toolkit", f"{ASCEND}/nnal/atb"
SET_ENV = 'export LD_LIBRARY_PATH="/{folder}/lib64:${{LD_LIBRARY_PATH:-}}"\n'
# Where each vendor's library is, and what puts it on the path of the loader: a script that the recipe sources, a start
# file of a login shell, or the image's own variables.
COREX, XRE = "usr/local/corex/lib64", "usr/local/xre/lib64"
LIBRARIES = {"libatb.so": f"{ATB}/lib64", "libixml.so": COREX, "libxpurt.so": XRE}
COREX_PROFILE = f'export LD_LIBRARY_PATH="/{COREX}:${{LD_LIBRARY_PATH:-}}"\n'
# A Paddle and a torch that find cards through the vendor's library alone.
PADDLE = """
import ctypes, importlib.metadata as metadata
__version__ = "3.1.0"
PLUGINS = {"paddle-custom-npu": ("npu", "libatb.so"), "paddle-iluvatar-gpu": ("iluvatar_gpu", "libixml.so")}
names = {each.metadata["Name"] for each in metadata.distributions()}
found = {kind: ctypes.CDLL(library).vendor_card_count() for name, (kind, library) in PLUGINS.items() if name in names}
class Count:
    def __init__(self, count): self.device_count = lambda: count
class device:
    cuda = Count(8 if "paddlepaddle-gpu" in names else 0)
    xpu = Count(ctypes.CDLL("libxpurt.so").vendor_card_count() if "paddlepaddle-xpu" in names else 0)
    get_all_custom_device_type = staticmethod(lambda: list(found))
    get_available_custom_device = staticmethod(lambda: [f"{k}:{n}" for k, count in found.items() for n in range(count)])
def is_compiled_with_xpu(): return "paddlepaddle-xpu" in names
"""
PADDLE_FILES = {
    "paddle/__init__.py": PADDLE,
    "paddle/base/__init__.py": "",
    "paddle/base/core.py": "def is_compiled_with_flagcx(): return True\n",
}
TORCH = '__version__ = "2.10.0"\nimport torch_npu as npu\ndef randn(*sizes, device): return [0.0] * sizes[0]\n'
TORCH_NPU = """
import ctypes
count = ctypes.CDLL("libhccl.so").vendor_card_count()
def is_available(): return count > 0
def device_count(): return count
"""
TORCH_FILES = {"torch/__init__.py": TORCH}
TORCH_NPU_FILES = {"torch_npu/__init__.py": TORCH_NPU}
SWIFT_FILES = {
    "transformers/__init__.py": "",
    "transformers/utils.py": "import torch_npu\ndef is_torch_npu_available(): return torch_npu.is_available()\n",
}
FILES: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("paddlepaddle", "paddlepaddle-gpu", "paddlepaddle-xpu"), PADDLE_FILES),
    "torch": TORCH_FILES, "torch-npu": TORCH_NPU_FILES, "ms-swift": SWIFT_FILES,
}  # fmt: skip
VERSIONS = ("3.1.0", "2.10.0", "1.26.4", "0.3.1", "6.33.0", "79.0.1", "4.5.5.64", "0.4.0", "0.16.9", "4.6.0", "2.3.0")


def choose_version(specifier: str) -> str:
    """Return a version that a package of a recipe may have."""
    return next(version for version in VERSIONS if version in SpecifierSet(specifier))


def stock_packages(index: Path, packages: Sequence[Package]) -> None:
    """Write a wheel for each package, with a stand-in where a module of it is imported."""
    for package in packages:
        name = package.name.partition("[")[0]
        module = name.replace("-", "_")
        version = choose_version(package.specifier)
        plain = {f"{module}/__init__.py": f"__version__ = {version!r}\n"}
        write_wheel(index, name, version, FILES.get(name, plain))


# A project of a recipe's clones, with a build backend of its own, so that it needs nothing to be built.
BACKEND = """
import os, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    return write(folder, {{path: open(path).read() for path in {paths}}})
def build_editable(folder, config_settings=None, metadata_directory=None):
    return write(folder, {{"__{name}__.pth": os.getcwd() + "\\n"}})
def write(folder, files):
    stem = "{name}-{version}"
    files[f"{{stem}}.dist-info/METADATA"] = "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n"
    files[f"{{stem}}.dist-info/WHEEL"] = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[f"{{stem}}.dist-info/RECORD"] = "".join(path + ",,\\n" for path in files)
    with zipfile.ZipFile(os.path.join(folder, f"{{stem}}-py3-none-any.whl"), "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return f"{{stem}}-py3-none-any.whl"
"""


def make_clone_source(folder: Path, name: str, version: str, files: Mapping[str, str]) -> str:
    """Create the repository of a project with these modules; return its commit."""
    backend = BACKEND.format(name=name, version=version, paths=list(files))
    return make_project(folder, {**files, "backend.py": backend, "pyproject.toml": IN_TREE})


def build_vendor_files(folder: Path) -> dict[str, bytes]:
    """Return the vendors' libraries and start files by path, as in their images and on their hosts."""
    require_gcc()
    (folder / "vendor.c").write_text(VENDOR_C)
    library = folder / "libvendor.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(folder / "vendor.c")], check=True)
    content = library.read_bytes()
    made = {f"{place}/{name}": content for name, place in LIBRARIES.items()}
    made[f"{TOOLKIT}/lib64/libhccl.so"] = content
    made |= {f"{place}/set_env.sh": SET_ENV.format(folder=place).encode() for place in (TOOLKIT, ATB)}
    return made | {"etc/profile.d/corex.sh": COREX_PROFILE.encode()}


def push_vendor_image(reference: str, files: Mapping[str, bytes]) -> None:
    """Push the tests' Debian with the vendors' files; it has torch and LLaMA-Factory, as the latter's image has."""
    packages = "usr/lib/python3/dist-packages"
    modules = {f"{packages}/{path}": text.encode() for path, text in {**TORCH_FILES, **TORCH_NPU_FILES}.items()}
    program = {"usr/local/bin/llamafactory-cli": b"#!/usr/bin/python3\nimport torch_npu\n"}
    layers = [image_parts.load_debian(), image_parts.make_layer({**files, **modules, **program})]
    config = {**image_parts.PYTHON_CONFIG, "Env": [*image_parts.PYTHON_CONFIG["Env"], f"LD_LIBRARY_PATH=/{XRE}"]}
    image_parts.push_image(reference, layers, config=config)


def lay_machine(name: str, folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write the files and real device nodes of the simulated machine, and the vendors' files; return their root."""
    folder.mkdir()
    write_simulation(load_machine(name), folder, 0.0)
    root = folder / "root"
    for number, node in enumerate(sorted((root / "dev").glob("*"))):
        if node.is_file():
            node.unlink()
            os.mknod(node, stat.S_IFCHR | 0o660, os.makedev(LOCAL_MAJOR, number))
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    for place in ("usr/local/bin", "usr/lib/modules", "var/log/npu", f"{ASCEND}/driver", f"{ASCEND}/firmware"):
        (root / place).mkdir(parents=True, exist_ok=True)
    for tool in (folder / "bin").iterdir():
        if not (root / "usr/local/bin" / tool.name).exists() and tool.name != "docker":
            (root / "usr/local/bin" / tool.name).write_text("#!/bin/sh\n")
    return root


@dataclass(frozen=True)
class ScriptMachine:
    """A machine with an engine; commands run there in its own mount namespace."""

    name: str
    engine: DockerEngine
    folder: Path

    @property
    def child_variables(self) -> dict[str, str]:
        outside = {k: v for k, v in self.engine.child_environment.items() if not k.startswith(("PIP_", "ENVCHECK_"))}
        own = {"ENVCHECK_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        loader = {"LD_LIBRARY_PATH": f"/{COREX}:/{XRE}"}  # a user's shell has them; those of Ascend, its scripts set
        return {**outside, **own, **loader, "PIP_CONFIG_FILE": os.devnull}

    @property
    def gateway(self) -> str:
        """Return this machine's address in the containers' network."""
        format_ = "{{(index .IPAM.Config 0).Gateway}}"
        return self.engine.run_docker("network", "inspect", "-f", format_, "bridge").stdout.strip()

    def remove_containers(self) -> None:
        there = self.engine.run_docker("ps", "-aq").stdout.split()
        self.engine.run_docker("rm", "-f", *there, check=False)

    def run_envcheck(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run envcheck on the simulated machine with the real engine."""
        envcheck = [sys.executable, "-m", "envcheck"]
        around = [*envcheck, "simulate", self.name, "--", "env", f"DOCKER_HOST={self.engine.docker_host}"]
        return self.run_inside([*around, *envcheck, *words])

    def run_inside(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command where the engine sees its files."""
        there = ["nsenter", f"--mount=/proc/{self.engine.pid}/ns/mnt", f"--wd={self.folder}"]
        env = self.child_variables
        return subprocess.run(
            [*there, *argv], env=env, capture_output=True, text=True, timeout=500, stdin=subprocess.DEVNULL
        )


@contextlib.contextmanager
def start_machine(name: str, folder: Path, files: Mapping[str, bytes]) -> Iterator[ScriptMachine]:
    """A real engine on a machine that has the simulated one's files; its runtime `nvidia` gives a container nothing."""
    root = lay_machine(name, folder / "machine", files)
    with start_engine("--add-runtime", f"nvidia={WRAPPER}", overlay=root) as engine:
        (folder / "work").mkdir()
        yield ScriptMachine(name, engine, folder / "work")
