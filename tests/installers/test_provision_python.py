"""`provision --python`, conda environments and environments of uv, with real interpreters and a real index."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from installers.state import environment
from tests.installers import conda_parts
from tests.installers.provision_helpers import PackageIndex, ProvisionCommand, serve_index, write_wheel

pytestmark = pytest.mark.real
OTHER = ("3.10", "3.12", "3.13", "3.11")
SYSTEM = "/usr/bin:/bin"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    for name in ("alpha", "beta"):
        write_wheel(tmp_path / "index", name, "1.0")
    with serve_index(tmp_path / "index") as server:
        yield server


@pytest.fixture
def machine(tmp_path: Path, index: PackageIndex) -> ProvisionCommand:
    return ProvisionCommand(tmp_path, index)


def find_other_python(absent_from: str = "") -> tuple[str, str]:
    """Return minor version and path of a Python that is not this one, and of which this search path has none."""
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in (minor for minor in OTHER if not shutil.which(f"python{minor}", path=absent_from)):
        found = next(iter(sorted(versions.glob(f"{minor}.*/bin/python3"))), None)
        path = str(found) if found else shutil.which(f"python{minor}")
        if minor != own and path and not subprocess.run([path, "-m", "venv", "-h"], capture_output=True).returncode:
            return minor, path
    pytest.skip("no other Python on this machine")


@pytest.mark.extended  # needs a second Python, which not every machine has
def test_another_python(machine: ProvisionCommand) -> None:
    """The plan names the interpreter, the environment has it, a second run does nothing, another one rebuilds it."""
    minor, path = find_other_python()
    shown = machine.run_command("--dry-run", "--python", path)
    done = machine.run_command("--yes", "--python", path)
    again = machine.run_command("--yes")

    assert f"create a virtual environment with Python {minor}." in " ".join(shown.stdout.split())
    assert done.returncode == 0, done.stderr
    assert f"version = {minor}." in (machine.environment_folder / "pyvenv.cfg").read_text()
    assert "nothing to do" in again.stdout
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    other = machine.run_command("--dry-run", "--python", own)
    assert "remove the old environment" in other.stdout


# Stand-ins for the programs that get a Python: they lay a real one out as theirs, in the folder that they are given.
UV = """#!/bin/sh
[ "$1 $2 $3" = "python install --install-dir" ] || exit 2
mkdir -p "$4/cpython-$5.1-linux/bin" && ln -s {python} "$4/cpython-$5.1-linux/bin/python3"
"""
CONDA = """#!/bin/sh
[ "$1 $2 $3" = "create --yes --prefix" ] && [ "$5" = "python={minor}" ] || exit 2
mkdir -p "$4/bin" "$4/conda-meta" && ln -s {python} "$4/bin/python3"
"""


@pytest.mark.extended  # needs a second Python, which not every machine has
@pytest.mark.parametrize(("tool", "text"), [("uv", UV), ("micromamba", CONDA), ("conda", CONDA)])
def test_a_python_that_is_obtained(tool: str, text: str, machine: ProvisionCommand, tmp_path: Path) -> None:
    """Plan, script and provision get the Python with the same program, and make the environment with it."""
    minor, path = find_other_python(absent_from=SYSTEM)
    (programs := tmp_path / "programs").mkdir()
    (programs / tool).write_text(text.format(python=path, minor=minor))
    (programs / tool).chmod(0o755)
    env = {"PATH": f"{programs}:{SYSTEM}", "PYENV_ROOT": str(tmp_path), "HOME": str(tmp_path)}
    words = ("--python", minor)
    shown = machine.run_command("--dry-run", *words, **env)
    script = machine.run_command("--as-script", *words, **env)
    lines = script.stdout[: script.stdout.index("# 2.")]
    made = subprocess.run(["bash", "-c", lines], env=machine.env | env, capture_output=True, text=True, check=False)
    version = (machine.environment_folder / "pyvenv.cfg").read_text()
    shutil.rmtree(machine.home)
    done = machine.run_command("--yes", *words, **env)

    assert f"get Python {minor} with {tool}" in shown.stdout, shown.stdout + shown.stderr
    assert (made.returncode, f"version = {minor}." in version) == (0, True), made.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"version = {minor}." in (machine.environment_folder / "pyvenv.cfg").read_text()


@pytest.mark.extended  # needs a second Python, which not every machine has
def test_a_python_from_a_conda_channel(machine: ProvisionCommand, tmp_path: Path) -> None:
    """The site's channel, a folder with a real Python, is solved and installed into a conda prefix, of which the
    environment is made; a channel without that version is one sentence, and nothing is left."""
    minor, path = find_other_python(absent_from=SYSTEM)
    (programs := tmp_path / "programs").mkdir()
    conda_parts.write_program(programs / "micromamba", tmp_path)
    conda_parts.write_channel(tmp_path / "channels", Path(path), minor)
    (tmp_path / "site.toml").write_text(
        f'[site.rewrites]\n"https://conda.anaconda.org" = "file://{tmp_path}/channels"\n'
    )
    env = {"PATH": f"{programs}:{SYSTEM}", "PYENV_ROOT": str(tmp_path), "HOME": str(tmp_path)}
    words = ("--python", minor, "--config", str(tmp_path / "site.toml"))
    done = machine.run_command("--yes", *words, **env)
    again = machine.run_command("--yes", *words, **env)
    made = (machine.environment_folder / "pyvenv.cfg").read_text()
    prefix = machine.home / "pythons" / f"conda-{minor}"
    history = sorted(each.name for each in (prefix / "conda-meta").glob("*.json"))
    shutil.rmtree(machine.home)
    (tmp_path / "channels/conda-forge/linux-64/repodata.json").write_text('{"packages": {}}')
    failed = machine.run_command("--yes", *words, **env)

    assert done.returncode == 0, done.stdout + done.stderr
    assert history == ["pip-24.0-0.json", f"python-{minor}.99-0.json"]
    assert f"home = {prefix}/bin" in made
    assert "nothing to do" in again.stdout
    assert (failed.returncode, (machine.home / "pythons").exists()) == (4, False), failed.stderr
    assert f"python={minor} pip failed:" in " ".join(failed.stderr.split())


def find_uv(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the folder of the real uv, which gets no setting of this machine."""
    for name in [name for name in os.environ if name.startswith("UV_")]:
        monkeypatch.delenv(name)
    if not (path := shutil.which("uv")):
        pytest.skip("uv is not installed: pip install uv")
    return str(Path(path).parent)


