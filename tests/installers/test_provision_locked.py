"""`envcheck provision --lock` and `--locked`, by the command: repeat an installation exactly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from installers.locks import enforcement, lockfile
from installers.locks.enforcement import LockError
from installers.recipes import loader
from tests.installers.images.engine_parts import DockerEngine
from tests.installers.provision_helpers import (
    PackageIndex,
    ProvisionCommand,
    serve_index,
    stock_index,
    write_recipe,
    write_wheel,
)
from tests.installers.test_container_provision import ContainerCommand, box  # noqa: F401 (a fixture)

pytestmark = pytest.mark.real


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    stock_index(tmp_path / "index")
    with serve_index(tmp_path / "index") as served:
        yield served


@pytest.fixture
def machine(tmp_path: Path, index: PackageIndex) -> ProvisionCommand:
    """alpha of any version, which needs a beta that the recipe does not name."""
    made = ProvisionCommand(tmp_path, index)
    write_recipe(made.recipes, "alpha")
    return made


def test_again_elsewhere(machine: ProvisionCommand, index: PackageIndex, tmp_path: Path) -> None:
    """With the lock, a newer release on the index changes nothing, also for dependencies; without it, it is
    installed."""
    lock, elsewhere = tmp_path / "envcheck.lock", tmp_path / "elsewhere"
    first = machine.run_command("--yes", "--lock", str(lock))

    assert first.returncode == 0, first.stderr
    assert {wheel.name: wheel.version for wheel in lockfile.load_lock(lock).wheels} == {"alpha": "2.0", "beta": "2.0"}
    assert lock.read_text() == machine.lock_path.read_text()

    write_wheel(tmp_path / "index", "alpha", "3.0", needs="beta")
    write_wheel(tmp_path / "index", "beta", "4.0")
    again = machine.run_command("--yes", "--locked", str(lock), "--into", str(elsewhere))
    second = machine.run_command("--yes", "--locked", str(lock), "--into", str(elsewhere))
    plain = machine.run_command("--yes", "--into", str(elsewhere))

    assert again.returncode == 0, again.stderr
    assert machine.read_versions(elsewhere) == "2.0 2.0"
    assert "nothing to do" in second.stdout
    assert "pinned to the lock file: 2 files" in second.stdout
    assert "nothing to do" in plain.stdout  # proved for the recipe, so `envcheck train` takes it as well


def test_put_right(machine: ProvisionCommand, tmp_path: Path) -> None:
    """Packages changed since, also dependencies, are installed again in the lock's version."""
    lock = tmp_path / "envcheck.lock"
    machine.run_command("--yes", "--lock", str(lock))
    python = machine.environment_folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "beta==1.5"], env=machine.env, check=True)
    plan = machine.run_command("--dry-run", "--locked", str(lock))
    done = machine.run_command("--yes", "--locked", str(lock))

    assert "install beta==2.0" in plan.stdout
    assert done.returncode == 0, done.stderr
    assert machine.read_versions() == "2.0 2.0"


@pytest.mark.extended
def test_another_file_of_the_same_version(machine: ProvisionCommand, index: PackageIndex, tmp_path: Path) -> None:
    """An index with a file of another hash fails a step before anything is installed."""
    lock = tmp_path / "envcheck.lock"
    machine.run_command("--yes", "--lock", str(lock))
    machine.run_command("--undo", "--yes")
    write_wheel(tmp_path / "index", "beta", "2.0", {"beta/__init__.py": "__version__ = 'not the same'\n"})
    done = machine.run_command("--yes", "--locked", str(lock))

    assert done.returncode == 4, done.stdout
    assert "the file for beta==2.0 has an unexpected hash" in done.stderr
    assert machine.read_versions() == ""


