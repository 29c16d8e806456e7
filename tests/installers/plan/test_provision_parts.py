"""Parts of provisioning that need no index: plans from facts, state files, pip's messages; and the real paddle."""

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
from installers.plan import host_facts as place
from installers.plan.host_facts import HostFacts
from installers.plan.step import Plan
from installers.planning import make_plan
from installers.recipes import catalogue, fingerprint
from installers.recipes.recipe import Checkout, Hardware, Package, Recipe, SystemLibrary
from installers.software import pip_errors
from installers.state import environment, state_file
from installers.state.environment import Environment, FolderKind
from installers.state.state_file import EnvironmentState, RecipeProof
from installers.steps.python_packages import InstallPackages
from installers.steps.target_state import DesiredState
from installers.steps.venv_state import VenvState
from installers.targets.target import VenvTarget
from installers.verify import environment_checks

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
PROOF = RecipeProof(fingerprint.compute_fingerprint(RECIPE), "3.11.2", VERSIONS, ("numpy", "paddlepaddle", "plugin"))
PROVEN = replace(THERE, mark=EnvironmentState(True, {"little": PROOF}))


def make_recipe_plan(recipe: Recipe, env: Environment, place: HostFacts, driver: str | None = None) -> Plan:
    return make_plan(
        DesiredState(recipe, Supply(recipe), driver=driver), VenvState(env, place, recipe.python), env.folder
    )


def list_step_names(env: Environment, recipe: Recipe = RECIPE) -> list[str]:
    return [step.name for step in make_recipe_plan(recipe, env, PLACE).steps]


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
    """A plan has exactly the steps that the facts require."""
    assert list_step_names(env) == expected


def test_packages_keep_order_and_index() -> None:
    """Consecutive packages of one index are one step, others are separate, in the recipe's order."""
    steps = make_recipe_plan(RECIPE, NOWHERE, PLACE).steps
    groups = [[p.name for p in step.packages] for step in steps if isinstance(step, InstallPackages)]

    assert groups == [["paddlepaddle", "numpy"], ["plugin"]]


def test_a_changed_recipe_is_proved_anew() -> None:
    """A changed recipe must be verified again."""
    assert list_step_names(PROVEN, replace(RECIPE, verify=(("true",),))) == ["proof"]


