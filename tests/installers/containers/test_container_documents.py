"""envcheck's containers compared with those of the published documents' `docker run`, on one real engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from installers.containers import lifecycle
from installers.recipes import catalogue
from installers.recipes.docker_cli import run_argv
from tests.installers.containers.container_helpers import (
    ContainerScene,
    flatten_inspection,
    make_scene,
    read_document_options,
)
from tests.installers.images.engine_parts import DockerEngine

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = Path(__file__).parents[2] / "data" / "container"
SEEDS: dict[str, Any] = tomllib.loads((DATA / "seed_options.toml").read_text(encoding="utf-8"))
DELIBERATE: dict[str, Any] = tomllib.loads((DATA / "deliberate.toml").read_text(encoding="utf-8"))


@pytest.fixture
def api(engine: DockerEngine) -> Iterator[APIClient]:
    client = APIClient(base_url=engine.docker_host)
    yield client
    client.close()


@pytest.fixture
def digest(engine: DockerEngine, python_image_here: str) -> str:
    """Return the image as NAME@sha256:HEX."""
    told = json.loads(engine.run_docker("image", "inspect", python_image_here).stdout)
    return str(told[0]["RepoDigests"][0])


def inspect_published(
    name: str, at: ContainerScene, image: str, engine: DockerEngine, api: APIClient
) -> dict[str, str]:
    """Return the flattened container of the document's command; the container is removed again."""
    words = read_document_options(SEEDS[name]["options"], at)
    called = words[words.index("--name") + 1]
    try:
        if "--detach" in words:
            engine.run_docker("run", *words, image, *SEEDS[name]["command"])
        else:  # `docker run` of a terminal that the test has not: its two halves
            engine.run_docker("create", *words, image, *SEEDS[name]["command"])
            engine.run_docker("start", called)
        return flatten_inspection(api.inspect_container(called), at)  # type: ignore[no-untyped-call]
    finally:
        engine.run_docker("rm", "--force", called, check=False)


def inspect_ours(at: ContainerScene, image: str, api: APIClient) -> dict[str, str]:
    """Return envcheck's container, flattened and checked to run as planned; it is removed again."""
    drawn = at.set_runtimes("runc").draw_plan(image, as_published=True)
    assert drawn.obstacles == ()
    lifecycle.make_folders(drawn.folders)
    spec = at.move_to_engine(drawn.spec)
    lifecycle.ensure_running(api, spec)
    try:
        found = lifecycle.inspect_container(api, spec.name)
        assert found is not None
        assert found["Config"]["Labels"].pop("envcheck.digest") == spec.digest
        found["Config"]["Labels"]["envcheck.digest"] = "<sha256>"
        return flatten_inspection(found, at)
    finally:
        lifecycle.remove_container(api, spec.name)


@pytest.mark.parametrize("name", SEEDS)
def test_every_difference_from_the_document_is_deliberate(
    name: str, engine: DockerEngine, api: APIClient, python_image_here: str, digest: str, tmp_path: Path
) -> None:
    """The differences to the document's container are exactly those listed with a reason."""
    at = make_scene(name, SEEDS[name]["machine"], tmp_path)
    names = {python_image_here: "<name:tag>", digest: "<name@sha256>", name: "<recipe>"}
    theirs = inspect_published(name, at, python_image_here, engine, api)
    ours = inspect_ours(at, digest, api)
    pairs = {field: (theirs.get(field, ""), ours.get(field, "")) for field in theirs | ours}
    found = {f: [names.get(seed, seed), names.get(own, own)] for f, (seed, own) in pairs.items() if seed != own}
    listed = {f: both for entry in (*DELIBERATE["all"], *DELIBERATE[name]) for f, both in entry["fields"].items()}

    assert len(pairs) > 30
    assert found == listed


def test_every_deliberate_difference_has_a_reason() -> None:
    """Each entry of the table has a reason and belongs to a compared recipe."""
    entries = [entry for group in DELIBERATE.values() for entry in group]

    assert all(len(entry["reason"]) > 10 and entry["fields"] for entry in entries)
    assert set(DELIBERATE) == {"all", *SEEDS}


def test_the_fifth_document_has_no_container() -> None:
    """The heterogeneous job has no container, neither in its document nor in the recipe."""
    recipes = catalogue.load_all()
    boxed = {r.name for r in recipes if r.container and not r.like}

    assert boxed == set(SEEDS)
    hetero = catalogue.find_recipe(recipes, "ernie-21b-hetero")
    assert hetero.container is None


@pytest.mark.parametrize("as_published", (False, True))
@pytest.mark.parametrize("name", SEEDS)
def test_the_line_makes_the_same_container(
    name: str, as_published: bool, engine: DockerEngine, api: APIClient, digest: str, tmp_path: Path
) -> None:
    """The command that --as-script prints creates the planned container."""
    at = make_scene(name, SEEDS[name]["machine"], tmp_path).set_runtimes("runc")  # this engine has no vendor's
    drawn = at.draw_plan(digest, as_published)
    lifecycle.make_folders(drawn.folders)
    spec = at.move_to_engine(drawn.spec)
    try:
        engine.run_docker(*run_argv(spec)[1:])
        assert lifecycle.read_status(api, spec).action is lifecycle.ContainerAction.REUSE
        assert lifecycle.explain_mismatch(api, spec) is None
    finally:
        lifecycle.remove_container(api, spec.name)
