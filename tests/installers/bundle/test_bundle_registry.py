"""The image of a bundle straight from its registry; and out of the engine wherever the registry is in the way."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from installers.bundle import make, read_bundle, registry_layers
from installers.bundle.make import BundlePlan, EngineSource
from installers.bundle.read_bundle import Bundle
from installers.images import engine as engines
from installers.recipes import recipes_file
from installers.state.progress import Event
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import Engine, Registry
from tests.installers.images.registry_faults import Fault, Front, front
from tests.installers.provision_helpers import recipe_file

pytestmark = pytest.mark.real

MACHINE = platform.machine()
CONTENT = os.urandom(3 << 20)
LAYERS = ({"etc/mark": CONTENT}, {"etc/more": b"more" * 50_000}, {"etc/mark": CONTENT})  # the first one twice
BLOBS = "image/blobs/sha256/"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    for name in ("DOCKER_HOST", "DOCKER_CONFIG"):
        monkeypatch.setenv(name, engine.environment[name])


@pytest.fixture
def door(registry: Registry) -> Iterator[Front]:
    """In front of the registry, without a fault until one is added."""
    with front(registry.url) as served:
        yield served


@pytest.fixture
def reference(door: Front, engine: Engine) -> Iterator[str]:
    """An image of three layers that the engine has pulled through the door."""
    name = f"{door.address}/envcheck/packed:1"
    image_parts.push(name.replace(door.address, door.behind.removeprefix("http://")), layers())
    engine.docker("pull", "--quiet", name)
    yield name
    engine.docker("rmi", "--force", name, check=False)


def layers() -> list[image_parts.Layer]:
    return [image_parts.busybox(), *map(image_parts.layer, LAYERS)]


class Exported(EngineSource):
    """The engine, with a note of whether an image was copied out of it."""

    exports = 0

    def export(self, reference: str) -> contextlib.AbstractContextManager[Iterable[bytes]]:
        self.exports += 1
        return super().export(reference)


@contextlib.contextmanager
def planned(folder: Path, reference: str) -> Iterator[tuple[BundlePlan, Exported]]:
    recipes = recipe_file(folder / "recipes", more=f'[image.references]\n{MACHINE} = "{reference}"\n')
    seen = engines.look()
    with contextlib.closing(engines.connect(seen)) as client:
        source = Exported(client, seen)
        recipe = recipes_file.load(recipes / "little.toml")
        yield make.plan(recipe, MACHINE, folder / "little.tar", source), source


def made(plan: BundlePlan, source: EngineSource) -> tuple[Bundle, list[str]]:
    """The bundle, verified, and what was said on the way."""
    events: list[Event] = []
    lock = make.make(plan, source, events.append)
    found = read_bundle.verify(plan.path, MACHINE)
    assert lock.image and found.image and lock.image.id == found.image.id
    return found, [event.text for event in events if event.kind == "say"]


def blobs(found: Bundle) -> set[str]:
    return {name.removeprefix(BLOBS) for name in found.members if name.startswith(BLOBS)}


def test_packed_layers_travel(tmp_path: Path, engine: Engine, reference: str) -> None:
    """The bundle holds the registry's own packed layers, each once, without an export; from it alone the engine gets
    the same image, which runs."""
    with planned(tmp_path, reference) as (plan, source):
        found, said = made(plan, source)
    before = engine.docker("image", "inspect", "--format", "{{.Id}}", reference).stdout
    engine.docker("rmi", "--force", reference)
    (tmp_path / "stream").write_bytes(b"".join(read_bundle.image_stream(found)))
    engine.docker("load", "--quiet", "--input", str(tmp_path / "stream"))
    after = engine.docker("image", "inspect", "--format", "{{.Id}}", reference).stdout
    ran = engine.docker("run", "--rm", "--network", "none", reference, "/bin/cat", "etc/more").stdout

    assert plan.image and plan.image.part.where_from == "its registry, packed as it is there"
    assert (source.exports, said) == (0, [])
    assert {image_parts._digest(each.data)[7:] for each in layers()} < blobs(found)
    assert len(blobs(found)) == 3 + 2  # configuration and manifest
    assert before == after
    assert ran == "more" * 50_000


AT = f"/blobs/{image_parts._digest(image_parts.layer(LAYERS[0]).data)}"  # the second layer, after one that is whole
FAULTS: dict[str, tuple[Fault, str]] = {
    "cut": (Fault(AT, cut_after=1 << 20), "cut the connection"),
    "gone": (Fault(AT, status=404), "has no envcheck/packed"),
    "closed": (Fault(AT, status=401), "wants credentials"),
    "broken": (Fault(AT, status=503), "HTTP status 503"),
    "other": (Fault(AT, change=lambda body: body[:-1] + bytes([body[-1] ^ 1])), "gives something else under"),
    "more": (Fault(AT, change=lambda body: body + bytes(5 << 20)), "gives more than"),
    "zstd": (Fault(AT, change=lambda body: b"\x28\xb5\x2f\xfd" + body[4:]), "packed in another way"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_registry_in_the_way(tmp_path: Path, door: Front, reference: str, name: str) -> None:
    """A registry that cuts a layer off, refuses it, or gives another is told of in a sentence; the engine's own copy
    is taken, and nothing of what came before is left in the bundle."""
    fault, expected = FAULTS[name]
    with planned(tmp_path, reference) as (plan, source):
        door.faults.append(fault)
        found, said = made(plan, source)
    bare = {each.diff_id[7:] for each in layers()}

    assert len(said) == 1 and expected in said[0] and said[0].endswith(": the engine's own copy is taken")
    assert source.exports == 1
    assert bare < blobs(found) and len(blobs(found)) == len(bare) + 2


def test_slow_registry(tmp_path: Path, door: Front, reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that would take longer than the engine for all of it is left after a trial."""
    monkeypatch.setattr(registry_layers, "TRIAL_S", 0.2)
    door.faults.append(Fault("/blobs/", pace_s=0.05))
    with planned(tmp_path, reference) as (plan, source):
        found, said = made(plan, source)

    assert len(said) == 1 and "its registry would take another" in said[0]
    assert source.exports == 1
    assert len(blobs(found)) == 3 + 2


def test_registry_does_not_answer(tmp_path: Path, door: Front, reference: str) -> None:
    """Where the registry has another image under the digest, or none, the plan says the engine from the beginning."""
    door.faults.append(Fault("/manifests/", status=404))
    with planned(tmp_path, reference) as (plan, source):
        _, said = made(plan, source)

    assert plan.image and plan.image.part.where_from == "the engine of this machine"
    assert (source.exports, said) == (1, [])


def test_image_made_here(tmp_path: Path, engine: Engine, door: Front, reference: str) -> None:
    """An image that no registry gave (built here, under the registry's name) asks no registry."""
    engine.docker("tag", reference, "registry.invalid/made:1")
    asked = len(door.asked)
    with planned(tmp_path, "registry.invalid/made:1") as (plan, source):
        made(plan, source)
    engine.docker("rmi", "registry.invalid/made:1")

    assert plan.image and plan.image.distant is None
    assert (source.exports, len(door.asked)) == (1, asked)
