"""The parts of provisioning that need no index: plans from facts, marks, pip's words; and the one real paddle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.units import MIB
from installers.bundle.sources import Supply
from installers.make_plan import make_plan
from installers.plan import host_facts as place
from installers.plan.host_facts import HostFacts
from installers.plan.step import Plan
from installers.recipes import catalogue, recipe_digest
from installers.recipes.recipe import Checkout, Hardware, Library, Package, Recipe
from installers.software import pip_words
from installers.state import environment, state_file
from installers.state.environment import Environment, FolderKind
from installers.state.state_file import EnvironmentState, Proof
from installers.steps.python_packages import InstallPackages
from installers.steps.target_state import DesiredState
from installers.steps.venv_state import VenvState
from installers.targets.target import VenvTarget
from installers.verify import verify_environment

ROOT = Path(__file__).parents[3]
RECIPE = Recipe(
    name="little",
    title="For tests",
    device="cpu",
    framework="test",
    models=("little",),
    hardware=Hardware("any"),
    jobs=(),
    python=">=3.10",
    packages=(Package("paddlepaddle", "==3.1.0"), Package("numpy", "<2.4"), Package("plugin", "", "http://other")),
)
PLACE = HostFacts("/usr/bin/python3", "3.11.2", True, 10_000 * MIB, True)
NOWHERE = Environment(Path("/e"), FolderKind.ABSENT)
VERSIONS = {"paddlepaddle": "3.1.0", "numpy": "2.3.5", "plugin": "1.0", "pip": "23.0.1"}
THERE = Environment(Path("/e"), FolderKind.ENVIRONMENT, "3.11.2", True, VERSIONS)
PROOF = Proof(recipe_digest.digest(RECIPE), "3.11.2", VERSIONS, ("numpy", "paddlepaddle", "plugin"))
PROVEN = replace(THERE, mark=EnvironmentState(True, {"little": PROOF}))


def plan(recipe: Recipe, env: Environment, place: HostFacts, driver: str | None = None) -> Plan:
    return make_plan(
        DesiredState(recipe, Supply(recipe), driver=driver), VenvState(env, place, recipe.python), env.folder
    )


def names(env: Environment, recipe: Recipe = RECIPE) -> list[str]:
    return [step.name for step in plan(recipe, env, PLACE).steps]


@pytest.mark.parametrize(
    ("env", "expected"),
    (
        (NOWHERE, ["environment", "packages", "packages", "proof"]),
        (THERE, ["proof"]),
        (PROVEN, []),
        (replace(PROVEN, packages={**VERSIONS, "numpy": "2.4.0"}), ["packages", "proof"]),
        (replace(PROVEN, packages={**VERSIONS, "httpx": "1.0"}), []),
        (replace(PROVEN, works=False), ["clear", "environment", "packages", "packages", "proof"]),
        (replace(PROVEN, torn=("numpy",)), ["clear", "environment", "packages", "packages", "proof"]),
        (replace(THERE, torn=("numpy",)), ["packages", "packages", "proof"]),
        (replace(PROVEN, python="3.9.1"), ["clear", "environment", "packages", "packages", "proof"]),
    ),
    ids=("nothing", "unproved", "proved", "moved", "extra", "no-python", "torn", "torn-not-ours", "old-python"),
)
def test_only_what_is_missing(env: Environment, expected: list[str]) -> None:
    """A plan holds the steps that the facts call for, and no others."""
    assert names(env) == expected


def test_packages_keep_order_and_index() -> None:
    """Neighbours of one index go to pip together, others apart and in the recipe's order."""
    steps = plan(RECIPE, NOWHERE, PLACE).steps
    groups = [[p.name for p in step.packages] for step in steps if isinstance(step, InstallPackages)]

    assert groups == [["paddlepaddle", "numpy"], ["plugin"]]


def test_a_changed_recipe_is_proved_anew() -> None:
    """The mark counts for the recipe that was proved, not for a later one."""
    assert names(PROVEN, replace(RECIPE, verify=(("true",),))) == ["proof"]


SECOND = replace(RECIPE, name="second", packages=(Package("numpy", ""), Package("extra", "")))
BOTH = {**VERSIONS, "extra": "1.0", "unknown": "1.0"}
PROOFS = {
    "little": replace(PROOF, packages={**VERSIONS, "unknown": "1.0"}),
    "second": Proof(recipe_digest.digest(SECOND), "3.11.2", BOTH, ("extra", "numpy")),
}
SHARED = replace(THERE, packages=BOTH, mark=EnvironmentState(True, PROOFS))


