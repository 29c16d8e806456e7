"""What a bundle of a large image costs, beside what the disk and the engine can do: seconds and peak memory.

python -m benchmarks.bundle [GIBIBYTES]

Each row is a process of its own, so that its memory is its own.  With root and Docker installed, the image is that of
an engine and of a registry that are started for this and ended after it; else an export that is made up on the way.
`make` is as envcheck does it (packed, from the registry), `export` the same where no registry gives the image.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from installers.bundle import archive_reader
from installers.bundle import assembly as bundle_make
from installers.recipes import loader
from tests.installers.provision_helpers import write_recipe

LAYERS = 8
PIECE = os.urandom(1 << 20)
MACHINE = platform.machine()
NAME = os.environ.get("BENCH_IMAGE", "bench.example/big:1")
GO = {"x86_64": "amd64", "aarch64": "arm64"}
Row = Callable[[Path], None]


def layer(number: int, size: int) -> Iterator[bytes]:
    """A tar of one file that no program can make smaller, and no other layer holds."""
    info = tarfile.TarInfo(f"layer-{number}")
    info.size = size
    yield info.tobuf()
    for at in range(size >> 20):
        yield hashlib.sha256(f"{number} {at}".encode()).digest() + PIECE[32:]
    yield bytes(1024)


def export(size: int) -> Iterator[bytes]:
    """A made-up `docker save` of an image of `size` bytes."""
    names, diffs, each = list[str](), list[str](), size // LAYERS >> 20 << 20
    for number in range(LAYERS):
        digest = hashlib.sha256()
        info = tarfile.TarInfo(f"{number}/layer.tar")
        info.size = each + 512 + 1024
        yield info.tobuf()
        for chunk in layer(number, each):
            digest.update(chunk)
            yield chunk
        yield bytes(-info.size % 512)
        names.append(info.name)
        diffs.append("sha256:" + digest.hexdigest())
    config = {"architecture": GO[MACHINE], "os": "linux", "rootfs": {"type": "layers", "diff_ids": diffs}}
    said = [{"Config": "config.json", "RepoTags": [], "Layers": names}]
    for name, value in (("config.json", config), ("manifest.json", said)):
        raw = json.dumps(value).encode()
        info = tarfile.TarInfo(name)
        info.size = len(raw)
        yield info.tobuf() + raw + bytes(-len(raw) % 512)
    yield bytes(1024)


class MadeUp:
    """An engine's place, without an engine."""

    def __init__(self, size: int) -> None:
        self.size = size

    def find_image(self, references: object) -> bundle_make.EngineImage:
        return bundle_make.EngineImage(NAME, "", MACHINE, self.size)

    @contextlib.contextmanager
    def open_export(self, reference: str) -> Iterator[Iterator[bytes]]:
        yield export(self.size)


@contextlib.contextmanager
def source() -> Iterator[bundle_make.ImageSource]:
    """The engine at DOCKER_HOST where there is one."""
    if "DOCKER_HOST" not in os.environ:
        yield MadeUp(int(os.environ["BENCH_BYTES"]))
        return
    from installers.images import docker_engine

    seen = docker_engine.inspect_engine()
    with contextlib.closing(docker_engine.open_client(seen)) as client:
        yield bundle_make.EngineImageSource(client, seen)


def nothing(folder: Path) -> None:
    """What the interpreter and the imports take."""


def disk(folder: Path) -> None:
    """The same number of bytes, written and brought to the disk: what the disk can do."""
    with (folder / "plain").open("wb", buffering=0) as file:
        for _ in range(int(os.environ["BENCH_BYTES"]) >> 20):
            file.write(PIECE)
        os.fsync(file.fileno())


def save(folder: Path) -> None:
    """The export alone, thrown away: what the engine can do."""
    with source() as found, found.open_export(NAME) as chunks:
        for _ in chunks:
            pass


def copy(folder: Path) -> None:
    """The export into a plain file, brought to the disk: `docker save -o FILE; sync FILE`."""
    with (folder / "plain").open("wb", buffering=0) as file, source() as found:
        with found.open_export(NAME) as chunks:
            for chunk in chunks:
                file.write(chunk)
        os.fsync(file.fileno())


def make(folder: Path, packed: bool = True) -> None:
    recipe = loader.load_recipe(folder / "recipes/little.toml")
    with source() as found:
        plan = bundle_make.plan_bundle(recipe, MACHINE, folder / "big.tar", found)
        assert plan.image and bool(plan.image.distant) == ("BENCH_IMAGE" in os.environ)
        if not packed:
            plan = replace(plan, image=replace(plan.image, distant=None))
        bundle_make.make_bundle(plan, found, lambda event: None)


def by_export(folder: Path) -> None:
    make(folder, packed=False)


def verify(folder: Path) -> None:
    archive_reader.verify_bundle(folder / "big.tar", MACHINE)


def unpack(folder: Path) -> None:
    archive_reader.unpack_bundle(archive_reader.verify_bundle(folder / "big.tar", MACHINE))


def stream(folder: Path) -> None:
    """What the engine's load is given; verified before, so that this looks at headers only."""
    for _ in archive_reader.stream_image(archive_reader.verify_bundle(folder / "big.tar", MACHINE)):
        pass


ROWS: dict[str, Row] = {
    "nothing": nothing, "disk": disk, "save": save, "copy": copy,
    "export": by_export, "make": make, "verify": verify, "unpack": unpack, "stream": stream,
}  # fmt: skip


@contextlib.contextmanager
def an_engine(size: int) -> Iterator[dict[str, str]]:
    """DOCKER_HOST of an engine that has pulled the image, where one can be started, and the image's name."""
    from tests.installers.images import engine_parts, image_parts

    if why := "not wanted" if "BENCH_NO_ENGINE" in os.environ else engine_parts.find_engine_obstacle():
        print(f"no engine: {why}; the export is made up")
        yield {}
        return
    with engine_parts.start_engine() as engine, engine_parts.start_registry() as registry:
        name = f"{registry.address}/big:1"
        image_parts.push_image(name, image_parts.make_random_layers(LAYERS, size // LAYERS))
        engine.run_docker("pull", "--quiet", name)
        yield {"DOCKER_HOST": engine.docker_host, "DOCKER_CONFIG": str(engine.folder), "BENCH_IMAGE": name}


def peak_kib() -> int:
    """Of this program alone: what getrusage says begins with the parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    if len(sys.argv) > 2:
        began = time.perf_counter()
        ROWS[sys.argv[1]](Path(sys.argv[2]))
        took = time.perf_counter() - began
        print(took, peak_kib() / 1024)
        return
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else 1) * (1 << 30))
    with tempfile.TemporaryDirectory(prefix="envcheck-bench-") as scratch:
        folder = Path(scratch)
        with an_engine(size) as engine:
            name = engine.get("BENCH_IMAGE", NAME)
            write_recipe(folder / "recipes", more=f'[image.references]\n{MACHINE} = "{name}"\n')
            env = {**os.environ, **engine, "BENCH_BYTES": str(size), "ENVCHECK_HOME": str(folder / "home")}
            print(f"{size / (1 << 30):.1f} GiB, Python {platform.python_version()}, {os.cpu_count()} cores")
            for row in ROWS:
                os.sync()
                argv = [sys.executable, __file__, row, str(folder)]
                took, rss = map(float, subprocess.run(argv, env=env, capture_output=True, check=True).stdout.split())
                print(
                    f"{row:8} {took:7.2f} s {size / (1 << 20) / max(took, 1e-3):8.0f} MiB/s {rss:6.0f} MiB", flush=True
                )


if __name__ == "__main__":
    main()