SECOND = replace(RECIPE, name="second", packages=(Package("numpy", ""), Package("extra", "")))
BOTH = {**VERSIONS, "extra": "1.0", "unknown": "1.0"}
PROOFS = {
    "little": replace(PROOF, packages={**VERSIONS, "unknown": "1.0"}),
    "second": RecipeProof(fingerprint.compute_fingerprint(SECOND), "3.11.2", BOTH, ("extra", "numpy")),
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
    """A changed version invalidates recipes that need the package; all of them, if needs are unknown."""
    env = replace(SHARED, packages={**BOTH, **changed})

    assert [recipe.name for recipe in (RECIPE, SECOND) if not environment.is_proven(recipe, env)] == stale


def test_a_step_of_one_recipe_leaves_the_other_proved() -> None:
    """A started step invalidates its recipe's verification; one that empties the environment invalidates all."""
    assert SHARED.mark
    build, clear = (state_file.begin_step(SHARED.mark, "second", doing) for doing in ("build", "clear"))

    assert environment.is_proven(RECIPE, replace(SHARED, mark=build))
    assert not environment.is_proven(SECOND, replace(SHARED, mark=build))
    assert not environment.is_proven(RECIPE, replace(SHARED, mark=clear))
    assert not environment.is_proven(
        RECIPE, replace(SHARED, mark=state_file.begin_step(SHARED.mark, "second", "packages"))
    )


def test_a_proof_of_other_sources() -> None:
    """A moved clone or a rebuilt file must be verified again."""
    seen = replace(PROOF, sources={"/clone": "a" * 40, "/clone/x.so": "b" * 64})
    env = replace(PROVEN, mark=EnvironmentState(True, {"little": seen}))

    assert environment.is_proven(RECIPE, env, {"/clone": "a" * 40})
    assert not environment.is_proven(RECIPE, env, {"/clone": "c" * 40})
    assert not environment.is_proven(RECIPE, env, {"/clone/x.so": "c" * 64})


@pytest.mark.parametrize(
    ("env", "place", "told", "code"),
    (
        (NOWHERE, replace(PLACE, makes_environments=False), "python3-venv", 1),
        (NOWHERE, replace(PLACE, free_bytes=500 * MIB), "1.3 GiB needed, 500 MiB free", 1),
        (NOWHERE, replace(PLACE, writable=False), "permission denied", 2),
        (NOWHERE, replace(PLACE, python="3.9.0"), "requires Python >=3.10; found 3.9.0", 1),
        (replace(THERE, works=False), PLACE, "is a broken link", 2),
    ),
)
def test_obstacles(env: Environment, place: HostFacts, told: str, code: int) -> None:
    """Obstacles are found before anything is done, each with its exit code."""
    obstacle = make_recipe_plan(RECIPE, env, place).first_obstacle

    assert obstacle is not None
    assert told in obstacle.why + obstacle.remedy
    assert obstacle.code == code


def test_what_is_so_needs_no_room() -> None:
    """A full disk is no obstacle if nothing is to be done."""
    assert make_recipe_plan(RECIPE, PROVEN, replace(PLACE, free_bytes=0, writable=False)).first_obstacle is None


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_a_strange_mark_is_no_mark(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Any content of the state file is read without an error, and does not make the folder envcheck's."""
    folder = tmp_path_factory.mktemp("m")
    (folder / ".envcheck").mkdir()
    (folder / ".envcheck" / "state.json").write_text(text, encoding="utf-8", errors="replace")

    assert state_file.load_state(folder) is None


def test_mark_comes_back(tmp_path: Path) -> None:
    """A saved state loads as an equal one."""
    proof = RecipeProof("abc", "3.11.2", {"numpy": "2.3.5"}, ("numpy",), {"/clone": "c" * 40})
    saved = EnvironmentState(True, {"little": proof, "other": RecipeProof()}, "packages", ("numpy",))
    state_file.save_state(tmp_path, saved)

    assert state_file.load_state(tmp_path) == saved


@pytest.mark.parametrize(("doing", "steps"), (("", []), ("proof", ["proof"])))
def test_a_mark_of_the_old_layout(doing: str, steps: list[str], tmp_path: Path) -> None:
    """A state file of the first version, with one recipe, keeps its verification."""
    said = {
        "schema": 1,
        "made": False,
        "recipe": "little",
        "doing": doing,
        "digest": fingerprint.compute_fingerprint(RECIPE),
    }
    (tmp_path / ".envcheck").mkdir()
    file = tmp_path / ".envcheck" / "state.json"
    file.write_text(json.dumps({**said, "proven": VERSIONS, "added": ["numpy"]}))
    mark = state_file.load_state(tmp_path)

    assert mark
    assert mark.added == ("numpy",)
    assert list_step_names(replace(THERE, mark=mark)) == steps

    state_file.save_state(tmp_path, mark)

    assert json.loads(file.read_text())["schema"] == 2
    assert state_file.load_state(tmp_path) == mark


@pytest.mark.parametrize(
    ("said", "told"),
    (
        (
            "OSError: [Errno 28] No space left on device\nERROR: No matching distribution found for x",
            "no space left on the disk",
        ),
        (
            "Retrying after 'NewConnectionError: Connection refused'\nERROR: No matching distribution",
            "index is unreachable",
        ),
        ("ERROR: Could not find a version (from versions: none)\nERROR: No matching distribution found for x", "x"),
        ("ERROR: HTTP error 403 Client Error: Forbidden for url: u", "403 Client Error: Forbidden"),
        ("ReadTimeoutError: Read timed out.", "in time"),
        ("urllib3.exceptions.IncompleteRead: IncompleteRead(5 bytes read)", "download was interrupted"),
        ("ERROR: something quite new", "something quite new"),
        ("ERROR: Exception:\nTraceback\nKeyError: 'quite new'", "KeyError: 'quite new'"),
        ("FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp']", "the disk is probably full"),
        (f"ERROR: Wheel 'x' located at /{'long/' * 30}x-1-py3-none-any.whl is invalid.", "damaged"),
        ("", "no output"),
    ),
)
def test_pip_is_understood(said: str, told: str) -> None:
    """pip's error becomes one sentence about the cause; an unknown one is quoted."""
    sentence, step = pip_errors.explain_output(said)

    assert told in sentence
    assert "\n" not in sentence
    assert step


def test_stray_variables_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables left by other jobs do not reach the verification; those of the recipe do, once they have a value."""
    for name in ("PADDLE_MASTER", "PADDLE_TRAINER_ENDPOINTS", "CUDA_VISIBLE_DEVICES", "RANK", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    given = {"FLAGS_x": "2", "ASCEND_RT_VISIBLE_DEVICES": "{devices}"}
    env = environment_checks.job_environment(replace(RECIPE, environment=given), VenvTarget(Path("/e")))

    assert not {"PADDLE_MASTER", "PADDLE_TRAINER_ENDPOINTS", "CUDA_VISIBLE_DEVICES", "RANK", "PYTHONPATH"} & set(env)
    assert (env["FLAGS_x"], env.get("ASCEND_RT_VISIBLE_DEVICES")) == ("2", None)  # a job has devices, a check has all
    assert env["PATH"].startswith("/e/bin:")


def load_tiny_recipe() -> Recipe:
    return catalogue.find_recipe(catalogue.load_all(), "tiny-cpu")


def test_real_paddle_is_ready(paddle_environment: Path) -> None:
    """The real recipe, provisioned by the real command: nothing is missing, and numpy works with it."""
    assert environment.list_missing(load_tiny_recipe(), paddle_environment) == []
    assert environment.read_environment(paddle_environment).packages["paddlepaddle"] == "3.1.0"


def test_real_second_run(paddle_home: Path) -> None:
    """A second run with paddle installed has nothing to do."""
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
    """A driver is a manual step only if it is too old or unknown; else it is satisfied."""
    made = make_recipe_plan(replace(RECIPE, driver_minimum="23.0.3"), PROVEN, PLACE, driver=driver)

    assert [hand.name for hand in made.manual_steps] == ["driver"] * left
    assert any(fact.startswith("driver") for fact in made.satisfied) is not left
    assert made.steps == ()


def test_sources_go_into_the_environment() -> None:
    """An editable clone is a step of its own, after the packages and before the verification."""
    recipe = replace(RECIPE, checkouts=(Checkout("https://h/p.git", "main", "/w/p", editable=True),))
    made = make_recipe_plan(recipe, PROVEN, PLACE)

    assert [step.name for step in made.steps] == ["clone", "proof"]
    assert "https://h/p.git at main into /w/p" in made.steps[0].title


def test_a_missing_system_library_is_lent() -> None:
    """A wheel with the library is planned only if the loader finds none, and only once."""
    library = SystemLibrary("libx.so.1", "carrier", "==1.0", "carrier.libs/libx-*", "paddle/libs/libx.so.1")
    recipe, lacking = replace(RECIPE, libraries=(library,)), replace(PLACE, lacking=frozenset({"libx.so.1"}))
    lent = replace(THERE, packages={**THERE.packages, "carrier": "1.0"})

    assert [step.name for step in make_recipe_plan(recipe, THERE, lacking).steps] == ["library", "proof"]
    assert [step.name for step in make_recipe_plan(recipe, lent, lacking).steps] == ["proof"]
    assert list_step_names(THERE, recipe) == ["proof"]


@pytest.mark.parametrize(("name", "lacks"), (("libc.so.6", False), ("libenvcheck-nobody-has.so.7", True)))
def test_the_loader_is_asked(name: str, lacks: bool, tmp_path: Path) -> None:
    """A library is lacking if the loader does not find it."""
    library = SystemLibrary(name, "carrier", "==1.0", "x", "y")

    assert (name in place.read_facts(tmp_path, [library]).lacking) is lacks
