"""Where a set-up runs: each recipe names the place that it prefers, and the recipe of the other place."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.job.container_privileges import JobContainer, derive_container
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve
from installers.container_provisioner import ContainerProvisioner
from installers.recipes import catalogue, loader
from installers.recipes.recipe import CONTAINER, HOST, Recipe, is_preferred, narrow_to_role
from launch.backends.k8s.image_choice import choose_image

OURS = catalogue.load_all(None)
PAIRS = [recipe for recipe in OURS if recipe.alternative]
PADDLE_GPU = "ccr-2vdh3abv-pub.cnc.bj.baidubce.com/paddlepaddle/paddle:3.1.0-gpu-cuda12.6-cudnn9.5"
IXUCA = "ccr-2vdh3abv-pub.cnc.bj.baidubce.com/device/paddle-ixuca:3.3.0"
OWN = """
name = "mine"
title = "t"
device = "cpu"
framework = "envcheck"
models = ["m"]
{place}
[hardware]
product = "p"
[[jobs]]
method = "lora"
title = "t"
launcher = ["true"]
"""


@pytest.mark.parametrize("recipe", OURS, ids=lambda recipe: recipe.name)
def test_each_recipe_names_the_place_that_it_prefers(recipe: Recipe) -> None:
    """Every built-in recipe prefers a place, with a source and a reason."""
    note = recipe.notes["prefers"]

    assert recipe.prefers in (CONTAINER, HOST)
    assert note.source and note.reason


@pytest.mark.parametrize("recipe", PAIRS, ids=lambda recipe: recipe.name)
def test_alternatives_are_the_same_set_up_elsewhere(recipe: Recipe) -> None:
    """The two recipes name each other and have the same jobs and packages; one runs in a container."""
    other = catalogue.find_recipe(OURS, recipe.alternative)

    assert other.alternative == recipe.name
    assert (other.jobs, other.packages, other.checkouts) == (recipe.jobs, recipe.packages, recipe.checkouts)
    assert (other.image is None) != (recipe.image is None)
    assert is_preferred(other) != is_preferred(recipe)


def test_nvidia_and_mixed_recipes_have_both_places() -> None:
    """The set-ups on NVIDIA and across two vendors run on the host and in a container."""
    assert {recipe.name for recipe in PAIRS if recipe.image} == {
        "ernie-0.3b-nvidia-container",
        "ernie-21b-hetero-container",
        "ernie-21b-nvidia-container",
    }


@pytest.mark.parametrize("size", ["21b", "0.3b"])
def test_a_request_without_a_name_chooses_the_preferred_place(size: str) -> None:
    """Only its name chooses the recipe of the other place."""
    name = f"ernie-{size}-nvidia-container"

    assert is_preferred(resolve(JobRequest(model=size, method="lora", device="nvidia"), OURS, Facts()).recipe)
    assert resolve(JobRequest(recipe=name, method="lora"), OURS, Facts()).recipe.name == name
    assert resolve(JobRequest(model=name, method="lora"), OURS, Facts()).recipe.name == name


@pytest.mark.parametrize(("role", "image"), [("nvidia", PADDLE_GPU), ("iluvatar", IXUCA)])
def test_each_node_role_gets_the_image_of_its_vendor(role: str, image: str) -> None:
    """The job, its container and the pods of a role use the role's image."""
    job = resolve(JobRequest(recipe="ernie-21b-hetero-container", node_role=role), OURS, Facts())
    recipe = catalogue.find_recipe(OURS, "ernie-21b-hetero-container")

    assert (job.image, job.container and job.container.spec.image) == (image, image)
    assert job.recipe.image and job.recipe.image.references == {"x86_64": image}
    assert choose_image(recipe, job.method, {}, "x86_64").name == image


def test_a_role_without_an_image_of_its_own_keeps_the_references() -> None:
    """Recipes without images by role are unchanged."""
    plain = catalogue.find_recipe(OURS, "ernie-21b-iluvatar")

    assert narrow_to_role(plain, plain.jobs[0]) == plain


def test_a_container_gets_nvidia_cards_by_cdi_or_by_the_runtime() -> None:
    """With CDI names in the engine these are used, else the runtime that --gpus uses."""
    from envcheck.core.facts import EngineFacts, VendorFacts
    from envcheck.core.model import Device
    from envcheck.vendors import VENDORS

    recipe = catalogue.find_recipe(OURS, "ernie-0.3b-nvidia-container")
    card = VendorFacts(VENDORS["nvidia"], devices=(Device(index=0),))

    def derive(**engine: tuple[str, ...]) -> JobContainer:
        facts = Facts(
            vendors=(card,), engine=EngineFacts("28.0", engine.get("runtimes", ()), cdi=engine.get("cdi", ()))
        )
        found = derive_container(recipe, facts, "nvidia", (0,), "x86_64", "/work")
        assert found
        return found

    assert derive(cdi=("nvidia.com/gpu=0",), runtimes=("nvidia",)).spec.cdi == ("nvidia.com/gpu=0",)
    by_runtime = derive(runtimes=("nvidia",)).spec
    assert (by_runtime.runtime, by_runtime.environment["NVIDIA_VISIBLE_DEVICES"]) == ("nvidia", "0")


def test_undo_hints_of_a_container_are_run_in_it() -> None:
    """Clones and builds are at paths of the container: the hints of the plan start with docker exec."""
    job = resolve(JobRequest(recipe="ernie-21b-hetero-container", node_role="iluvatar"), OURS, Facts())
    plan = ContainerProvisioner(job.recipe, Path("/nowhere"), "iluvatar", facts=Facts()).make_current_plan()
    undo = {step.name: [str(each.undo) for each in plan.steps if each.name == step.name] for step in plan.steps}

    assert undo["clone"][0] == "docker exec envcheck-ernie-21b-hetero rm -r /workspace/ERNIE"
    assert undo["build"] == [
        "docker exec envcheck-ernie-21b-hetero python3 -m pip uninstall paddlepaddle",
        "docker exec envcheck-ernie-21b-hetero rm"
        " /workspace/PaddleCustomDevice/Paddle/third_party/flagcx/build/lib/libflagcx.so",
        "docker exec envcheck-ernie-21b-hetero python3 -m pip uninstall paddle-iluvatar-gpu",
    ]


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ('prefers = "cloud"', "prefers: expected container or host, found 'cloud'"),
        ('prefers = "container"', "prefers: the recipe does not run there, and names no `alternative` that does"),
        ('alternative = "other"', "alternative: `prefers` must say which of the two recipes is chosen"),
        ('prefers = "host"\nalternative = "mine"', "alternative: expected the name of another recipe"),
    ],
)
def test_a_place_that_contradicts_the_recipe_is_refused(place: str, wrong: str, tmp_path: Path) -> None:
    """Wrong places are one sentence with file and key."""
    file = tmp_path / "mine.toml"
    file.write_text(OWN.format(place=place))

    with pytest.raises(UsageError) as refused:
        loader.load_recipe(file)

    assert wrong in refused.value.message


def test_a_recipe_with_an_image_does_not_prefer_the_host_of_another(tmp_path: Path) -> None:
    """A recipe like tiny-cpu with an image of its own runs in a container, and prefers nothing."""
    file = tmp_path / "boxed.toml"
    file.write_text(
        'like = "tiny-cpu"\nname = "boxed"\ntitle = "t"\nmodels = ["m"]\n'
        '[image.references]\nx86_64 = "debian:12"\n[container]\nname = "boxed"\n'
    )
    made = loader.load_recipe(file)

    assert (made.prefers, made.alternative, made.image is not None) == ("", "", True)
