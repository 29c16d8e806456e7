"""The gates inspect the files, /dev/shm, memory limit and ports of a real container, not of the host."""

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
from installers.recipes.recipe import RecipeContainer
from launch import gates
from launch.run.container_stage import ContainerStage
from launch.targets.stage import StageQuestion
from tests.installers.bundle.weights_helpers import write_model
from tests.installers.images.engine_parts import DockerEngine
from tests.launch.gates.gate_parts import RECIPE, make_command, make_context

NAME = "envcheck-test-gates"
BOX = ContainerStage(replace(RECIPE, container=RecipeContainer(NAME), runs="/work/runs"))
ROW = b'{"src": ["a"], "tgt": ["b"]}\n'
MADE: TrainingCommand = replace(
    make_command(), workdir="/work", requires=("m/config.json",), data=("good.jsonl", "cut.jsonl")
)


@pytest.fixture(scope="module")
def box(
    engine: DockerEngine, python_image_here: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ContainerStage]:
    """A container with 64 MiB of /dev/shm, a truncated model and a truncated data file."""
    folder = tmp_path_factory.mktemp("inside")
    shard = write_model(folder / "m") / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    (folder / "good.jsonl").write_bytes(ROW * 3)
    (folder / "cut.jsonl").write_bytes(ROW * 3 + ROW[:9])
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder, "work")
    engine.run_docker(
        "run", "-dit", "--name", NAME, "--network", "host", "--shm-size", "64m", python_image_here, "bash"
    )
    client = docker.DockerClient(engine.docker_host, version="auto", timeout=120)
    client.containers.get(NAME).put_archive("/", packed.getvalue())
    client.close()
    yield BOX
    engine.run_docker("rm", "-f", NAME)


def test_gates_look_into_the_container(
    box: ContainerStage, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The truncated shard, the invalid line and the small /dev/shm fail their gates."""
    monkeypatch.setenv("DOCKER_HOST", engine.docker_host)
    paths = ("good.jsonl", "cut.jsonl", "m/config.json")
    seen = box._probe_inside(
        StageQuestion(paths, "/work", Path("/runs"), data=paths[:2], models=("m",), ports=(1, 70000))
    )
    s = make_context(recipe=box.recipe, stage=box, sight=seen, command=MADE)
    data, whole, shm, disk = (gates.GATES[name](s) for name in ("data", "model", "shm", "disk"))

    assert data.status is whole.status is shm.status is Status.FAIL
    assert data.evidence == ("cut.jsonl: line 4 is not valid JSON at column 10 (expecting value)",)
    assert len(whole.evidence) == 1
    assert whole.evidence[0].startswith("m: model-00002-of-00002.safetensors: truncated: ")
    assert shm.seen == "this job needs 1.0 GiB of /dev/shm; 64 MiB found"
    assert disk.status is Status.OK
    assert seen.ports[70000] == "no such port"
    assert seen.image.startswith("sha256:")
