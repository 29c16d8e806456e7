"""Each published set-up on its simulated machine and on others: `envcheck provision --dry-run` shows the complete
plan."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envcheck.vendors import VENDORS
from installers.recipes import catalogue
from installers.recipes.container_spec import parse_size
from installers.recipes.recipe import Recipe

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MACHINES = {
    "ernie-300b-npu": "atlas-200t-a2-box16",
    "ernie-21b-iluvatar": "bi-v150x8",
    "ernie-21b-hetero": "h200x8",
    "qwen-7b-npu-llamafactory": "atlas-800t-a2",
    "qwen-7b-npu-swift": "atlas-800t-a2",
}
BOXED = [name for name in MACHINES if name != "ernie-21b-hetero"]
OURS = ROOT / "envcheck" / "simulate" / "machines"
SIMULATED = "this machine is simulated: "
# The simulated 800T A2 has the driver of the page after which it was made; these two want that of their images' CANN.
OLD_DRIVER = {
    "qwen-7b-npu-llamafactory": [
        "driver 24.1.rc1.b030 is installed; recipe qwen-7b-npu-llamafactory requires 25.3.RC1 or newer"
    ],
    "qwen-7b-npu-swift": ["driver 24.1.rc1.b030 is installed; recipe qwen-7b-npu-swift requires 25.2.0 or newer"],
}
# ernie-21b-hetero has no image: its packages go into an environment of the Python that runs envcheck, which must be
# 3.10, and its clones to /workspace, where a user who is not root may not write.
HETERO = [
    *(
        []
        if os.geteuid() == 0 or Path("/workspace").exists()
        else ["cannot write to /workspace/ERNIE", "cannot write to /workspace/PaddleCustomDevice"]
    ),
]


def run_provision(
    name: str, machine: str, home: Path, *more: str, machines: Path = OURS
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "simulate", machine, "--machines", str(machines), "--"]
    argv += [sys.executable, "-m", "envcheck", "provision", "--recipe", name, "--dry-run", *more]
    env = {**os.environ, "ENVCHECK_HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    return subprocess.run(argv, cwd=home, env=env, capture_output=True, text=True, timeout=120)


def plan_provision(
    name: str, machine: str, home: Path, *more: str, machines: Path = OURS
) -> tuple[int, dict[str, Any]]:
    done = run_provision(name, machine, home, *more, "--json", machines=machines)
    return done.returncode, json.loads(done.stdout)


def load_recipe(name: str) -> Recipe:
    return catalogue.find_recipe(catalogue.load_all(), name)


def list_wanted_steps(recipe: Recipe) -> list[str]:
    """Return the names of all steps of the recipe, in order."""
    first = ["image", "container"] if recipe.container else ["environment"]
    groups = sum(1 for _ in itertools.groupby(recipe.packages, key=lambda p: p.index))
    builds = len([build for build in recipe.builds if build.role in ("", recipe.device)])
    return [*first, *["packages"] * groups, *["clone"] * len(recipe.checkouts), *["build"] * builds, "proof"]


@dataclass(frozen=True)
class PlannedRecipe:
    """A recipe planned on its own machine: exit code, document, and envcheck's home folder afterwards."""

    name: str
    code: int
    said: dict[str, Any]
    home: Path


@pytest.fixture(scope="module", params=MACHINES)
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PlannedRecipe:
    name, home = request.param, tmp_path_factory.mktemp("home")
    return PlannedRecipe(name, *plan_provision(name, MACHINES[name], home), home)


def test_the_whole_plan(planned: PlannedRecipe) -> None:
    """Image, container or environment, packages with their index, clones, verification; each with reason, changes and
    undo; and nothing is created."""
    recipe = load_recipe(planned.name)
    steps = planned.said["steps"]
    names = [step["name"] for step in steps]

    assert names == list_wanted_steps(recipe)
    assert {p for step in steps for p in step["packages"]} == {p.name + p.specifier for p in recipe.packages}
    assert all(step[key] for step in steps for key in ("title", "why", "changes", "undo"))
    assert all(p.index in " ".join(step["title"] for step in steps) for p in recipe.packages if p.index)
    assert not any(planned.home.iterdir())


# Their documents give the container what is derived: the cards' nodes, and no more rights.
AS_DOCUMENTED = ("qwen-7b-npu-llamafactory", "qwen-7b-npu-swift")


