"""The emitted script of every recipe, run where it belongs: engine, registry, index, clones and vendors' libraries."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from installers.recipes import catalogue
from installers.recipes.recipe import Recipe
from tests.installers.images.engine_parts import LocalRegistry
from tests.installers.provision_helpers import serve_index
from tests.installers.script_machine import (
    PADDLE_FILES,
    ScriptMachine,
    build_vendor_files,
    make_clone_source,
    push_vendor_image,
    start_machine,
    stock_packages,
)
from tests.installers.test_as_script import check_script

OURS = {recipe.name: recipe for recipe in catalogue.load_all()}
# The engine of the tests is x86_64's.
MACHINES = {"npu": "atlas-200t-a2-box16", "iluvatar": "bi-v150x8", "nvidia": "h200x8", "xpu": "p800x8", "cpu": "cpu"}
# One of each kind, in a container and on the host: with scripts to source, an editable clone, a build.
QUICK = ("ernie-0.3b-npu", "ernie-21b-hetero")
# The recipe under its own name, as a site has it: with its own image, commits, and builds that take no hours.
LIKE = """
name = "{name}"
like = "{name}"
title = "on the parts of a test"
models = ["{model}"]
python = ">=3.10"
"""
IMAGE = '[image.references]\nx86_64 = "{image}"\n'
CHECKOUT = """
[[checkouts]]
url = "{url}"
ref = "{ref}"
directory = "{directory}"
editable = {editable}
source = "a test"
"""
BUILD = """
[[builds]]
name = "paddlepaddle-gpu"
role = "nvidia"
checkout = "{directory}"
yields = "dist/*.whl"
installs = true
commands = [["{{python}}", "-m", "pip", "wheel", "-q", "--no-deps", "-w", "dist", "."]]
source = "a test"
"""
SITE = '[site]\nindex = "{index}"\n[site.environment]\nPIP_TRUSTED_HOST = "{host}"\n[site.rewrites]\n'


@pytest.fixture(scope="module")
def vendor_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return build_vendor_files(tmp_path_factory.mktemp("vendor"))


@pytest.fixture(scope="module")
def vendor_image(registry: LocalRegistry, vendor_files: Mapping[str, bytes]) -> str:
    reference = f"{registry.address}/envcheck/vendors:1"
    push_vendor_image(reference, vendor_files)
    return reference


@pytest.fixture(scope="module")
def machine(
    request: pytest.FixtureRequest, vendor_files: Mapping[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ScriptMachine]:
    with start_machine(MACHINES[request.param], tmp_path_factory.mktemp("machine"), vendor_files) as made:
        yield made


def list_cases() -> Iterator[object]:
    """Yield each recipe with the machine that it is for; most are `extended`."""
    for name, recipe in sorted(OURS.items(), key=lambda pair: pair[1].device):
        marks = [pytest.mark.real if name in QUICK else pytest.mark.extended]
        yield pytest.param(name, recipe.device, marks=marks, id=name)


def write_site(recipe: Recipe, image: str, index: str, folder: Path) -> None:
    """Write recipe and settings of a site: image, index, clones and builds of its own."""
    inside = "/workspace" if recipe.container else str(folder)
    text = LIKE.format(name=recipe.name, model=recipe.models[0])
    if not recipe.container:
        text += f'workdir = "{folder}/ERNIE"\n'
    else:
        text += IMAGE.format(image=image)
    for checkout in recipe.checkouts:
        name = Path(checkout.directory).name
        what = (
            ("ernie", "0.1", {"ernie/__init__.py": ""})
            if name == "ERNIE"
            else ("paddlepaddle_gpu", "3.1.0", PADDLE_FILES)
        )
        ref = make_clone_source(folder / "upstream" / f"{name}.git", *what)
        at, editable = f"{inside}/{name}", str(checkout.editable).lower()
        text += CHECKOUT.format(url=checkout.url, ref=ref, directory=at, editable=editable)
        text += BUILD.format(directory=at) if recipe.builds and not checkout.editable else ""
    (folder / "recipes").mkdir()
    (folder / "recipes" / f"{recipe.name}.toml").write_text(text)
    indexes = {package.index for package in recipe.packages if package.index}
    rewrites = [f'"{each}" = "{index}/"' for each in indexes]
    rewrites.append(f'"https://github.com/PaddlePaddle/" = "file://{inside}/upstream/"')
    (folder / "site.toml").write_text(
        SITE.format(index=index, host=urlsplit(index).hostname) + "\n".join(rewrites) + "\n"
    )


@pytest.mark.parametrize(("name", "machine"), [*list_cases()], indirect=["machine"])
def test_every_recipe(name: str, machine: ScriptMachine, vendor_image: str, tmp_path: Path) -> None:
    """Pasted on the machine, the script ends well with the vendor's libraries found and the recipe's commands run; of
    provisioning there remain the checks of the cards, and builds, of which a script leaves no record."""
    recipe, here = OURS[name], replace(machine, folder=tmp_path)
    stock_packages(tmp_path / "index", recipe.packages)
    words = ("provision", "--recipe", name, "--recipes", "recipes", "--config", "site.toml")
    with serve_index(tmp_path / "index", machine.gateway) as index, contextlib.ExitStack() as ending:
        write_site(recipe, vendor_image, index.base_url, tmp_path)
        ending.callback(machine.remove_containers)
        printed = here.run_envcheck(*words, "--as-script")
        check_script(printed.stdout, tmp_path)
        ran = here.run_inside(["bash", str(tmp_path / "plan.sh")])
        then = here.run_envcheck(*words, "--dry-run", "--json")

    assert "\n# blocked: " not in printed.stdout, printed.stdout
    assert ran.returncode == 0, ran.stdout + ran.stderr
    steps = [step["name"] for step in json.loads(then.stdout)["steps"]]
    assert steps == [*(["build"] if recipe.builds else []), "proof"], then.stdout + then.stderr
