"""Apptainer for hosts without an engine: the commands of the plan, with a real Apptainer, SIF and package index."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.core.messages import NOTHING, verbatim
from installers.bundle.sources import Supply
from installers.images.docker_engine import DockerEngine
from installers.images.engine_kinds import FOREIGN, ForeignEngine
from installers.images.engine_problems import EngineProblem
from installers.recipes import apptainer_cli
from installers.recipes.container_spec import ContainerSpec
from installers.recipes.recipe import Mount
from installers.steps.container_state import ContainerState
from installers.steps.target_state import DesiredState
from tests.installers.images import image_parts
from tests.installers.provision_helpers import ProvisionCommand, serve_index, write_wheel
from tests.installers.steps import test_step_kinds

ROOT = Path(__file__).parents[3]
APPTAINER = next(each for each in FOREIGN if each.program == "apptainer")
SPEC = ContainerSpec(
    name="box", image="hub.example.org/a@sha256:1", recipe="little", workdir="/work",
    mounts=(Mount("/srv/work", "/work"), Mount("/data", "/data"), Mount("/lib/a b", "/lib/a b", True)),
    environment={"WORDS": "it's"},
)  # fmt: skip


def make_state(other: ForeignEngine, spec: ContainerSpec = SPEC) -> ContainerState:
    """The state of a container on a machine that has only this program."""
    drawn = replace(test_step_kinds.DRAWN, container=replace(test_step_kinds.DRAWN.container, spec=spec))
    problem = EngineProblem("absent", verbatim("no engine"), NOTHING, other)
    return ContainerState(DockerEngine("", problem), None, "python3", drawn)


def test_the_commands() -> None:
    """Image and envcheck become files; the set-up runs in the image with the recipe's mounts and variables."""
    assert apptainer_cli.list_commands("apptainer", SPEC) == (
        "apptainer build box.sif docker://hub.example.org/a@sha256:1",
        "envcheck pyz -o envcheck.pyz",
        "apptainer exec --bind /srv/work:/work --bind /data --bind '/lib/a b:/lib/a b:ro' --env 'WORDS=it'\"'\"'s' "
        "box.sif python3 envcheck.pyz provision --recipe little --into venv",
    )


@pytest.mark.parametrize("other", FOREIGN, ids=lambda other: other.program)
def test_manual_steps_of_the_plan(other: ForeignEngine) -> None:
    """Only programs that run images get commands; the plan has an obstacle in any case, before a pull."""
    state = make_state(other)
    manual = list(state.list_manual())
    obstacles = list(state.find_obstacles(DesiredState(test_step_kinds.RECIPE, Supply(test_step_kinds.RECIPE)), ()))

    assert obstacles
    assert [step.name for step in manual] == ([other.title] if other.runs_images else [])
    assert all(step.commands[0].startswith(f"{other.program} build") for step in manual)


def test_what_it_cannot_give() -> None:
    """Each feature of the container that it lacks is an obstacle of its own."""
    state = make_state(APPTAINER, replace(SPEC, privileged=True, runtime="vendor", network="host", pid="host"))
    desired = DesiredState(test_step_kinds.RECIPE, Supply(test_step_kinds.RECIPE))
    found = [str(obstacle.why).partition(":")[0] for obstacle in state.find_obstacles(desired, ())]

    assert "Apptainer cannot give a container all privileges" in found
    assert "Apptainer cannot give a container a vendor's runtime" in found
    assert not any("network" in text or "processes" in text for text in found)


def build_sif(folder: Path, image: Path) -> None:
    """Build a SIF from the tests' Debian.  Without device nodes, which an ordinary user cannot make."""
    tree = folder / "tree"
    with tarfile.open(image_parts.load_debian().file) as packed:
        wanted = [member for member in packed if not member.isdev()]
        packed.extractall(tree, wanted, filter="fully_trusted")
    run_apptainer(("build", str(image), str(tree)), folder, {})
    shutil.rmtree(tree)


def run_apptainer(
    words: Sequence[str], folder: Path, env: Mapping[str, str], check: bool = True
) -> subprocess.CompletedProcess[str]:
    inside = {f"APPTAINERENV_{name}": value for name, value in env.items()}
    own = {"APPTAINER_CACHEDIR": str(folder / "cache"), "APPTAINER_TMPDIR": str(folder)}
    done = subprocess.run(
        ["apptainer", *words], cwd=folder, env=os.environ | own | inside, capture_output=True, text=True, timeout=600
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.extended
def test_provision_inside_an_image(tmp_path: Path) -> None:
    """With a real Apptainer the set-up in a SIF is planned, installed, verified, found again, and removed; a job runs
    in it."""
    if not shutil.which("apptainer"):
        pytest.skip("apptainer is not installed: tests/apptainer-package.sh")
    for name in ("alpha", "beta"):
        write_wheel(tmp_path / "index", name, "1.0")
    subprocess.run(
        [sys.executable, "-m", "envcheck", "pyz", "-o", str(tmp_path / "envcheck.pyz")], cwd=ROOT, check=True
    )
    build_sif(tmp_path, tmp_path / "box.sif")
    with serve_index(tmp_path / "index") as index:
        machine = ProvisionCommand(tmp_path, index)
        env = {name: value for name, value in machine.env.items() if os.environ.get(name) != value}
        start = ("exec", "--no-home", "--bind", str(tmp_path), "--pwd", str(tmp_path), "box.sif")
        words = (*start, "python3", "envcheck.pyz", "provision", "--recipe", "little", "--recipes", "recipes")

        def provision(*more: str) -> subprocess.CompletedProcess[str]:
            return run_apptainer((*words, "--into", "venv", *more), tmp_path, env, check=False)

        shown, done, again = provision("--dry-run"), provision("--yes"), provision("--yes")
        job = run_apptainer((*start, "venv/bin/python", "-c", "import alpha; print(alpha.__version__)"), tmp_path, env)
        undone = provision("--undo", "--yes")

    assert (shown.returncode, "create a virtual environment" in shown.stdout) == (0, True), shown.stdout + shown.stderr
    assert (done.returncode, "imported alpha 1.0, beta 1.0" in done.stdout) == (0, True), done.stdout + done.stderr
    assert "nothing to do" in again.stdout
    assert job.stdout.strip() == "1.0"
    assert (undone.returncode, (tmp_path / "venv").exists()) == (0, False), undone.stdout + undone.stderr
