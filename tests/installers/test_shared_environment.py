"""Two recipes provisioned in one folder, by the command: the proof and the lock of each are its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from installers.locks import lockfile
from tests.installers.bundle.test_bundle_sources import CHECKOUT
from tests.installers.provision_helpers import ROOT, Machine, recipe_file, serving, stock, wheel
from tests.installers.software.source_parts import project

pytestmark = pytest.mark.real

NAMES = ("little", "second")


class Shared(Machine):
    """`little` needs alpha and beta; `second` gamma, which needs beta and delta."""

    def provision(self, recipe: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv("--into", str(self.into), *options, recipe=recipe), cwd=ROOT, env=self.env, capture_output=True,
            text=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def into(self) -> Path:
        return self.home.parent / "shared"

    def steps(self, recipe: str) -> list[str]:
        """What provision would do."""
        said = json.loads(self.provision(recipe, "--dry-run", "--json").stdout)
        return [str(step["name"]) for step in said["steps"]]

    def gates(self, recipe: str) -> dict[str, str]:
        """The status of each gate of a training."""
        argv = [sys.executable, "-m", "envcheck", "train", "--recipes", self.recipes, "--recipe", recipe, "--gates"]
        more = ["--into", self.into, "--runs", self.home.parent / "runs", "--json"]
        done = subprocess.run([*argv, *more], cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=120)
        return {gate["name"]: gate["status"] for gate in json.loads(done.stdout)["gates"]}

    def pip(self, *words: str) -> None:
        argv = [self.into / "bin" / "python", "-m", "pip", *words, "-q"]
        subprocess.run(argv, env=self.env, check=True, capture_output=True)

    def kept_lock(self, recipe: str) -> lockfile.Lock:
        return lockfile.load(self.into / ".envcheck" / "recipes" / recipe / "envcheck.lock")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Shared]:
    index = tmp_path / "index"
    stock(index)
    wheel(index, "alpha", "1.0.1", needs="beta>=1")
    for version in ("1.0", "2.0"):
        wheel(index, "gamma", version, needs="beta\nRequires-Dist: delta")
        wheel(index, "delta", version)
    with serving(index) as served:
        made = Shared(tmp_path, served)
        recipe_file(made.recipes, "alpha <2", "beta <2")
        recipe_file(made.recipes, "gamma ==1.0", name="second")
        for name in NAMES:
            done = made.provision(name, "--yes")
            assert done.returncode == 0, done.stderr
        yield made


def test_both_are_proved(machine: Shared) -> None:
    """The second recipe's provisioning leaves nothing to do for the first; a training of either may start, and its
    lock is as it was left."""
    assert [machine.steps(name) for name in NAMES] == [[], []]
    for name in NAMES:
        found = machine.gates(name)
        assert (found["gate.environment"], found["gate.lock"]) == ("OK", "OK"), found


@pytest.mark.parametrize(
    ("words", "stale"),
    (
        (("install", "--no-deps", "alpha==1.0"), ["little"]),
        (("install", "--no-deps", "delta==1.0"), ["second"]),
        (("install", "--no-deps", "beta==1.0"), ["little", "second"]),
        (("uninstall", "--yes", "alpha"), ["little"]),
    ),
    ids=("of-the-first", "of-the-second", "of-both", "gone"),
)
def test_a_change_by_hand(words: tuple[str, ...], stale: list[str], machine: Shared) -> None:
    """What pip changes counts for the recipes that need it, and closes their gates alone; proved again, it is well."""
    machine.pip(*words)

    assert [name for name in NAMES if machine.steps(name)] == stale
    for gate in ("gate.environment", "gate.lock"):
        assert [name for name in NAMES if machine.gates(name)[gate] != "OK"] == stale

    for name in stale:
        assert machine.provision(name, "--yes").returncode == 0

    assert [machine.steps(name) for name in NAMES] == [[], []]


def test_a_failed_proof_of_the_other(machine: Shared) -> None:
    """A second recipe that cannot be proved leaves the first as it is."""
    recipe_file(machine.recipes, "gamma ==2.0", name="second", more='verify = [["{python}", "-c", "exit(1)"]]')
    done = machine.provision("second", "--yes")

    assert done.returncode == 4
    assert machine.steps("little") == []
    assert machine.steps("second") == ["proof"]
    assert machine.gates("little")["gate.environment"] == "OK"


def test_a_clone_of_both(machine: Shared, tmp_path: Path) -> None:
    """Who moves a clone that both have makes the other's proof void, and closes its gate; who leaves it does not."""
    project(tmp_path / "project", {"one.py": ""})
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path / "project"))
    for words in (("commit", "-q", "--allow-empty", "-m", "two"), ("tag", "v2")):
        subprocess.run(["git", *who, *words], check=True)
    clone = CHECKOUT.format(tmp_path / "project", "{}", tmp_path / "clone", "")
    little, second = (machine.recipes / f"{name}.toml" for name in NAMES)
    plain = second.read_text()
    little.write_text(little.read_text() + clone.format("v1"))
    second.write_text(plain + clone.format("v1"))
    assert [machine.provision(name, "--yes").returncode for name in NAMES] == [0, 0]

    assert [machine.steps(name) for name in NAMES] == [[], []]

    second.write_text(plain + clone.format("v2"))
    assert machine.provision("second", "--yes").returncode == 0

    assert [machine.steps(name) for name in NAMES] == [["clone", "proof"], []]
    assert [machine.gates(name)["gate.environment"] for name in NAMES] == ["FAIL", "OK"]


