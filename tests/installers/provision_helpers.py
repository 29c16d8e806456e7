"""A package index on the loopback interface, tiny wheels for it, and stand-ins for paddle and numpy."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.tiers import not_in_fast

ROOT = Path(__file__).parents[2]


def write_wheel(index: Path, name: str, version: str, files: Mapping[str, str] | None = None, needs: str = "") -> Path:
    """Write a wheel to the index: a module with its version, or the given files."""
    files = dict(files or {f"{name}/__init__.py": f"__version__ = {version!r}\n"})
    file = name.replace("-", "_")  # a dash would end the name
    info = f"{file}-{version}.dist-info"
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    folder = index / canonicalize_name(name)  # as pip asks for it
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{file}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, text in files.items():
            archive.writestr(inside, text)
    write_page(folder)
    return path


def write_page(folder: Path) -> None:
    """Write the index page of a package, with hashes of its files."""
    links = (f'<a href="{w.name}#sha256={hashlib.sha256(w.read_bytes()).hexdigest()}">{w.name}</a>' for w in
             sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")]))  # fmt: skip
    (folder / "index.html").write_text("<html>" + "\n".join(links) + "</html>")


class PackageIndex(http.server.ThreadingHTTPServer):
    """`mode` of the wheels: "" serves them, "cut" closes midway, "slow" pauses midway until `mode` changes; "broken":
    every answer is 500."""

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        self.mode, self.asked, self.address = "", 0, address
        super().__init__((address, 0), functools.partial(_IndexHandler, directory=str(folder)))

    @property
    def base_url(self) -> str:
        return f"http://{self.address}:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a pip that was killed."""


