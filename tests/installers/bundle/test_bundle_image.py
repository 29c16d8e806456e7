"""The image in a bundle: out of a real engine and into it again, and the exports of engines that are not here."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from envcheck.core.errors import EnvcheckError, StepError, UsageError
from envcheck.core.facts import Facts, Host
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve_method
from installers.bundle import contents, image_layout, read_bundle, wheel_builder
from installers.bundle import make as bundle_make
from installers.bundle import tar as bundle_tar
from installers.bundle.format import BundleError
from installers.recipes import catalogue, recipes_file
from installers.recipes.recipe import Checkout, Mount
from tests.installers.bundle.bundle_helpers import (
    LAYERS,
    REFERENCE,
    chunks,
    config,
    make,
    new_export,
    old_export,
    sha256,
)
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import Engine, Registry
from tests.installers.provision_helpers import recipe_file

MACHINE = platform.machine()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))


EXPORTS = {
    "docker-20": old_export(),
    "docker-20-same-layer-twice": old_export((LAYERS[0], LAYERS[1], LAYERS[0])),
    "docker-25": new_export(packed=False),
    "containerd-store": new_export(packed=True),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export(tmp_path: Path, name: str) -> None:
    """Whatever engine exported it, the layout is verified, and the stream to load holds the configuration's layers."""
    path = make(tmp_path, image=EXPORTS[name])
    found = read_bundle.verify(path, "x86_64")
    raw = io.BytesIO(b"".join(read_bundle.image_stream(found)))
    with tarfile.open(fileobj=raw) as archive:
        inside = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}  # type: ignore[union-attr]
    (older,), index = json.loads(inside["manifest.json"]), json.loads(inside["index.json"])
    manifest = inside["blobs/sha256/" + index["manifests"][0]["digest"].removeprefix("sha256:")]

    assert found.image and inside[older["Config"]] == config(EXPORT_LAYERS[name])
    assert f"sha256:{sha256(inside[older['Config']])}" == found.image.id
    assert older["RepoTags"] == [REFERENCE]
    assert len(older["Layers"]) == len(EXPORT_LAYERS[name])
    assert all(sha256(inside[layer]) in layer for layer in older["Layers"])
    assert [f"blobs/sha256/{layer['digest'][7:]}" for layer in json.loads(manifest)["layers"]] == older["Layers"]


EXPORT_LAYERS = dict.fromkeys(EXPORTS, LAYERS) | {"docker-20-same-layer-twice": (LAYERS[0], LAYERS[1], LAYERS[0])}


def test_same_layer_is_kept_once(tmp_path: Path) -> None:
    """A layer that stands twice in an image takes its room once."""
    path = make(tmp_path, image=EXPORTS["docker-20-same-layer-twice"])
    found = read_bundle.verify(path, "x86_64")
    blobs = [name for name in found.members if name.startswith("image/blobs/")]

    assert found.image and len(found.image.layers) == 3
    assert len(blobs) == 4  # two layers, configuration, manifest


def test_export_for_another_architecture(tmp_path: Path) -> None:
    """An image for another architecture does not get into a bundle; nor does one whose layers are not its own."""
    lying = old_export(LAYERS).replace(sha256(LAYERS[0]).encode(), b"0" * 64)
    for raw, expected in ((old_export(architecture="arm64"), "is for arm64"), (lying, "are not those of its")):
        with pytest.raises(StepError, match=expected), bundle_tar.Writer(tmp_path / "x.tar") as writer:
            image_layout.pack(writer, chunks(raw), REFERENCE, "x86_64")


def test_packed_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed layer that swells a thousandfold is stopped at its measure and refused."""
    monkeypatch.setattr(read_bundle, "SPARE_BYTES", 1 << 20)  # a bomb of 256 MiB takes seconds to make
    path = make(tmp_path, image=_packed((bytes(20 << 20),)))

    with pytest.raises(BundleError, match="is no honest layer: unpacks to more than was said"):
        read_bundle.verify(path, "x86_64")


def _packed(layers: tuple[bytes, ...]) -> bytes:
    import gzip

    from tests.installers.bundle.bundle_helpers import tar

    about, blobs = config(layers), [gzip.compress(layer) for layer in layers]
    paths = [f"blobs/sha256/{sha256(blob)}" for blob in (about, *blobs)]
    manifest = json.dumps([{"Config": paths[0], "RepoTags": [REFERENCE], "Layers": paths[1:]}]).encode()
    return tar({**dict(zip(paths, (about, *blobs), strict=True)), "manifest.json": manifest})


@contextlib.contextmanager
def client_of(engine: Engine) -> Iterator[docker.DockerClient]:
    client = docker.DockerClient(base_url=engine.url, timeout=60)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def recipes(tmp_path: Path, registry: Registry) -> Path:
    """A recipe with an image in the registry: two layers, and something to run."""
    reference = f"{registry.address}/envcheck/bundled:1"
    image_parts.push(reference, [image_parts.busybox(), image_parts.layer({"etc/mark": os.urandom(1 << 20)})])
    return recipe_file(tmp_path / "recipes", more=f'[image.references]\n{MACHINE} = "{reference}"\n')


def test_through_a_real_engine(tmp_path: Path, engine: Engine, recipes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image goes from a real engine into a bundle, is removed, comes back from the bundle alone, and runs."""
    recipe = recipes_file.load(recipes / "little.toml")
    assert recipe.image
    reference = recipe.image.references[MACHINE]
    engine.docker("pull", "--quiet", reference)
    with client_of(engine) as client:
        before = client.images.get(reference).id
        source = bundle_make.EngineSource(client)
        plan = bundle_make.plan(recipe, MACHINE, tmp_path / "x.tar", source)
        lock = bundle_make.make(plan, source, lambda event: None)
        client.images.remove(reference, force=True)
        found = read_bundle.verify(tmp_path / "x.tar", MACHINE)
        client.images.load(read_bundle.image_stream(found))
        after = client.images.get(reference).id
        said = client.containers.run(reference, ["/bin/echo", "it runs"], remove=True, network_mode="none")
        client.images.remove(reference, force=True)

    assert lock.image and lock.image.digest.startswith("sha256:")
    assert before == after == lock.image.id
    assert said == b"it runs\n"