@pytest.mark.parametrize(
    ("changed", "stale"),
    (
        ({}, []),
        ({"plugin": "1.1"}, ["little"]),
        ({"extra": "1.1"}, ["second"]),
        ({"numpy": "2.3.4"}, ["little", "second"]),
        ({"unknown": "1.1"}, ["little", "second"]),
    ),
    ids=("nothing", "of-the-first", "of-the-second", "of-both", "of-nobody"),
)
def test_recipes_that_share_an_environment(changed: dict[str, str], stale: list[str]) -> None:
    """A version that changed makes the proofs of those stale that need the package; all, where nobody says so."""
    env = replace(SHARED, packages={**BOTH, **changed})

    assert [recipe.name for recipe in (RECIPE, SECOND) if not environment.proven(recipe, env)] == stale


def test_a_step_of_one_recipe_leaves_the_other_proved() -> None:
    """A step that is begun takes its own recipe's proof away; one that empties the environment everybody's."""
    assert SHARED.mark
    build, clear = (state_file.begin(SHARED.mark, "second", doing) for doing in ("build", "clear"))

    assert environment.proven(RECIPE, replace(SHARED, mark=build))
    assert not environment.proven(SECOND, replace(SHARED, mark=build))
    assert not environment.proven(RECIPE, replace(SHARED, mark=clear))
    assert not environment.proven(RECIPE, replace(SHARED, mark=state_file.begin(SHARED.mark, "second", "packages")))


def test_a_proof_of_other_sources() -> None:
    """A clone that was moved since, or a file that was built anew, is to be proved again."""
    seen = replace(PROOF, sources={"/clone": "a" * 40, "/clone/x.so": "b" * 64})
    env = replace(PROVEN, mark=EnvironmentState(True, {"little": seen}))

    assert environment.proven(RECIPE, env, {"/clone": "a" * 40})
    assert not environment.proven(RECIPE, env, {"/clone": "c" * 40})
    assert not environment.proven(RECIPE, env, {"/clone/x.so": "c" * 64})


@pytest.mark.parametrize(
    ("env", "place", "told", "code"),
    (
        (NOWHERE, replace(PLACE, makes_environments=False), "python3-venv", 1),
        (NOWHERE, replace(PLACE, free_bytes=500 * MIB), "500 MiB are free", 1),
        (NOWHERE, replace(PLACE, writable=False), "cannot be written", 2),
        (NOWHERE, replace(PLACE, python="3.9.0"), "Python 3.9.0", 1),
        (replace(THERE, works=False), PLACE, "does not lead to a Python", 2),
        (replace(THERE, packages={}), PLACE, "no pip", 1),
    ),
)
def test_obstacles(env: Environment, place: HostFacts, told: str, code: int) -> None:
    """What makes it pointless to begin is found before anything is done, each with its exit code."""
    obstacle = plan(RECIPE, env, place).obstacle

    assert obstacle is not None
    assert told in obstacle.why + obstacle.remedy
    assert obstacle.code == code


