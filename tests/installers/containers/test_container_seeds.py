"""Our containers beside those that the published documents' own `docker run` makes, on one real engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient

from installers.containers import container
from installers.recipes import catalogue
from installers.recipes.docker_cli import run_argv
from tests.installers.containers.container_helpers import Scene, flat, scene, seed_words
from tests.installers.images.engine_parts import Engine

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = Path(__file__).parents[2] / "data" / "container"
SEEDS: dict[str, Any] = tomllib.loads((DATA / "seed_options.toml").read_text(encoding="utf-8"))
DELIBERATE: dict[str, Any] = tomllib.loads((DATA / "deliberate.toml").read_text(encoding="utf-8"))


@pytest.fixture
def api(engine: Engine) -> Iterator[APIClient]:
    client = APIClient(base_url=engine.url)
    yield client
    client.close()


@pytest.fixture
def digest(engine: Engine, python_image_here: str) -> str:
    """The image as name@sha256."""
    told = json.loads(engine.docker("image", "inspect", python_image_here).stdout)
    return str(told[0]["RepoDigests"][0])


def by_document(name: str, at: Scene, image: str, engine: Engine, api: APIClient) -> dict[str, str]:
    """The container that the document's line makes, flat; it is removed again."""
    words = seed_words(SEEDS[name]["options"], at)
    called = words[words.index("--name") + 1]
    try:
        if "--detach" in words:
            engine.docker("run", *words, image, *SEEDS[name]["command"])
        else:  # `docker run` of a terminal that the test has not: its two halves
            engine.docker("create", *words, image, *SEEDS[name]["command"])
            engine.docker("start", called)
        return flat(api.inspect_container(called), at)  # type: ignore[no-untyped-call]
    finally:
        engine.docker("rm", "--force", called, check=False)


def by_us(at: Scene, image: str, api: APIClient) -> dict[str, str]:
    """Ours, flat, running as planned; it is removed again."""
    drawn = at.with_runtimes("runc").drawn(image, as_published=True)
    assert drawn.obstacles == ()
    container.make_folders(drawn.folders)
    spec = at.on_engine(drawn.spec)
    container.ensure(api, spec)
    try:
        found = container.look(api, spec.name)
        assert found is not None
        assert found["Config"]["Labels"].pop("envcheck.digest") == spec.digest
        found["Config"]["Labels"]["envcheck.digest"] = "<sha256>"
        return flat(found, at)
    finally:
        container.remove(api, spec.name)


@pytest.mark.parametrize("name", SEEDS)
def test_every_difference_from_the_document_is_deliberate(
    name: str, engine: Engine, api: APIClient, python_image_here: str, digest: str, tmp_path: Path
) -> None:
    """Field by field of docker inspect: what differs from the document's container is listed with a reason, and no
    more is listed than differs."""
    at = scene(name, SEEDS[name]["machine"], tmp_path)
    names = {python_image_here: "<name:tag>", digest: "<name@sha256>", name: "<recipe>"}
    theirs = by_document(name, at, python_image_here, engine, api)
    ours = by_us(at, digest, api)
    pairs = {field: (theirs.get(field, ""), ours.get(field, "")) for field in theirs | ours}
    found = {f: [names.get(seed, seed), names.get(own, own)] for f, (seed, own) in pairs.items() if seed != own}
    listed = {f: both for entry in (*DELIBERATE["all"], *DELIBERATE[name]) for f, both in entry["fields"].items()}

    assert len(pairs) > 30
    assert found == listed


def test_every_deliberate_difference_has_a_reason() -> None:
    """Each entry of the table says why, and speaks of a recipe that is compared."""
    entries = [entry for group in DELIBERATE.values() for entry in group]

    assert all(len(entry["reason"]) > 10 and entry["fields"] for entry in entries)
    assert set(DELIBERATE) == {"all", *SEEDS}


def test_the_fifth_document_has_no_container() -> None:
    """The heterogeneous job runs on the hosts, in its document and in the recipe: there is nothing to draw."""
    recipes = catalogue.load_all()
    boxed = {r.name for r in recipes if r.container and not r.like}

    assert boxed == set(SEEDS)
    hetero = catalogue.by_name(recipes, "ernie-21b-hetero")
    assert hetero.container is None


@pytest.mark.parametrize("as_published", (False, True))
@pytest.mark.parametrize("name", SEEDS)
def test_the_line_makes_the_same_container(
    name: str, as_published: bool, engine: Engine, api: APIClient, digest: str, tmp_path: Path
) -> None:
    """What --as-script prints, run by the docker command, is the container that the plan describes."""
    at = scene(name, SEEDS[name]["machine"], tmp_path).with_runtimes("runc")  # this engine has no vendor's
    drawn = at.drawn(digest, as_published)
    container.make_folders(drawn.folders)
    spec = at.on_engine(drawn.spec)
    try:
        engine.docker(*run_argv(spec)[1:])
        assert container.stands(api, spec).action is container.Action.REUSE
        assert container.still_wrong(api, spec) is None
    finally:
        container.remove(api, spec.name)
