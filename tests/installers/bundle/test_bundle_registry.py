"""A bundle's image directly from its registry, or from the engine if the registry has a problem."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from installers.bundle import archive_reader, assembly, registry_layers
from installers.bundle.archive_reader import Bundle
from installers.bundle.assembly import BundlePlan, EngineImageSource
from installers.images import docker_engine as engines
from installers.recipes import loader
from installers.state.progress import ProgressEvent
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import DockerEngine, LocalRegistry
from tests.installers.images.registry_faults import FaultyProxy, RegistryFault, start_proxy
from tests.installers.provision_helpers import write_recipe

pytestmark = pytest.mark.real

MACHINE = platform.machine()
CONTENT = os.urandom(3 << 20)
LAYERS = ({"etc/mark": CONTENT}, {"etc/more": b"more" * 50_000}, {"etc/mark": CONTENT})  # the first layer occurs twice
BLOBS = "image/blobs/sha256/"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    for name in ("DOCKER_HOST", "DOCKER_CONFIG"):
        monkeypatch.setenv(name, engine.child_environment[name])


@pytest.fixture
def door(registry: LocalRegistry) -> Iterator[FaultyProxy]:
    """Return a proxy before the registry, without faults until one is added."""
    with start_proxy(registry.base_url) as served:
        yield served


@pytest.fixture
def reference(door: FaultyProxy, engine: DockerEngine) -> Iterator[str]:
    """Return an image of three layers that the engine has pulled through the proxy."""
    name = f"{door.host_port}/envcheck/packed:1"
    image_parts.push_image(name.replace(door.host_port, door.behind.removeprefix("http://")), make_layers())
    engine.run_docker("pull", "--quiet", name)
    yield name
    engine.run_docker("rmi", "--force", name, check=False)


def make_layers() -> list[image_parts.ImageLayer]:
    return [image_parts.make_busybox(), *map(image_parts.make_layer, LAYERS)]


class CountingEngineSource(EngineImageSource):
    """The engine, counting exports."""

    exports = 0

    def open_export(self, reference: str) -> contextlib.AbstractContextManager[Iterable[bytes]]:
        self.exports += 1
        return super().open_export(reference)


@contextlib.contextmanager
def plan_bundle(folder: Path, reference: str) -> Iterator[tuple[BundlePlan, CountingEngineSource]]:
    recipes = write_recipe(folder / "recipes", more=f'[image.references]\n{MACHINE} = "{reference}"\n')
    seen = engines.inspect_engine()
    with contextlib.closing(engines.open_client(seen)) as client:
        source = CountingEngineSource(client, seen)
        recipe = loader.load_recipe(recipes / "little.toml")
        yield assembly.plan_bundle(recipe, MACHINE, folder / "little.tar", source), source


def make_verified_bundle(plan: BundlePlan, source: EngineImageSource) -> tuple[Bundle, list[str]]:
    """Return the verified bundle, and the messages on the way."""
    events: list[ProgressEvent] = []
    lock = assembly.make_bundle(plan, source, events.append)
    found = archive_reader.verify_bundle(plan.path, MACHINE)
    assert lock.image and found.image and lock.image.id == found.image.id
    return found, [event.text for event in events if event.kind == "say"]


def list_blobs(found: Bundle) -> set[str]:
    return {name.removeprefix(BLOBS) for name in found.members if name.startswith(BLOBS)}


def test_packed_layers_travel(tmp_path: Path, engine: DockerEngine, reference: str) -> None:
    """The bundle has the registry's own compressed layers, each once, without an export; the engine gets the same
    image from it, which runs.
    """
    with plan_bundle(tmp_path, reference) as (plan, source):
        found, said = make_verified_bundle(plan, source)
    before = engine.run_docker("image", "inspect", "--format", "{{.Id}}", reference).stdout
    engine.run_docker("rmi", "--force", reference)
    (tmp_path / "stream").write_bytes(b"".join(archive_reader.stream_image(found)))
    engine.run_docker("load", "--quiet", "--input", str(tmp_path / "stream"))
    after = engine.run_docker("image", "inspect", "--format", "{{.Id}}", reference).stdout
    ran = engine.run_docker("run", "--rm", "--network", "none", reference, "/bin/cat", "etc/more").stdout

    assert plan.image and plan.image.bundle_part.source == "registry, in its compressed form"
    assert (source.exports, said) == (0, [])
    assert {image_parts._make_digest(each.packed_data)[7:] for each in make_layers()} < list_blobs(found)
    assert len(list_blobs(found)) == 3 + 2  # configuration and manifest
    assert before == after
    assert ran == "more" * 50_000


# The second layer, after a complete one.
AT = f"/blobs/{image_parts._make_digest(image_parts.make_layer(LAYERS[0]).packed_data)}"
FAULTS: dict[str, tuple[RegistryFault, str]] = {
    "cut": (RegistryFault(AT, cut_after=1 << 20), "closed the connection"),
    "gone": (RegistryFault(AT, status=404), " not found on 127.0.0.1:"),
    "closed": (RegistryFault(AT, status=401), "requires credentials"),
    "broken": (RegistryFault(AT, status=503), "HTTP status 503"),
    "other": (
        RegistryFault(AT, change=lambda body: body[:-1] + bytes([body[-1] ^ 1])),
        "sent content that does not match",
    ),
    "more": (RegistryFault(AT, change=lambda body: body + bytes(5 << 20)), " sent more than "),
    "zstd": (
        RegistryFault(AT, change=lambda body: b"\x28\xb5\x2f\xfd" + body[4:]),
        "layers that are not gzip-compressed",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_registry_in_the_way(tmp_path: Path, door: FaultyProxy, reference: str, name: str) -> None:
    """A registry that interrupts, refuses or replaces a layer is reported; the engine's copy is used, and nothing of
    the attempt is left in the bundle.
    """
    fault, expected = FAULTS[name]
    with plan_bundle(tmp_path, reference) as (plan, source):
        door.faults.append(fault)
        found, said = make_verified_bundle(plan, source)
    bare = {each.diff_id[7:] for each in make_layers()}

    assert len(said) == 1 and expected in said[0] and said[0].endswith("; using the engine's copy")
    assert source.exports == 1
    assert bare < list_blobs(found) and len(list_blobs(found)) == len(bare) + 2


def test_slow_registry(tmp_path: Path, door: FaultyProxy, reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that is slower than the engine's export is abandoned after a trial."""
    monkeypatch.setattr(registry_layers, "TRIAL_S", 0.2)
    door.faults.append(RegistryFault("/blobs/", pace_s=0.05))
    with plan_bundle(tmp_path, reference) as (plan, source):
        found, said = make_verified_bundle(plan, source)

    assert len(said) == 1 and "from its registry would take another" in said[0]
    assert source.exports == 1
    assert len(list_blobs(found)) == 3 + 2


def test_registry_does_not_answer(tmp_path: Path, door: FaultyProxy, reference: str) -> None:
    """If the registry has no image under the digest, the plan uses the engine from the start."""
    door.faults.append(RegistryFault("/manifests/", status=404))
    with plan_bundle(tmp_path, reference) as (plan, source):
        _, said = make_verified_bundle(plan, source)

    assert plan.image and plan.image.bundle_part.source == "this machine's container engine"
    assert (source.exports, said) == (1, [])


def test_image_made_here(tmp_path: Path, engine: DockerEngine, door: FaultyProxy, reference: str) -> None:
    """An image that no registry provided (built here under the registry's name) causes no request."""
    engine.run_docker("tag", reference, "registry.invalid/made:1")
    asked = len(door.asked)
    with plan_bundle(tmp_path, "registry.invalid/made:1") as (plan, source):
        make_verified_bundle(plan, source)
    engine.run_docker("rmi", "registry.invalid/made:1")

    assert plan.image and plan.image.distant is None
    assert (source.exports, len(door.asked)) == (1, asked)