def test_what_is_so_needs_no_room() -> None:
    """A full disk is no obstacle where nothing is to be done."""
    assert plan(RECIPE, PROVEN, replace(PLACE, free_bytes=0, writable=False)).obstacle is None


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_a_strange_mark_is_no_mark(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Whatever stands in the mark's place, it is read without an error, and does not make a folder ours."""
    folder = tmp_path_factory.mktemp("m")
    (folder / ".envcheck").mkdir()
    (folder / ".envcheck" / "state.json").write_text(text, encoding="utf-8", errors="replace")

    assert state_file.load(folder) is None


def test_mark_comes_back(tmp_path: Path) -> None:
    """What is saved is what is loaded."""
    proof = Proof("abc", "3.11.2", {"numpy": "2.3.5"}, ("numpy",), {"/clone": "c" * 40})
    saved = EnvironmentState(True, {"little": proof, "other": Proof()}, "packages", ("numpy",))
    state_file.save(tmp_path, saved)

    assert state_file.load(tmp_path) == saved


@pytest.mark.parametrize(("doing", "steps"), (("", []), ("proof", ["proof"])))
def test_a_mark_of_the_old_layout(doing: str, steps: list[str], tmp_path: Path) -> None:
    """An environment of an earlier version, with one recipe in its mark, is as proved as it was."""
    said = {"schema": 1, "made": False, "recipe": "little", "doing": doing, "digest": recipe_digest.digest(RECIPE)}
    (tmp_path / ".envcheck").mkdir()
    file = tmp_path / ".envcheck" / "state.json"
    file.write_text(json.dumps({**said, "proven": VERSIONS, "added": ["numpy"]}))
    mark = state_file.load(tmp_path)

    assert mark
    assert mark.added == ("numpy",)
    assert names(replace(THERE, mark=mark)) == steps

    state_file.save(tmp_path, mark)

    assert json.loads(file.read_text())["schema"] == 2
    assert state_file.load(tmp_path) == mark


@pytest.mark.parametrize(
    ("said", "told"),
    (
        ("OSError: [Errno 28] No space left on device\nERROR: No matching distribution found for x", "disk is full"),
        ("Retrying after 'NewConnectionError: Connection refused'\nERROR: No matching distribution", "be reached"),
        ("ERROR: Could not find a version (from versions: none)\nERROR: No matching distribution found for x", "x"),
        ("ERROR: HTTP error 403 Client Error: Forbidden for url: u", "403 Client Error: Forbidden"),
        ("ReadTimeoutError: Read timed out.", "in time"),
        ("urllib3.exceptions.IncompleteRead: IncompleteRead(5 bytes read)", "cut off"),
        ("ERROR: something quite new", "something quite new"),
        ("ERROR: Exception:\nTraceback\nKeyError: 'quite new'", "KeyError: 'quite new'"),
        ("FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp']", "disk is full"),
        (f"ERROR: Wheel 'x' located at /{'long/' * 30}x-1-py3-none-any.whl is invalid.", "damaged"),
        ("", "it said nothing"),
    ),
)
def test_pip_is_understood(said: str, told: str) -> None:
    """pip's complaint becomes one sentence about the cause, and what is unknown is quoted."""
    sentence, step = pip_words.understood(said)

    assert told in sentence
    assert "\n" not in sentence
    assert step


def test_stray_variables_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other jobs left in the shell does not reach the proof; what the recipe sets does."""
    for name in ("PADDLE_MASTER", "PADDLE_TRAINER_ENDPOINTS", "CUDA_VISIBLE_DEVICES", "RANK", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    env = verify_environment.surroundings(replace(RECIPE, environment={"FLAGS_x": "2"}), VenvTarget(Path("/e")))

    assert not {"PADDLE_MASTER", "PADDLE_TRAINER_ENDPOINTS", "CUDA_VISIBLE_DEVICES", "RANK", "PYTHONPATH"} & set(env)
    assert env["FLAGS_x"] == "2"
    assert env["PATH"].startswith("/e/bin:")


def tiny() -> Recipe:
    return catalogue.by_name(catalogue.load_all(), "tiny-cpu")


def test_real_paddle_is_ready(paddle_environment: Path) -> None:
    """The real recipe, provisioned by the real command: nothing is missing, and numpy is one that works with it."""
    assert environment.ready(tiny(), paddle_environment) == []
    assert environment.read(paddle_environment).packages["paddlepaddle"] == "3.1.0"


def test_real_second_run(paddle_home: Path) -> None:
    """With paddle in it a second run has nothing to do."""
    done = subprocess.run(
        [sys.executable, "-m", "envcheck", "provision", "--device", "cpu", "--yes", "--json"],
        cwd=ROOT,
        env={**os.environ, "ENVCHECK_HOME": str(paddle_home)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["performed"] == []


@pytest.mark.parametrize(("driver", "left"), (("23.0.3", False), ("25.5.1", False), ("22.0.4", True), (None, True)))
def test_driver_that_is_new_enough(driver: str | None, left: bool) -> None:
    """A driver is left to a person only where it is too old or nobody could tell; else it is so already."""
    made = plan(replace(RECIPE, driver_minimum="23.0.3"), PROVEN, PLACE, driver=driver)

    assert [hand.name for hand in made.by_hand] == ["driver"] * left
    assert any(fact.startswith("driver") for fact in made.satisfied) is not left
    assert made.steps == ()


def test_sources_go_into_the_environment() -> None:
    """A clone that is installed editable is a step of its own, after the packages and before the proof."""
    recipe = replace(RECIPE, checkouts=(Checkout("https://h/p.git", "main", "/w/p", editable=True),))
    made = plan(recipe, PROVEN, PLACE)

    assert [step.name for step in made.steps] == ["clone", "proof"]
    assert "https://h/p.git at main into /w/p" in made.steps[0].title


def test_a_missing_system_library_is_lent() -> None:
    """Only where the loader finds none, and only once, a wheel that carries the library is called for."""
    library = Library("libx.so.1", "carrier", "==1.0", "carrier.libs/libx-*", "paddle/libs/libx.so.1")
    recipe, lacking = replace(RECIPE, libraries=(library,)), replace(PLACE, lacking=frozenset({"libx.so.1"}))
    lent = replace(THERE, packages={**THERE.packages, "carrier": "1.0"})

    assert [step.name for step in plan(recipe, THERE, lacking).steps] == ["library", "proof"]
    assert [step.name for step in plan(recipe, lent, lacking).steps] == ["proof"]
    assert names(THERE, recipe) == ["proof"]


@pytest.mark.parametrize(("name", "lacks"), (("libc.so.6", False), ("libenvcheck-nobody-has.so.7", True)))
def test_the_loader_is_asked(name: str, lacks: bool, tmp_path: Path) -> None:
    """A library counts as lacking when the loader itself does not find it."""
    library = Library(name, "carrier", "==1.0", "x", "y")

    assert (name in place.read(tmp_path, [library]).lacking) is lacks
