"""Images in bundles: from a real engine and back, and exports of engines that are not installed."""

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
from envcheck.core.facts import Facts, SystemFacts
from envcheck.job.request import JobRequest
from envcheck.job.resolve import resolve_method
from installers.bundle import archive_reader, contents, image_layout, wheel_builder
from installers.bundle import assembly as bundle_make
from installers.bundle import tar as bundle_tar
from installers.bundle.format import BundleError
from installers.recipes import catalogue, loader
from installers.recipes.recipe import Checkout, Mount
from tests.installers.bundle.bundle_helpers import (
    LAYERS,
    REFERENCE,
    hash_sha256,
    make_bundle,
    make_image_config,
    make_new_export,
    make_old_export,
    split_chunks,
)
from tests.installers.images import image_parts
from tests.installers.images.engine_parts import DockerEngine, LocalRegistry
from tests.installers.provision_helpers import write_recipe

MACHINE = platform.machine()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))


EXPORTS = {
    "docker-20": make_old_export(),
    "docker-20-same-layer-twice": make_old_export((LAYERS[0], LAYERS[1], LAYERS[0])),
    "docker-25": make_new_export(packed=False),
    "containerd-store": make_new_export(packed=True),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export(tmp_path: Path, name: str) -> None:
    """Exports of every engine give a verified layout and a loadable stream with the configuration's layers."""
    path = make_bundle(tmp_path, image=EXPORTS[name])
    found = archive_reader.verify_bundle(path, "x86_64")
    raw = io.BytesIO(b"".join(archive_reader.stream_image(found)))
    with tarfile.open(fileobj=raw) as archive:
        inside = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}  # type: ignore[union-attr]
    (older,), index = json.loads(inside["manifest.json"]), json.loads(inside["index.json"])
    manifest = inside["blobs/sha256/" + index["manifests"][0]["digest"].removeprefix("sha256:")]

    assert found.image and inside[older["Config"]] == make_image_config(EXPORT_LAYERS[name])
    assert f"sha256:{hash_sha256(inside[older['Config']])}" == found.image.id
    assert older["RepoTags"] == [REFERENCE]
    assert len(older["Layers"]) == len(EXPORT_LAYERS[name])
    assert all(hash_sha256(inside[layer]) in layer for layer in older["Layers"])
    assert [f"blobs/sha256/{layer['digest'][7:]}" for layer in json.loads(manifest)["layers"]] == older["Layers"]


EXPORT_LAYERS = dict.fromkeys(EXPORTS, LAYERS) | {"docker-20-same-layer-twice": (LAYERS[0], LAYERS[1], LAYERS[0])}


def test_same_layer_is_kept_once(tmp_path: Path) -> None:
    """A layer that occurs twice in an image is stored once."""
    path = make_bundle(tmp_path, image=EXPORTS["docker-20-same-layer-twice"])
    found = archive_reader.verify_bundle(path, "x86_64")
    blobs = [name for name in found.members if name.startswith("image/blobs/")]

    assert found.image and len(found.image.layers) == 3
    assert len(blobs) == 4  # two layers, configuration, manifest


def test_export_for_another_architecture(tmp_path: Path) -> None:
    """An image for another architecture, or with other layers, is not added to a bundle."""
    lying = make_old_export(LAYERS).replace(hash_sha256(LAYERS[0]).encode(), b"0" * 64)
    for raw, expected in (
        (make_old_export(architecture="arm64"), "is for arm64"),
        (lying, "layers do not match the image's configuration"),
    ):
        with pytest.raises(StepError, match=expected), bundle_tar.BundleWriter(tmp_path / "x.tar") as writer:
            image_layout.pack_export(writer, split_chunks(raw), REFERENCE, "x86_64")


def test_packed_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compressed layer that expands a thousandfold is stopped at the limit and refused."""
    monkeypatch.setattr(archive_reader, "SPARE_BYTES", 1 << 20)  # a bomb of 256 MiB takes seconds to make
    path = make_bundle(tmp_path, image=_pack_export((bytes(20 << 20),)))

    with pytest.raises(BundleError, match="is not a valid image layer: it unpacks to more than the limit of "):
        archive_reader.verify_bundle(path, "x86_64")


def _pack_export(layers: tuple[bytes, ...]) -> bytes:
    import gzip

    from tests.installers.bundle.bundle_helpers import make_tar

    about, blobs = make_image_config(layers), [gzip.compress(layer) for layer in layers]
    paths = [f"blobs/sha256/{hash_sha256(blob)}" for blob in (about, *blobs)]
    manifest = json.dumps([{"Config": paths[0], "RepoTags": [REFERENCE], "Layers": paths[1:]}]).encode()
    return make_tar({**dict(zip(paths, (about, *blobs), strict=True)), "manifest.json": manifest})


@contextlib.contextmanager
def open_client(engine: DockerEngine) -> Iterator[docker.DockerClient]:
    client = docker.DockerClient(base_url=engine.docker_host, timeout=60)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def recipes(tmp_path: Path, registry: LocalRegistry) -> Path:
    """Return recipes with an image in the registry: two layers, and a command to run."""
    reference = f"{registry.address}/envcheck/bundled:1"
    image_parts.push_image(
        reference, [image_parts.make_busybox(), image_parts.make_layer({"etc/mark": os.urandom(1 << 20)})]
    )
    return write_recipe(tmp_path / "recipes", more=f'[image.references]\n{MACHINE} = "{reference}"\n')


def test_through_a_real_engine(
    tmp_path: Path, engine: DockerEngine, recipes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image goes from a real engine into a bundle, is removed, is loaded from the bundle alone, and runs."""
    recipe = loader.load_recipe(recipes / "little.toml")
    assert recipe.image
    reference = recipe.image.references[MACHINE]
    engine.run_docker("pull", "--quiet", reference)
    with open_client(engine) as client:
        before = client.images.get(reference).id
        source = bundle_make.EngineImageSource(client)
        plan = bundle_make.plan_bundle(recipe, MACHINE, tmp_path / "x.tar", source)
        lock = bundle_make.make_bundle(plan, source, lambda event: None)
        client.images.remove(reference, force=True)
        found = archive_reader.verify_bundle(tmp_path / "x.tar", MACHINE)
        client.images.load(archive_reader.stream_image(found))
        after = client.images.get(reference).id
        said = client.containers.run(reference, ["/bin/echo", "it runs"], remove=True, network_mode="none")
        client.images.remove(reference, force=True)

    assert lock.image and lock.image.digest.startswith("sha256:")
    assert before == after == lock.image.id
    assert said == b"it runs\n"