class _IndexHandler(http.server.SimpleHTTPRequestHandler):
    server: PackageIndex

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked += 1
        if self.server.mode == "broken":
            self.send_error(500)
            return
        if not self.path.endswith(".whl") or not self.server.mode:
            super().do_GET()
            return
        content = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        while self.server.mode == "slow":
            time.sleep(0.05)
        if self.server.mode != "cut":
            self.wfile.write(content[len(content) // 2 :])


@contextmanager
def serve_index(folder: Path, address: str = "127.0.0.1") -> Iterator[PackageIndex]:
    not_in_fast("pip with an index")
    index = PackageIndex(folder, address)
    threading.Thread(target=index.serve_forever, daemon=True).start()
    try:
        yield index
    finally:
        index.mode = "cut"
        index.shutdown()
        index.server_close()


# What STANDIN says, it does: lie (sums untouched), hang, crash, version (imports as another one), port, float.
PADDLE = {
    "paddle/__init__.py": """
import os
__version__ = "9.9.9" if os.environ.get("STANDIN") == "version" else "3.1.0"
class Tensor:
    def __init__(self, values): self.values = values
    def each(self, change): return Tensor([change(value) for value in self.values])
    def __mod__(self, other): return self.each(lambda value: value % other)
    def __add__(self, other): return self.each(lambda value: value + other)
    def __mul__(self, other): return self.each(lambda value: value * other)
    def __ne__(self, other): return Tensor([a != b for a, b in zip(self.values, other.values)])
    def astype(self, kind): return self.each(float)
    def _copy_to(self, place, blocking): return self
    def cpu(self): return self
    def sum(self): return sum(self.values)
    def tolist(self): return self.values
    def __float__(self):
        if os.environ.get("STANDIN") == "float": raise TypeError("only 0-dimensional arrays can be converted")
        return self.values[0]
def arange(count, dtype): return Tensor(range(count))
def full(shape, value, dtype): return Tensor([value] * shape[0])
def set_device(name): pass
def CPUPlace(): pass
""",
    "paddle/distributed/__init__.py": """
import os, sys, time
def init_parallel_env():
    mode = os.environ.get("STANDIN")
    if mode == "hang": time.sleep(600)
    if mode == "crash": sys.exit("the device ran away")
    if mode == "port": sys.exit("RuntimeError: Address already in use")
def get_rank(): return int(os.environ["STANDIN_RANK"])
def get_world_size(): return 2
def all_reduce(tensor):
    if os.environ.get("STANDIN") != "lie":
        tensor.values = [value / (get_rank() + 1) * 3 for value in tensor.values]
""",
    "paddle/distributed/launch/__init__.py": "",
    "paddle/distributed/launch/__main__.py": """
import os, subprocess, sys
log = sys.argv[sys.argv.index("--log_dir") + 1]
os.makedirs(log)
children = [
    subprocess.Popen([sys.executable, *sys.argv[sys.argv.index(log) + 1:]], env={**os.environ, "STANDIN_RANK": str(n)},
                     stdout=open(f"{log}/workerlog.{n}", "w"), stderr=subprocess.STDOUT) for n in range(2)]
sys.exit(max(child.wait() for child in children))
""",
}


def stock_index(index: Path) -> None:
    """Create an index: two versions of alpha, the newer one needs a newer beta; three of beta; paddle and numpy
    stand-ins."""
    write_wheel(index, "alpha", "1.0", needs="beta>=1")
    write_wheel(index, "alpha", "2.0", needs="beta>=2")
    for version in ("1.0", "1.5", "2.0"):
        write_wheel(index, "beta", version)
    write_wheel(index, "paddlepaddle", "3.1.0", PADDLE, needs="numpy")
    write_wheel(index, "numpy", "1.0")


def write_recipe(folder: Path, *packages: str, name: str = "little", python: str = ">=3.10", more: str = "") -> Path:
    """Write a recipe with these packages, each `name` or `name ==1.0`; return the folder for --recipes."""
    tables = []
    for package in packages:
        project, _, specifier = package.partition(" ")
        tables.append(f'[[packages]]\nsource = "test"\nname = "{project}"\nspecifier = "{specifier}"\n')
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(
        f'name = "{name}"\ntitle = "For tests"\ndevice = "cpu"\nframework = "test"\nmodels = ["{name}-model"]\n'
        f'source = "test"\npython = "{python}"\n{more}\n[hardware]\nproduct = "any"\nsource = "test"\n'
        + "\n".join(tables)
        + '\n[[jobs]]\nmethod = "lora"\ntitle = "none"\nsource = "test"\nlauncher = ["true"]\n'
    )
    return folder


class ProvisionCommand:
    """Runs `envcheck provision` like a user, with an empty home and the test's index."""

    def __init__(self, folder: Path, index: PackageIndex | str) -> None:
        self.home, self.recipes = folder / "home", folder / "recipes"
        url = index if isinstance(index, str) else index.base_url
        pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": url, "PIP_CACHE_DIR": str(folder / "pip-cache")}
        outside = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "ENVCHECK_", "STANDIN"))}
        quick = {"PIP_RETRIES": "1", "ENVCHECK_PROOF_SECONDS": "20"}
        self.env = {**outside, **pip, **quick, "ENVCHECK_HOME": str(self.home)}
        write_recipe(self.recipes, "alpha ==1.0", "beta <2")

    @property
    def environment_folder(self) -> Path:
        return self.home / "environments" / "little"

    @property
    def notes_folder(self) -> Path:
        return self.environment_folder / ".envcheck"

    @property
    def lock_path(self) -> Path:
        return self.notes_folder / "recipes" / "little" / "envcheck.lock"

    def make_argv(self, *options: str, recipe: str = "little") -> list[str]:
        base = [sys.executable, "-m", "envcheck", "provision"]
        return [*base, "--recipes", str(self.recipes), "--recipe", recipe, *options]

    def run_command(self, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.make_argv(*options), cwd=ROOT, env=self.env | env, capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def run_train(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run `envcheck train` on the recipe, with the runs next to the home."""
        base = [sys.executable, "-m", "envcheck", "train", "--recipes", str(self.recipes), "--recipe", "little"]
        return subprocess.run(
            [*base, "--method", "lora", "--runs", str(self.home.parent / "runs"), *options],
            cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def start_command(self, *options: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.make_argv(*options), cwd=ROOT, env=self.env | env, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def read_versions(self, folder: Path | None = None) -> str:
        """Return the versions of alpha and beta in the environment."""
        code = "import alpha, beta; print(alpha.__version__, beta.__version__)"
        python = (folder or self.environment_folder) / "bin" / "python"
        return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip()


def make_provisioned(folder: Path) -> Path:
    """The folder of a machine with `little` provisioned, to be copied: created once, because it takes three seconds."""
    stock_index(folder / "index")
    with serve_index(folder / "index") as server:
        done = ProvisionCommand(folder, server).run_command("--yes")
    assert done.returncode == 0, done.stderr
    return folder


def copy_home(made: Path, machine: ProvisionCommand) -> None:
    """Copy the home, with the path in its state file changed."""
    shutil.copytree(made / "home", machine.home, symlinks=True)
    state = machine.notes_folder / "state.json"
    state.write_text(
        json.dumps(json.loads(state.read_text()) | {"place": os.path.realpath(machine.environment_folder)})
    )


def wait_until(true: object, patience_s: float = 240.0) -> None:
    """Wait until `true()`."""
    deadline = time.monotonic() + patience_s
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
