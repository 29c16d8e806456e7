"""Two recipes provisioned in one folder, by the command: each has its own verification and lock."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from installers.locks import lockfile
from tests.installers.bundle.test_bundle_sources import CHECKOUT
from tests.installers.provision_helpers import (
    ROOT,
    ProvisionCommand,
    serve_index,
    stock_index,
    write_recipe,
    write_wheel,
)
from tests.installers.software.source_parts import make_project
from tests.tiers import thin_out

pytestmark = pytest.mark.real

NAMES = ("little", "second")


class SharedEnvironment(ProvisionCommand):
    """`little` needs alpha and beta; `second` needs gamma, which needs beta and delta."""

    def provision_recipe(self, recipe: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.make_argv("--into", str(self.shared_folder), *options, recipe=recipe), cwd=ROOT, env=self.env,
            capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def shared_folder(self) -> Path:
        return self.home.parent / "shared"

    def list_steps(self, recipe: str) -> list[str]:
        """Return the names of the steps that provision would do."""
        said = json.loads(self.provision_recipe(recipe, "--dry-run", "--json").stdout)
        return [str(step["name"]) for step in said["steps"]]

    def list_gates(self, recipe: str) -> dict[str, str]:
        """Return the status of each preflight check of a training."""
        argv = [sys.executable, "-m", "envcheck", "train", "--recipes", self.recipes, "--recipe", recipe, "--gates"]
        more = ["--into", self.shared_folder, "--runs", self.home.parent / "runs", "--json"]
        done = subprocess.run([*argv, *more], cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=120)
        return {gate["name"]: gate["status"] for gate in json.loads(done.stdout)["gates"]}

    def run_pip(self, *words: str) -> None:
        argv = [self.shared_folder / "bin" / "python", "-m", "pip", *words, "-q"]
        subprocess.run(argv, env=self.env, check=True, capture_output=True)

    def load_lock(self, recipe: str) -> lockfile.Lock:
        return lockfile.load_lock(self.shared_folder / ".envcheck" / "recipes" / recipe / "envcheck.lock")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[SharedEnvironment]:
    index = tmp_path / "index"
    stock_index(index)
    write_wheel(index, "alpha", "1.0.1", needs="beta>=1")
    for version in ("1.0", "2.0"):
        write_wheel(index, "gamma", version, needs="beta\nRequires-Dist: delta")
        write_wheel(index, "delta", version)
    with serve_index(index) as served:
        made = SharedEnvironment(tmp_path, served)
        write_recipe(made.recipes, "alpha <2", "beta <2")
        write_recipe(made.recipes, "gamma ==1.0", name="second")
        for name in NAMES:
            done = made.provision_recipe(name, "--yes")
            assert done.returncode == 0, done.stderr
        yield made


def test_both_are_proved(machine: SharedEnvironment) -> None:
    """Provisioning the second recipe leaves nothing to do for the first; both can be trained, and the first lock is
    unchanged."""
    assert [machine.list_steps(name) for name in NAMES] == [[], []]
    for name in NAMES:
        found = machine.list_gates(name)
        assert (found["gate.environment"], found["gate.lock"]) == ("OK", "OK"), found


@pytest.mark.parametrize(
    ("words", "stale"),
    thin_out(
        1,
        (
            (("install", "--no-deps", "beta==1.0"), ["little", "second"]),
            (("install", "--no-deps", "alpha==1.0"), ["little"]),
            (("install", "--no-deps", "delta==1.0"), ["second"]),
            (("uninstall", "--yes", "alpha"), ["little"]),
        ),
    ),
    ids=("of-both", "of-the-first", "of-the-second", "gone"),
)
def test_a_change_by_hand(words: tuple[str, ...], stale: list[str], machine: SharedEnvironment) -> None:
    """A changed package fails the preflight checks of the recipes that need it, until they are verified again."""
    machine.run_pip(*words)

    assert [name for name in NAMES if machine.list_steps(name)] == stale
    for gate in ("gate.environment", "gate.lock"):
        assert [name for name in NAMES if machine.list_gates(name)[gate] != "OK"] == stale

    for name in stale:
        assert machine.provision_recipe(name, "--yes").returncode == 0

    assert [machine.list_steps(name) for name in NAMES] == [[], []]


def test_a_failed_proof_of_the_other(machine: SharedEnvironment) -> None:
    """A second recipe that fails its verification leaves the first as it is."""
    write_recipe(machine.recipes, "gamma ==2.0", name="second", more='verify = [["{python}", "-c", "exit(1)"]]')
    done = machine.provision_recipe("second", "--yes")

    assert done.returncode == 4
    assert machine.list_steps("little") == []
    assert machine.list_steps("second") == ["proof"]
    assert machine.list_gates("little")["gate.environment"] == "OK"


def test_a_clone_of_both(machine: SharedEnvironment, tmp_path: Path) -> None:
    """Moving a shared clone invalidates the other recipe's verification; leaving it does not."""
    make_project(tmp_path / "project", {"one.py": ""})
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path / "project"))
    for words in (("commit", "-q", "--allow-empty", "-m", "two"), ("tag", "v2")):
        subprocess.run(["git", *who, *words], check=True)
    clone = CHECKOUT.format(tmp_path / "project", "{}", tmp_path / "clone", "")
    little, second = (machine.recipes / f"{name}.toml" for name in NAMES)
    plain = second.read_text()
    little.write_text(little.read_text() + clone.format("v1"))
    second.write_text(plain + clone.format("v1"))
    assert [machine.provision_recipe(name, "--yes").returncode for name in NAMES] == [0, 0]

    assert [machine.list_steps(name) for name in NAMES] == [[], []]

    second.write_text(plain + clone.format("v2"))
    assert machine.provision_recipe("second", "--yes").returncode == 0

    assert [machine.list_steps(name) for name in NAMES] == [["clone", "proof"], []]
    assert [machine.list_gates(name)["gate.environment"] for name in NAMES] == ["FAIL", "OK"]