def test_image_is_not_here(tmp_path: Path, engine: DockerEngine, recipes: Path) -> None:
    """An image that the engine lacks, or has for another machine, is reported with the pull command."""
    recipe = loader.load_recipe(recipes / "little.toml")
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[MACHINE]
    with open_client(engine) as client:
        source = bundle_make.EngineImageSource(client)
        with pytest.raises(EnvcheckError, match="not found on this machine") as absent:
            bundle_make.plan_bundle(recipe, MACHINE, tmp_path / "x.tar", source)
        with pytest.raises(UsageError, match=f"has no image for {other}"):
            bundle_make.plan_bundle(recipe, other, tmp_path / "x.tar", source)

    assert absent.value.next_step.startswith("docker pull --platform linux/")


def test_damaged_bundle_reaches_no_engine(tmp_path: Path) -> None:
    """The engine gets only bundles that were verified and have not changed since."""
    path = make_bundle(tmp_path)
    found = archive_reader.verify_bundle(path, "x86_64")
    path.write_bytes(path.read_bytes())

    with pytest.raises(BundleError, match="changed after it was verified"):
        next(iter(archive_reader.stream_image(found)))


def test_clone_travels(tmp_path: Path) -> None:
    """A pinned commit is bundled and restored as exactly that commit, without its server."""
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
    (commit,) = contents.bundle_checkouts([wanted], tmp_path / "parts")
    shutil.rmtree(origin)
    packed = tmp_path / "parts/checkouts" / contents.bundle_name(wanted)
    subprocess.run(["git", "clone", "-q", packed, tmp_path / "clone"], check=True)
    head = subprocess.run(["git", "-C", tmp_path / "clone", "rev-parse", "HEAD"], capture_output=True, text=True)

    assert packed.name.startswith("ERNIE-")
    assert head.stdout.strip() == first == commit.commit
    assert (tmp_path / "clone/file").read_text() == "1"
    (tmp_path / "more").mkdir()
    with pytest.raises(StepError, match="git"):
        contents.bundle_checkouts([wanted], tmp_path / "more")


def test_recipe_for_another_machine() -> None:
    """For another machine only its processor is known: the recipe is the device's default or its largest, for that
    processor.
    """

    def chosen(architecture: str, **said: str) -> str:
        request = JobRequest(**said, may_choose=True)  # type: ignore[arg-type]
        return resolve_method(request, catalogue.load_all(), Facts(host=SystemFacts(architecture=architecture)))[0].name

    assert chosen("x86_64", model="300b", device="npu") == chosen("x86_64", device="npu") == "ernie-300b-npu"
    assert chosen("aarch64", device="npu") == "qwen-7b-npu-swift"
    with pytest.raises(UsageError, match=r"^4 recipes match this request$"):
        chosen("x86_64", model="21b")


def test_the_kitchen_reads_what_the_container_reads(
    tmp_path: Path, engine: DockerEngine, python_image_here: str
) -> None:
    """A file that the recipe's container may only read (such as a CA file) is also available where wheels are
    resolved; one that it may write is not mounted.
    """
    (tmp_path / "ca.crt").write_text("a certificate")
    (tmp_path / "data").write_text("the user's")
    mounts = (Mount(f"{tmp_path}/ca.crt", "/etc/ca.crt", True), Mount(f"{tmp_path}/data", "/etc/data"))
    plain = catalogue.find_recipe(catalogue.load_all(), "ernie-300b-npu")
    assert plain.container
    recipe = replace(plain, container=replace(plain.container, mounts=mounts))
    with (
        contextlib.closing(docker.DockerClient(base_url=engine.docker_host)) as client,
        wheel_builder.start_container_builder(
            client.api, python_image_here, recipe, tmp_path, lambda _: None
        ) as builder,
    ):
        target = builder.ground.target

        assert target.read_file("/etc/ca.crt") == "a certificate"
        assert target.read_file("/etc/data") == ""