@pytest.mark.extended
def test_an_environment_of_uv(machine: ProvisionCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`uv venv` with an interpreter of this machine becomes a target; pip is added first."""
    uv = find_uv(monkeypatch)
    own = tmp_path / "own"
    subprocess.run([f"{uv}/uv", "venv", "-q", "--offline", "--python", sys.executable, str(own)], check=True)
    done = machine.run_command("--yes", "--json", "--into", str(own))
    again = machine.run_command("--yes", "--into", str(own))

    assert done.returncode == 0, done.stderr
    assert [each["step"] for each in json.loads(done.stdout)["performed"]] == ["pip", "packages", "proof"]
    assert "nothing to do" in again.stdout


@pytest.mark.extended
def test_a_download_of_uv_without_network(
    machine: ProvisionCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv downloads from the mirror of the site; where that is closed, one sentence is the error and nothing is left."""
    path = f"{find_uv(monkeypatch)}:{SYSTEM}"
    minor = next(minor for minor in OTHER if not shutil.which(f"python{minor}", path=path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    (tmp_path / "site.toml").write_text(f'[site.rewrites]\n"https://github.com/" = "http://127.0.0.1:{port}/"\n')
    env = {"PATH": path, "PYENV_ROOT": str(tmp_path), "HOME": str(tmp_path), "UV_HTTP_RETRIES": "0"}
    words = ("--python", minor, "--config", str(tmp_path / "site.toml"))
    done = machine.run_command("--yes", *words, **env)

    assert done.returncode == 4, done.stdout + done.stderr
    assert "failed: 127.0.0.1: Connection refused" in " ".join(done.stderr.split())
    assert not (machine.home / "pythons").exists()


def make_conda_prefix(folder: Path) -> None:
    """Lay a real interpreter out as conda does: bin, lib and conda-meta in one folder, no pyvenv.cfg."""
    subprocess.run([sys.executable, "-m", "venv", "--copies", str(folder)], check=True)
    version = ".".join(map(str, sys.version_info[:3]))
    stdlib = folder / "lib" / f"python{version.rpartition('.')[0]}"
    source = Path(os.__file__).parent
    for each in source.iterdir():
        if each.name not in ("site-packages", "test", "__pycache__") and not (stdlib / each.name).exists():
            (stdlib / each.name).symlink_to(each)
    (folder / "pyvenv.cfg").unlink()
    (folder / "conda-meta").mkdir()
    (folder / "conda-meta" / f"python-{version}-h955ad1f_0.json").write_text("{}")
    (folder / "conda-meta" / "history").write_text("")


@pytest.mark.extended
@pytest.mark.parametrize("word", ("path", "current"))
def test_into_a_conda_environment(word: str, machine: ProvisionCommand, tmp_path: Path) -> None:
    """Packages go into the conda environment; what was there stays, and an undo is refused."""
    make_conda_prefix(tmp_path / "conda")
    into = ("--into", str(tmp_path / "conda") if word == "path" else "current")
    env = {"CONDA_PREFIX": str(tmp_path / "conda"), "VIRTUAL_ENV": ""}
    done = machine.run_command("--yes", *into, **env)
    again = machine.run_command("--yes", *into, **env)

    assert done.returncode == 0, done.stdout + done.stderr
    assert machine.read_versions(tmp_path / "conda") == "1.0 1.0"
    assert "nothing to do" in again.stdout
    undone = machine.run_command("--yes", "--undo", *into, **env)
    assert (undone.returncode, "it only added packages" in undone.stderr) == (2, True), undone.stderr
    assert (tmp_path / "conda" / "conda-meta" / "history").exists()


def make_uv_environment(folder: Path) -> None:
    subprocess.run(["uv", "venv", "-q", "--offline", "--python", sys.executable, str(folder)], check=True)


@pytest.mark.extended
@pytest.mark.parametrize("kind", ("conda", "uv"))
def test_the_script_into_an_environment(kind: str, machine: ProvisionCommand, tmp_path: Path) -> None:
    """The emitted script installs into an environment of conda or uv what provisioning installs, and nothing is left to
    do but the verification."""
    if kind == "uv" and not shutil.which("uv"):
        pytest.skip("uv is not installed: pip install uv")
    make = {"conda": make_conda_prefix, "uv": make_uv_environment}[kind]
    for name in ("script", "ours"):
        make(tmp_path / name)
    printed = machine.run_command("--as-script", "--into", str(tmp_path / "script"))
    ran = subprocess.run(["bash", "-c", printed.stdout], env=machine.env, capture_output=True, text=True, check=False)
    then = machine.run_command("--dry-run", "--json", "--into", str(tmp_path / "script"))
    done = machine.run_command("--yes", "--into", str(tmp_path / "ours"))

    assert (ran.returncode, done.returncode) == (0, 0), printed.stdout + ran.stderr + done.stderr
    assert ran.stdout.endswith("alpha 1.0\nbeta 1.0\n")
    assert [step["name"] for step in json.loads(then.stdout)["steps"]] == ["proof"]
    installed = [environment.read_environment(tmp_path / name).packages for name in ("script", "ours")]
    assert installed[0] == installed[1]


def test_an_environment_without_pip(machine: ProvisionCommand, tmp_path: Path) -> None:
    """As of `uv venv`: pip is added first, which the plan says."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    done = machine.run_command("--yes", "--json", "--into", str(tmp_path / "bare"))

    assert done.returncode == 0, done.stderr
    assert [each["step"] for each in json.loads(done.stdout)["performed"]] == ["pip", "packages", "proof"]


def test_no_active_environment(machine: ProvisionCommand) -> None:
    """--into current without one is wrong usage."""
    done = machine.run_command("--dry-run", "--into", "current", VIRTUAL_ENV="", CONDA_PREFIX="")

    assert done.returncode == 2
    assert "no environment is active" in done.stderr