def test_what_stands_in_the_way(planned: PlannedRecipe) -> None:
    """On its own machine nothing is in the way of a set-up but this Python: the simulated machine has an engine, as for
    doctor, and one note names the simulation; without obstacles the exit code is 0."""
    name, code, said = planned.name, planned.code, planned.said
    why = [each["why"] for each in said["obstacles"]]
    # this machine may have no Python 3.10, or a small disk
    found = [one for one in why if not one.startswith((f"recipe {name} requires Python", "not enough disk space"))]
    expected = HETERO if name == "ernie-21b-hetero" else []

    assert [one for one, begins in zip(found, expected, strict=True) if not one.startswith(begins)] == []
    assert code == (1 if why or said["manual_steps"] else 0)
    assert said["obstacle"] == next(iter(said["obstacles"]), None)
    assert [hand["why"].rpartition(";")[0] for hand in said["manual_steps"]] == OLD_DRIVER.get(name, [])
    doubts = [f"this container is not verified on hardware; if it sees no device: envcheck provision --recipe {name}"]
    notes = [words.partition(" --as")[0] for words in said["notes"]]
    of_image = [words for words in notes if words.startswith("the image ")]
    places = [words for words in notes if words.startswith("this set-up prefers ")]
    simulated = [words for words in notes if words.startswith(SIMULATED)]
    others = [words for words in notes if words not in (*of_image, *places, *simulated)]
    assert len(simulated) == (name in BOXED)
    assert others == (doubts if name in BOXED and name not in AS_DOCUMENTED else [])
    assert bool(places) is (name not in BOXED)
    assert [words for words in of_image if words.startswith("the image contains ")] == of_image[: name in BOXED]
    too_old = "the image is documented with driver 4.3.8; 4.3.0 is installed. Install driver 4.3.8 or newer"
    assert [words.startswith(too_old) for words in of_image[1:]] == ([True] if name == "ernie-21b-iluvatar" else [])