def test_image_is_not_here(tmp_path: Path, engine: Engine, recipes: Path) -> None:
    """What the engine lacks, or has for another machine, is told with the command that fetches it."""
    recipe = recipes_file.load(recipes / "little.toml")
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[MACHINE]
    with client_of(engine) as client:
        source = bundle_make.EngineSource(client)
        with pytest.raises(EnvcheckError, match="is not on this machine") as absent:
            bundle_make.plan(recipe, MACHINE, tmp_path / "x.tar", source)
        with pytest.raises(UsageError, match=f"has no image for {other}"):
            bundle_make.plan(recipe, other, tmp_path / "x.tar", source)

    assert absent.value.next_step.startswith("docker pull --platform linux/")


def test_damaged_bundle_reaches_no_engine(tmp_path: Path) -> None:
    """The stream to the engine begins only for a bundle that was verified and is still the same file."""
    path = make(tmp_path)
    found = read_bundle.verify(path, "x86_64")
    path.write_bytes(path.read_bytes())

    with pytest.raises(BundleError, match="was changed since"):
        next(iter(read_bundle.image_stream(found)))


def test_clone_travels(tmp_path: Path) -> None:
    """A pinned commit goes into a bundle's clone and comes out as that very commit, without its server."""
    origin = tmp_path / "origin"
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(origin)]
    subprocess.run(["git", "init", "-q", origin], check=True)
    for number in (1, 2):
        (origin / "file").write_text(str(number))
        subprocess.run([*git, "add", "file"], check=True)
        subprocess.run([*git, "commit", "-qm", str(number)], check=True)
    first = subprocess.run([*git, "rev-parse", "HEAD~1"], capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / "parts").mkdir()
    wanted = Checkout(origin.as_uri(), first, "/workspace/ERNIE")
    (commit,) = contents.checkouts([wanted], tmp_path / "parts")
    shutil.rmtree(origin)
    packed = tmp_path / "parts/checkouts" / contents.bundle_name(wanted)
    subprocess.run(["git", "clone", "-q", packed, tmp_path / "clone"], check=True)
    head = subprocess.run(["git", "-C", tmp_path / "clone", "rev-parse", "HEAD"], capture_output=True, text=True)

    assert packed.name.startswith("ERNIE-")
    assert head.stdout.strip() == first == commit.commit
    assert (tmp_path / "clone/file").read_text() == "1"
    (tmp_path / "more").mkdir()
    with pytest.raises(StepError, match="git"):
        contents.checkouts([wanted], tmp_path / "more")


def test_recipe_for_another_machine() -> None:
    """Nothing is known of the other machine but its processor: the recipe is the device's usual one or its largest,
    and one that is for that processor."""

    def chosen(architecture: str, **said: str) -> str:
        request = JobRequest(**said, may_choose=True)  # type: ignore[arg-type]
        return resolve_method(request, catalogue.load_all(), Facts(host=Host(architecture=architecture)))[0].name

    assert chosen("x86_64", model="300b", device="npu") == chosen("x86_64", device="npu") == "ernie-300b-npu"
    assert chosen("aarch64", device="npu") == "qwen-7b-npu-swift"
    with pytest.raises(UsageError, match=r"^3 recipes match this request$"):
        chosen("x86_64", model="21b")


def test_the_kitchen_reads_what_the_container_reads(tmp_path: Path, engine: Engine, python_image_here: str) -> None:
    """A file of this host's that the recipe's container may only read (a CA's) is where the variables say it is, also
    where wheels are resolved; what it may write is not handed over."""
    (tmp_path / "ca.crt").write_text("a certificate")
    (tmp_path / "data").write_text("the user's")
    mounts = (Mount(f"{tmp_path}/ca.crt", "/etc/ca.crt", True), Mount(f"{tmp_path}/data", "/etc/data"))
    plain = catalogue.by_name(catalogue.load_all(), "ernie-300b-npu")
    assert plain.container
    recipe = replace(plain, container=replace(plain.container, mounts=mounts))
    with (
        contextlib.closing(docker.DockerClient(base_url=engine.url)) as client,
        wheel_builder.container(client.api, python_image_here, recipe, tmp_path, lambda _: None) as builder,
    ):
        target = builder.ground.target

        assert target.read("/etc/ca.crt") == "a certificate"
        assert target.read("/etc/data") == ""