def test_each_has_its_lock(machine: SharedEnvironment) -> None:
    """Each lock names its recipe and has its needs, also if the other recipe installed them; with it the recipe alone
    can be installed elsewhere."""
    first, second = (machine.load_lock(name) for name in NAMES)

    assert (first.recipe, {wheel.name for wheel in first.wheels}) == ("little", {"alpha", "beta"})
    assert (second.recipe, {wheel.name for wheel in second.wheels}) == ("second", {"beta", "delta", "gamma"})

    file, elsewhere = machine.home.parent / "second.lock", machine.home.parent / "elsewhere"
    assert machine.provision_recipe("second", "--lock", str(file)).returncode == 0
    again = machine.provision_recipe("second", "--yes", "--locked", str(file))
    argv = machine.make_argv("--into", str(elsewhere), "--yes", "--locked", str(file), recipe="second")
    done = subprocess.run(argv, cwd=ROOT, env=machine.env, capture_output=True, text=True, timeout=120)

    assert "nothing to do" in again.stdout
    assert done.returncode == 0, done.stderr
    assert not list(elsewhere.glob("lib/python3*/site-packages/alpha*"))


def test_of_the_old_layout(machine: SharedEnvironment) -> None:
    """State files and locks of earlier versions are used, and written in the current form with the next step."""
    own = machine.shared_folder / ".envcheck"
    mark = json.loads((own / "state.json").read_text())
    proof = mark.pop("proofs")["second"]
    old = {"schema": 1, "recipe": "second", "digest": proof["digest"], "proven": proof["packages"]}
    (own / "state.json").write_text(json.dumps({**mark, **old}))
    (own / "recipes" / "second" / "envcheck.lock").replace(own / "envcheck.lock")
    (own / "recipes" / "little" / "envcheck.lock").unlink()

    assert machine.list_steps("second") == []
    assert machine.list_gates("second")["gate.lock"] == "OK"
    assert machine.list_steps("little") == ["proof"]

    machine.run_pip("install", "--no-deps", "delta==1.0")
    assert [machine.provision_recipe(name, "--yes").returncode for name in NAMES] == [0, 0]

    assert [machine.list_steps(name) for name in NAMES] == [[], []]
    assert not (own / "envcheck.lock").exists()
    assert {wheel.name for wheel in machine.load_lock("little").wheels} == {"beta"}  # of alpha nobody knows any more


def test_undo_names_both(machine: SharedEnvironment) -> None:
    """An undo names the recipes of the environment."""
    shown = machine.provision_recipe("second", "--undo", "--dry-run")

    assert "virtual environment for little, second with" in shown.stdout
    assert machine.provision_recipe("second", "--undo", "--yes").returncode == 0
    assert not machine.shared_folder.exists()
