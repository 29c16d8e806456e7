"""What the gates look at in a real container: its own files, /dev/shm, memory limit and ports, not this host's."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import docker
import pytest

from envcheck.core.model import Status
from envcheck.job.command import TrainingCommand
from installers.recipes.recipe import Container
from launch import gates
from launch.run.container import ContainerStage
from launch.targets.stage import StageQuestion
from tests.installers.bundle.weights_helpers import model
from tests.installers.images.engine_parts import Engine
from tests.launch.gates.gate_parts import RECIPE, command, situated

NAME = "envcheck-test-gates"
BOX = ContainerStage(replace(RECIPE, container=Container(NAME), runs="/work/runs"))
ROW = b'{"src": ["a"], "tgt": ["b"]}\n'
MADE: TrainingCommand = replace(
    command(), workdir="/work", requires=("m/config.json",), data=("good.jsonl", "cut.jsonl")
)


@pytest.fixture(scope="module")
def box(engine: Engine, python_image_here: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerStage]:
    """A container with 64 MiB of /dev/shm, a model that was cut off, and data of which one file was."""
    folder = tmp_path_factory.mktemp("inside")
    shard = model(folder / "m") / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    (folder / "good.jsonl").write_bytes(ROW * 3)
    (folder / "cut.jsonl").write_bytes(ROW * 3 + ROW[:9])
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder, "work")
    engine.docker("run", "-dit", "--name", NAME, "--network", "host", "--shm-size", "64m", python_image_here, "bash")
    client = docker.DockerClient(engine.url, version="auto", timeout=120)
    client.containers.get(NAME).put_archive("/", packed.getvalue())
    client.close()
    yield BOX
    engine.docker("rm", "-f", NAME)


def test_gates_look_into_the_container(box: ContainerStage, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cut-off shard, the broken line and the small /dev/shm of the container close their gates, by name."""
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    paths = ("good.jsonl", "cut.jsonl", "m/config.json")
    seen = box._inside(StageQuestion(paths, "/work", Path("/runs"), data=paths[:2], models=("m",), ports=(1, 70000)))
    s = situated(recipe=box.recipe, stage=box, sight=seen, command=MADE)
    data, whole, shm, disk = (gates.GATES[name](s) for name in ("data", "model", "shm", "disk"))

    assert data.status is whole.status is shm.status is Status.FAIL
    assert data.evidence == ("cut.jsonl line 4 is no JSON at column 10 (expecting value)",)
    assert len(whole.evidence) == 1
    assert whole.evidence[0].startswith("m: model-00002-of-00002.safetensors is cut off: ")
    assert shm.seen == "this job needs 1.0 GiB of /dev/shm; 64 MiB found"
    assert disk.status is Status.OK
    assert seen.ports[70000] == "no such port"
    assert seen.image.startswith("sha256:")