@pytest.mark.parametrize(
    ("more", "obstacle", "next_step"),
    (
        (("--yes",), "this machine is simulated: its container engine runs nothing", "add --dry-run"),
        (("--dry-run", "--fault", "docker-absent"), "no container engine installed", "install Docker"),
    ),
)
def test_the_engine_of_a_simulated_machine(
    more: tuple[str, ...], obstacle: str, next_step: str, tmp_path: Path
) -> None:
    """Nothing is created in a simulated engine, and a machine without an engine is blocked as a real one is."""
    faults, options = more[1:], more[:1]
    argv = [sys.executable, "-m", "envcheck", "simulate", "atlas-800t-a2", *faults, "--", sys.executable, "-m"]
    argv += ["envcheck", "provision", "--recipe", "qwen-7b-npu-swift", "--json", *options]
    env = {**os.environ, "ENVCHECK_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    said = json.loads(done.stdout)
    found = next(each for each in said["obstacles"] if each["why"] == obstacle)

    assert done.returncode == 1
    assert found["remedy"].startswith(next_step)
    assert said["performed"] == []


def read_container(name: str, home: Path, *more: str) -> dict[str, Any]:
    _, said = plan_provision(name, MACHINES[name], home, *more)
    made: dict[str, Any] = next(step for step in said["steps"] if step["name"] == "container")["container"]
    return made


@pytest.mark.parametrize("name", BOXED)
def test_what_the_container_gets(name: str, tmp_path: Path) -> None:
    """The document has every mount, device, variable and limit of the container: not privileged, cards by device nodes
    or by the vendor's runtime; with --as-published as in the vendor's document."""
    recipe = load_recipe(name)
    box, vendor = recipe.container, VENDORS[recipe.device]
    assert box
    derived, published = (read_container(name, tmp_path, *more) for more in ((), ("--as-published",)))
    mounts = [(mount.target, mount.read_only) for mount in box.mounts]

    assert [(mount["target"], mount["read_only"]) for mount in published["mounts"]] == mounts
    assert [d.split(":")[0] for d in published["devices"]] == ([] if published["privileged"] else list(box.devices))
    assert (published["environment"], published["pid"]) == (box.environment, box.pid)
    assert [(m["target"], m["read_only"]) for m in derived["mounts"]] == [m for m in mounts if m[0] != "/dev"]
    by_nodes = vendor.nodes_suffice
    assert (derived["privileged"], bool(derived["devices"]), derived["pid"]) == (False, by_nodes, "")
    assert derived["runtime"] == ("" if by_nodes else vendor.runtime)
    assert set(derived["environment"]) == {*box.environment, *(() if by_nodes else (vendor.runtime_env,))}
    for made in (derived, published):
        assert made["shm_bytes"] == (parse_size(box.shm_size) if box.shm_size else None)
        assert [made[key] for key in ("name", "network", "ipc", "workdir")] == [
            box.name, box.network, box.ipc, box.workdir,
        ]  # fmt: skip
        assert len(made["ports"]) == len(box.ports)


def test_at_a_terminal(tmp_path: Path) -> None:
    """Lists are shortened to one line with the number of the rest; --verbose shows them in full."""
    name = "qwen-7b-npu-swift"
    box = load_recipe(name).container
    assert box
    short, whole = (run_provision(name, MACHINES[name], tmp_path, *more).stdout for more in ((), ("--verbose",)))
    there = [words for words in ("/dev/davinci7", *(mount.target for mount in box.mounts)) if words not in whole]

    assert re.search(r"\n {15}mounts\s[^,]*,.*?\sand\s+\d+\s+more\n {15}devices\s+/dev/davinci0", short, re.DOTALL)
    assert re.search(r"\n {15}namespaces    ipc=host\n", short)
    assert all(len(line) <= 100 for line in short.splitlines() if " " in line.strip())
    assert there == []
    assert " more" not in whole


def test_each_step_says_whether_root_is_needed(planned: PlannedRecipe) -> None:
    """Steps of the engine need no root; clones and builds on the host do if their folder belongs to root."""
    name, said = planned.name, planned.said
    by_root = {step["name"] for step in said["steps"] if step["root"]}
    text = run_provision(name, MACHINES[name], planned.home, "--verbose").stdout

    assert by_root == (set() if name in BOXED or Path("/workspace").exists() else {"clone", "build"})
    assert [step["title"] for step in said["steps"] if step["root"] != bool(step["root_why"])] == []
    assert len(re.findall(r"root:\s+(?:no|required)\b", text)) == len(said["steps"])


def write_small_machine(folder: Path) -> Path:
    """Write a machine of eight cards with the memory of a 910A."""
    text = (OURS / "atlas-800t-a2.toml").read_text()
    text = text.replace("memory_mib = 65536", "memory_mib = 32768").replace('"910B3"', '"910A"')
    (folder / "small.toml").write_text(text.replace('architecture = "aarch64"', 'architecture = "x86_64"'))
    return folder


@pytest.mark.parametrize(
    ("machine", "expected"),
    (
        ("atlas-800t-a2", ["supports x86_64 only; this host is aarch64", "needs 16 devices; 8 found"]),
        ("small", ["this job needs 16 devices; 8 found", "32 GiB of memory; this job needs 16 devices of 64 GiB"]),
        ("bi-v150x8", ["this job needs Huawei Ascend devices; this machine has none"]),
    ),
)  # fmt: skip
def test_the_wrong_machine(machine: str, expected: list[str], tmp_path: Path) -> None:
    """Another architecture, too few or too small cards, and another vendor are obstacles, with what was found and what
    is needed; the simulated machine is checked, not this one."""
    (tmp_path / "machines").mkdir()
    folder = write_small_machine(tmp_path / "machines") if machine == "small" else OURS
    code, said = plan_provision("ernie-300b-npu", machine, tmp_path, machines=folder)
    found = [each["why"] for each in said["obstacles"]]

    assert code == 1
    assert [words for words in expected if not any(words in why for why in found)] == []
    assert not any("container engine" in why.partition(";")[0] for why in found)
    assert all(each["remedy"] for each in said["obstacles"])


@pytest.mark.parametrize("machine", ("h200x8", "bi-v150x8"))
def test_the_role_of_the_cards(machine: str, tmp_path: Path) -> None:
    """In a job with two vendors, the role of a node follows from its cards."""
    role = {"h200x8": "nvidia", "bi-v150x8": "iluvatar"}[machine]
    _, said = plan_provision("ernie-21b-hetero", machine, tmp_path)
    built = [step["title"].split()[1] for step in said["steps"] if step["name"] == "build"]

    assert built == [build.name for build in load_recipe("ernie-21b-hetero").builds if build.role == role]


def test_no_cards_tell_no_role(tmp_path: Path) -> None:
    """Without cards the role must be named."""
    done = run_provision("ernie-21b-hetero", "cpu", tmp_path)

    assert done.returncode == 2
    assert "add --node-role iluvatar or --node-role nvidia" in done.stderr