@pytest.mark.parametrize(
    ("change", "told"),
    (
        (('architecture = "x86_64"', 'architecture = "aarch64"'), "the lock file is for another architecture"),
        (('recipe = "little"', 'recipe = "other"'), "the lock file is for another recipe"),
        (('recipe_sha256 = "', 'recipe_sha256 = "x'), "recipe_sha256: expected 64"),
        (("schema = 1", "schema = 9"), "schema: expected 1"),
    ),
)
def test_of_something_else(machine: ProvisionCommand, tmp_path: Path, change: tuple[str, str], told: str) -> None:
    """A lock of another recipe or machine, or an invalid one, is refused before anything is done."""
    lock = tmp_path / "envcheck.lock"
    recipe = loader.load_recipe(machine.recipes / "little.toml")
    made = lockfile.Lock(1, "0", "little", lockfile.hash_recipe(recipe), "x86_64")
    lock.write_text(lockfile.render_lock(made).replace(*change))
    done = machine.run_command("--yes", "--locked", str(lock))

    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert not machine.environment_folder.exists()


def test_what_was_there_before(machine: ProvisionCommand, tmp_path: Path) -> None:
    """For packages installed by others the file is unknown: no lock is written that could not install them."""
    own, lock = tmp_path / "own", tmp_path / "envcheck.lock"
    subprocess.run([sys.executable, "-m", "venv", own], check=True)
    subprocess.run([own / "bin" / "pip", "install", "-q", "alpha==1.0"], env=machine.env, check=True)
    done = machine.run_command("--yes", "--into", str(own), "--lock", str(lock))

    assert done.returncode == 1
    assert "the origin of the preinstalled alpha is unknown" in done.stderr
    assert not lock.exists()


def test_a_package_that_the_lock_lacks(machine: ProvisionCommand) -> None:
    """A lock without a wheel for a package of the recipe is refused, unless the image contains it."""
    recipe = loader.load_recipe(machine.recipes / "little.toml")
    lock = lockfile.Lock(1, "0", "little", lockfile.hash_recipe(recipe), "x86_64")
    beta = lockfile.LockedWheel("beta", "2.0", "beta-2.0-py3-none-any.whl", "0" * 64)

    with pytest.raises(LockError, match="no wheel for alpha"):
        enforcement.narrow_recipe(recipe, replace(lock, wheels=(beta,)), "x86_64")


@pytest.mark.extended
def test_another_python(machine: ProvisionCommand, tmp_path: Path) -> None:
    """Wheels for another Python block the plan, naming the first; wheels for any Python do not."""
    lock = tmp_path / "envcheck.lock"
    assert machine.run_command("--yes", "--lock", str(lock)).returncode == 0
    machine.run_command("--undo", "--yes")
    lock.write_text(lock.read_text().replace("beta-2.0-py3-none", "beta-2.0-cp36-cp36m"))
    done = machine.run_command("--yes", "--locked", str(lock))

    assert done.returncode == 1
    assert "beta-2.0-cp36-cp36m-any.whl in the lock file is not for Python 3." in done.stderr
    assert not machine.environment_folder.exists()


def test_in_a_container(box: ContainerCommand, engine: DockerEngine, tmp_path: Path) -> None:  # noqa: F811
    """The lock of a container has the image's digest and the wheels; with it the same is installed from scratch, and a
    newer release is ignored."""
    lock = tmp_path / "envcheck.lock"
    first = box.run_command("--yes", "--lock", str(lock))

    assert first.returncode == 0, first.stderr
    held = lockfile.load_lock(lock)
    assert held.image
    assert held.image.digest.startswith("sha256:")
    assert [(w.name, w.version) for w in held.wheels] == [("first", "1.0"), ("second", "2.1")]

    engine.run_docker("rm", "-f", box.name)
    write_wheel(tmp_path / "index", "second", "3.0")
    again = box.run_command("--yes", "--locked", str(lock))
    second = box.run_command("--yes", "--locked", str(lock))

    assert again.returncode == 0, again.stderr
    assert "second==2.1" in again.stdout
    assert box.run_inside("python3", "-c", "import second; print(second.__version__)").strip() == "2.1"
    assert "nothing to do" in second.stdout
    assert held.image.digest in engine.run_docker("inspect", "-f", "{{.Config.Image}}", box.name).stdout
