"""`envcheck provision --lock` and `--locked`, by the command: what was put in place, put in place again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from installers.locks import lockfile, lockfile_use
from installers.locks.lockfile_use import LockError
from installers.recipes import recipes_file
from tests.installers.images.engine_parts import Engine
from tests.installers.provision_helpers import Index, Machine, recipe_file, serving, stock, wheel
from tests.installers.test_boxed import Box, box  # noqa: F401 (a fixture)

pytestmark = pytest.mark.real


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    stock(tmp_path / "index")
    with serving(tmp_path / "index") as served:
        yield served


@pytest.fixture
def machine(tmp_path: Path, index: Index) -> Machine:
    """alpha of any version, which needs a beta that the recipe does not name."""
    made = Machine(tmp_path, index)
    recipe_file(made.recipes, "alpha")
    return made


def test_again_elsewhere(machine: Machine, index: Index, tmp_path: Path) -> None:
    """A newer release on the index later changes nothing for who has the lock; without it, it would be taken.  What a
    package needs is held, too."""
    lock, elsewhere = tmp_path / "envcheck.lock", tmp_path / "elsewhere"
    first = machine.run("--yes", "--lock", str(lock))

    assert first.returncode == 0, first.stderr
    assert {wheel.name: wheel.version for wheel in lockfile.load(lock).wheels} == {"alpha": "2.0", "beta": "2.0"}
    assert lock.read_text() == machine.lock.read_text()

    wheel(tmp_path / "index", "alpha", "3.0", needs="beta")
    wheel(tmp_path / "index", "beta", "4.0")
    again = machine.run("--yes", "--locked", str(lock), "--into", str(elsewhere))
    second = machine.run("--yes", "--locked", str(lock), "--into", str(elsewhere))
    plain = machine.run("--yes", "--into", str(elsewhere))

    assert again.returncode == 0, again.stderr
    assert machine.versions(elsewhere) == "2.0 2.0"
    assert "nothing to do" in second.stdout
    assert "exactly as the lock has it: 2 files" in second.stdout
    assert "nothing to do" in plain.stdout  # proved for the recipe, so `envcheck train` takes it as well


def test_put_right(machine: Machine, tmp_path: Path) -> None:
    """What was changed since, also of what a package needs, is put back to the lock's version."""
    lock = tmp_path / "envcheck.lock"
    machine.run("--yes", "--lock", str(lock))
    python = machine.folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "beta==1.5"], env=machine.env, check=True)
    plan = machine.run("--dry-run", "--locked", str(lock))
    done = machine.run("--yes", "--locked", str(lock))

    assert "install beta==2.0" in plan.stdout
    assert done.returncode == 0, done.stderr
    assert machine.versions() == "2.0 2.0"


def test_another_file_of_the_same_version(machine: Machine, index: Index, tmp_path: Path) -> None:
    """An index whose file has another hash than the lock is refused by a failed step, before anything is installed."""
    lock = tmp_path / "envcheck.lock"
    machine.run("--yes", "--lock", str(lock))
    machine.run("--undo", "--yes")
    wheel(tmp_path / "index", "beta", "2.0", {"beta/__init__.py": "__version__ = 'not the same'\n"})
    done = machine.run("--yes", "--locked", str(lock))

    assert done.returncode == 4, done.stdout
    assert "the file of beta==2.0 has another hash" in done.stderr
    assert machine.versions() == ""


@pytest.mark.parametrize(
    ("change", "told"),
    (
        (('architecture = "x86_64"', 'architecture = "aarch64"'), "of another architecture"),
        (('recipe = "little"', 'recipe = "other"'), "of another recipe"),
        (('recipe_sha256 = "', 'recipe_sha256 = "x'), "recipe_sha256: expected 64"),
        (("schema = 1", "schema = 9"), "schema: expected 1"),
    ),
)
def test_of_something_else(machine: Machine, tmp_path: Path, change: tuple[str, str], told: str) -> None:
    """A lock of another recipe or machine, or none at all, is refused before anything is done."""
    lock = tmp_path / "envcheck.lock"
    recipe = recipes_file.load(machine.recipes / "little.toml")
    made = lockfile.Lock(1, "0", "little", lockfile.recipe_hash(recipe), "x86_64")
    lock.write_text(lockfile.dump(made).replace(*change))
    done = machine.run("--yes", "--locked", str(lock))

    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert not machine.folder.exists()


def test_what_was_there_before(machine: Machine, tmp_path: Path) -> None:
    """Of what somebody else installed nobody knows the file: a lock that could not bring it back is not written."""
    own, lock = tmp_path / "own", tmp_path / "envcheck.lock"
    subprocess.run([sys.executable, "-m", "venv", own], check=True)
    subprocess.run([own / "bin" / "pip", "install", "-q", "alpha==1.0"], env=machine.env, check=True)
    done = machine.run("--yes", "--into", str(own), "--lock", str(lock))

    assert done.returncode == 1
    assert "which file alpha came" in done.stderr
    assert not lock.exists()


def test_a_package_that_the_lock_lacks(machine: Machine) -> None:
    """A lock without a wheel for one of the recipe's packages is refused, unless the image brought it."""
    recipe = recipes_file.load(machine.recipes / "little.toml")
    lock = lockfile.Lock(1, "0", "little", lockfile.recipe_hash(recipe), "x86_64")
    beta = lockfile.Wheel("beta", "2.0", "beta-2.0-py3-none-any.whl", "0" * 64)

    with pytest.raises(LockError, match="no wheel for alpha"):
        lockfile_use.narrowed(recipe, replace(lock, wheels=(beta,)), "x86_64")


def test_another_python(machine: Machine, tmp_path: Path) -> None:
    """Files for another Python stop the plan, naming the first; those for any Python do not."""
    lock = tmp_path / "envcheck.lock"
    assert machine.run("--yes", "--lock", str(lock)).returncode == 0
    machine.run("--undo", "--yes")
    lock.write_text(lock.read_text().replace("beta-2.0-py3-none", "beta-2.0-cp36-cp36m"))
    done = machine.run("--yes", "--locked", str(lock))

    assert done.returncode == 1
    assert "beta-2.0-cp36-cp36m-any.whl of the lock is not for Python 3." in done.stderr
    assert not machine.folder.exists()


def test_in_a_container(box: Box, engine: Engine, tmp_path: Path) -> None:  # noqa: F811
    """The lock of a container holds the image's digest and the wheels; with it the same comes to be from nothing, and
    a newer release is left alone."""
    lock = tmp_path / "envcheck.lock"
    first = box.run("--yes", "--lock", str(lock))

    assert first.returncode == 0, first.stderr
    held = lockfile.load(lock)
    assert held.image
    assert held.image.digest.startswith("sha256:")
    assert [(w.name, w.version) for w in held.wheels] == [("first", "1.0"), ("second", "2.1")]

    engine.docker("rm", "-f", box.name)
    wheel(tmp_path / "index", "second", "3.0")
    again = box.run("--yes", "--locked", str(lock))
    second = box.run("--yes", "--locked", str(lock))

    assert again.returncode == 0, again.stderr
    assert "second==2.1" in again.stdout
    assert box.inside("python3", "-c", "import second; print(second.__version__)").strip() == "2.1"
    assert "nothing to do" in second.stdout
    assert held.image.digest in engine.docker("inspect", "-f", "{{.Config.Image}}", box.name).stdout
