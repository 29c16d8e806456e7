"""Each kind of step is a module with its own data class and the same functions."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from envcheck.core.units import MIB
from envcheck.job.container_privileges import CardGrant, JobContainer
from installers import steps
from installers.bundle.sources import Supply
from installers.bundle.weights_fetch import HubDownload
from installers.bundle.weights_plan import WeightsState
from installers.containers.host_paths import ContainerPlan
from installers.images.docker_engine import DockerEngine
from installers.plan.host_facts import HostFacts
from installers.plan.step import Step
from installers.recipes import catalogue
from installers.recipes.container_spec import build_spec
from installers.recipes.recipe import (
    Checkout,
    Hardware,
    Package,
    Recipe,
    RecipeBuild,
    RecipeContainer,
    SystemLibrary,
    Weights,
)
from installers.state.environment import Environment, FolderKind
from installers.state.state_file import EnvironmentState
from installers.steps import python_packages
from installers.steps.container_state import ContainerState
from installers.steps.dispatch import BY_NAME, KINDS, plan_steps
from installers.steps.target_state import DesiredState, TargetState
from installers.steps.venv_state import VenvState

MODULES = sorted(Path(steps.__path__[0]).glob("*.py"))
SIGNATURES = {
    "plan": ("desired", "current", "planned"),
    "apply": ("step", "work"),
    "verify": ("step", "work"),
    "undo": ("entry", "folder"),
    "script": ("step", "at"),
}
FOR_PEOPLE = {field.name for field in fields(Step)}
RECIPE = Recipe(
    name="little",
    title="For tests",
    device="cpu",
    framework="test",
    models=("little",),
    hardware=Hardware("any"),
    jobs=(),
    python=">=3.10",
    packages=(Package("numpy", "<2.4"),),
    libraries=(SystemLibrary("libgomp.so.1", "torch", "", "libgomp*", "libgomp.so.1"),),
    checkouts=(Checkout("https://x.org/a.git", "main", "/clone"),),
    builds=(RecipeBuild("demo", "/clone", (("make",),), "*.so"),),
    container=RecipeContainer("box"),
    weights=Weights("little", size_gib=1.0),
)
WEIGHTS = WeightsState(fetches=(cast("HubDownload", SimpleNamespace(repository="x/little", hub="hub")),))
SPEC = build_spec(cast("RecipeContainer", RECIPE.container), "image@sha256:" + "1" * 64, "/w")
DRAWN = ContainerPlan(JobContainer(SPEC, CardGrant("")))


def make_venv_state() -> TargetState:
    """An interrupted environment of envcheck, on a host that lacks a library."""
    mark = EnvironmentState(made=True, doing="packages")
    env = Environment(Path("/e"), FolderKind.ENVIRONMENT, "3.11.2", True, {"pip": "23"}, mark=mark)
    host = HostFacts("python3", "3.11.2", True, 10_000 * MIB, True, lacking=frozenset(("libgomp.so.1",)))
    return VenvState(env, host, RECIPE.python, weights=WEIGHTS)


def make_container_state() -> TargetState:
    """A container state with neither image nor container."""
    return ContainerState(DockerEngine(""), None, "python3", DRAWN, weights=WEIGHTS)


def list_planned_kinds(current: TargetState, bundle: object = None) -> set[type[Step]]:
    supply = Supply(RECIPE, fetch=True, bundle=cast("Any", bundle))
    return {type(step) for step in plan_steps(DesiredState(RECIPE, supply), current)}


def list_step_classes(file: Path) -> list[str]:
    classes = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    return [node.name for node in classes if "Step" in map(ast.unparse, node.bases)]


def find_module(step: type[Step]) -> ModuleType:
    return sys.modules[step.__module__]


def test_each_kind_is_in_the_table() -> None:
    """A module of a kind has one class of steps, and the table has each with a unique name."""
    found = {file.stem: list_step_classes(file) for file in MODULES if list_step_classes(file)}

    assert found == {find_module(step).__name__.rpartition(".")[2]: [step.__name__] for step in KINDS}
    assert all(KINDS[step] is find_module(step) for step in KINDS)
    assert len(BY_NAME) == len(KINDS)
    assert all(step.__bases__ == (Step,) for step in KINDS)


@pytest.mark.parametrize("step", KINDS, ids=lambda step: step.name)
def test_each_kind_has_its_functions(step: type[Step]) -> None:
    """plan, apply, verify, undo and script are functions of the module; a function that does nothing says why."""
    for name, parameters in SIGNATURES.items():
        function = vars(find_module(step))[name]

        assert inspect.isfunction(function)
        assert function.__module__ == step.__module__
        assert tuple(inspect.signature(function).parameters) == parameters
        body = ast.parse(inspect.getsource(function)).body[0]
        assert isinstance(body, ast.FunctionDef)
        does_nothing = all(
            isinstance(node, (ast.Expr, ast.Return)) and isinstance(node.value, ast.Constant) for node in body.body
        )
        assert function.__doc__ or not does_nothing


@pytest.mark.parametrize("step", KINDS, ids=lambda step: step.name)
def test_each_field_is_the_kinds_own(step: type[Step]) -> None:
    """Each field of a step is read by its own module."""
    own = {field.name for field in fields(step)} - FOR_PEOPLE
    tree = ast.parse(inspect.getsource(find_module(step)))
    read = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("step", "self")
    }

    assert own <= read
    assert dataclasses.fields(step)[: len(FOR_PEOPLE)] == dataclasses.fields(Step)


def test_each_kind_is_planned() -> None:
    """Plans for virtual environments, a container and a bundle follow the order of the table."""
    bundle = SimpleNamespace(path=Path("x.bundle"), image=SimpleNamespace(reference="image:1", layers=()))
    of_venv, of_container, of_bundle = (
        list_planned_kinds(make_venv_state()),
        list_planned_kinds(make_container_state()),
        list_planned_kinds(make_container_state(), bundle),
    )
    env = Environment(Path("/e"), FolderKind.ENVIRONMENT, "3.11.2", True)
    of_bare = list_planned_kinds(
        VenvState(env, HostFacts("python3", "3.11.2", True, None, True), RECIPE.python, weights=WEIGHTS)
    )

    assert of_venv | of_container | of_bundle | of_bare == set(KINDS)
    assert {step.name for step in of_container - of_venv} == {"image", "container"}
    assert {step.name for step in of_venv - of_container} == {"clear", "environment", "library"}
    assert {step.name for step in of_bundle - of_container} == {"load"}
    assert {step.name for step in of_bare - of_venv} == {"pip"}


def test_what_is_there_is_not_planned() -> None:
    """For a complete target only unknown parts are planned."""
    bare = replace(RECIPE, packages=(), libraries=(), checkouts=(), builds=(), weights=None)
    env = Environment(Path("/e"), FolderKind.ENVIRONMENT, "3.11.2", True, {"pip": "23"})
    host = HostFacts("python3", "3.11.2", True, None, True)

    (step,) = plan_steps(DesiredState(bare, Supply(bare)), VenvState(env, host, bare.python))

    assert step.name == "proof"


@pytest.mark.parametrize(
    ("packages", "changes", "size_mib"),
    (
        (("paddlepaddle-gpu==3.1.0",), "already in the image; verified after the pull", 0),
        (("paddlepaddle-gpu==3.1.1",), "adds packages to the container box", 10_000),
        (("paddlepaddle-gpu>=3.1.0",), "adds packages to the container box", 10_000),
        (
            ("numpy==1.26.4", "paddlepaddle-gpu==3.1.0"),
            "paddlepaddle-gpu==3.1.0: already in the image, verified after the pull; adds the other packages to the"
            " container box",
            100,
        ),
    ),
)
def test_packages_that_the_image_documents(packages: tuple[str, ...], changes: str, size_mib: int) -> None:
    """A package in exactly the documented version is not counted as a download, and is installed if it lacks."""
    names = tuple(Package(*re.split(r"(?=[<>=]=)", text, maxsplit=1)) for text in packages)
    image = load_recipe_image("ernie-0.3b-nvidia-container")
    recipe = replace(RECIPE, packages=names)
    desired = DesiredState(recipe, Supply(recipe), image=image)
    current = ContainerState(DockerEngine(""), None, "python3", DRAWN)
    (step,) = python_packages.plan(desired, current, ())
    (unknown,) = python_packages.plan(replace(desired, image="other:1"), current, ())

    assert (step.changes, step.size_mib, step.packages) == (changes, size_mib, names)
    assert unknown.changes == "adds packages to the container box"


def load_recipe_image(name: str) -> str:
    """Return the published image of a recipe, which the version tables describe."""
    image = catalogue.find_recipe(catalogue.load_all(), name).image
    assert image
    return image.references["x86_64"]