def test_each_has_its_lock(machine: Shared) -> None:
    """Each lock names its recipe and holds what that needs, also what the other one's provisioning had put there; with
    it the recipe alone comes to be elsewhere."""
    first, second = (machine.kept_lock(name) for name in NAMES)

    assert (first.recipe, {wheel.name for wheel in first.wheels}) == ("little", {"alpha", "beta"})
    assert (second.recipe, {wheel.name for wheel in second.wheels}) == ("second", {"beta", "delta", "gamma"})

    file, elsewhere = machine.home.parent / "second.lock", machine.home.parent / "elsewhere"
    assert machine.provision("second", "--lock", str(file)).returncode == 0
    again = machine.provision("second", "--yes", "--locked", str(file))
    argv = machine.argv("--into", str(elsewhere), "--yes", "--locked", str(file), recipe="second")
    done = subprocess.run(argv, cwd=ROOT, env=machine.env, capture_output=True, text=True, timeout=120)

    assert "nothing to do" in again.stdout
    assert done.returncode == 0, done.stderr
    assert not list(elsewhere.glob("lib/python3*/site-packages/alpha*"))


def test_of_the_old_layout(machine: Shared) -> None:
    """A mark and a lock of earlier versions are taken as they are, and written as today's with the next step."""
    own = machine.into / ".envcheck"
    mark = json.loads((own / "state.json").read_text())
    proof = mark.pop("proofs")["second"]
    old = {"schema": 1, "recipe": "second", "digest": proof["digest"], "proven": proof["packages"]}
    (own / "state.json").write_text(json.dumps({**mark, **old}))
    (own / "recipes" / "second" / "envcheck.lock").replace(own / "envcheck.lock")
    (own / "recipes" / "little" / "envcheck.lock").unlink()

    assert machine.steps("second") == []
    assert machine.gates("second")["gate.lock"] == "OK"
    assert machine.steps("little") == ["proof"]

    machine.pip("install", "--no-deps", "delta==1.0")
    assert [machine.provision(name, "--yes").returncode for name in NAMES] == [0, 0]

    assert [machine.steps(name) for name in NAMES] == [[], []]
    assert not (own / "envcheck.lock").exists()
    assert {wheel.name for wheel in machine.kept_lock("little").wheels} == {"beta"}  # of alpha nobody knows any more


def test_undo_names_both(machine: Shared) -> None:
    """Who takes the environment back hears for whom it was made."""
    shown = machine.provision("second", "--undo", "--dry-run")

    assert "the virtual environment for little, second with" in shown.stdout
    assert machine.provision("second", "--undo", "--yes").returncode == 0
    assert not machine.into.exists()
