"""`envcheck train` on sixteen simulated cards: real paddle, launcher, fleet and collectives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.launch.node_parts import NetworkNode
from tests.launch.real_parts import PaddleEnvironment
from tests.launch.test_train import list_remaining_processes
from tests.tiers import thin_out

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("grid_program.py")
MACHINES = {"npu": "atlas-200t-a2-box16", "iluvatar": "bi-v150x8", "xpu": "p800x8"}
TYPES = {"npu": "npu", "iluvatar": "iluvatar_gpu", "xpu": "xpu"}  # paddle's name of the device type
OPTIONS = {"npu": "--npus", "iluvatar": "--gpus", "xpu": "--xpus"}  # as upstream's own commands have them
STEPS = 5
RECIPE = """
name = "grid"
title = "A small model cut over a grid of cards"
device = "{device}"
framework = "envcheck"
models = ["grid"]
source = "a test"
[hardware]
product = "cards that are not there"
source = "a test"
cards = {cards}
[environment]
CUSTOM_DEVICE_ROOT = "{plugin}"
FAKE_DEVICES = "16"
FLAGS_use_stride_kernel = "0"
OMP_NUM_THREADS = "1"
PADDLE_XCCL_BACKEND = "{type}"
PYTHONPATH = "{path}"
[[jobs]]
method = "sft"
title = "Tensor, pipeline and data parallel"
source = "a test"
nodes = {nodes}
processes = {cards}
{port}
parallel = {{ tensor = {tensor}, pipeline = {pipeline}, data = {data} }}
launcher = [
  "{python}", "-m", "paddle.distributed.launch", "{option}", "{{devices}}", "--log_dir", "{{log_dir}}",
  {where}"{program}",
]
arguments = [
  "--device", "{type}", "--tensor", "{tensor}", "--pipeline", "{pipeline}", "--steps", "{steps}",
  "--output", "{{output}}",
]
steps = {{ max = {steps} }}
outputs = ["{{output}}"]
"""


WHERE = '"--nnodes", "{nodes}", "--master", "{master}:{port}", "--rank", "{rank}", "--host", "{host}", '


class GridTraining:
    """The command on a simulated machine in its own folder, with one paddle version."""

    def __init__(
        self, paddle: PaddleEnvironment, device: str, shape: tuple[int, int, int], folder: Path, nodes: int = 1
    ) -> None:
        self.folder, self.device = folder, device
        tensor, pipeline, data = shape
        (folder / "recipes").mkdir()
        text = RECIPE.format(
            device=device,
            type=TYPES[device],
            option=OPTIONS[device],
            cards=tensor * pipeline * data // nodes,
            nodes=nodes,
            port="port = 29666" if nodes > 1 else "",
            where=WHERE if nodes > 1 else "",
            tensor=tensor,
            pipeline=pipeline,
            data=data,
            python=paddle.python_path,
            path=paddle.path or "",
            plugin=paddle.compile_plugin(TYPES[device], folder),
            program=PROGRAM,
            steps=STEPS,
        )
        (folder / "recipes" / "grid.toml").write_text(text)

    def run_training(self, verb: str, *more: str, node: NetworkNode | None = None) -> subprocess.CompletedProcess[str]:
        envcheck = (sys.executable, "-m", "envcheck")
        named = ("--recipe", "grid", "--recipes", str(self.folder / "recipes"))
        argv = [*envcheck, "simulate", MACHINES[self.device], "--", *envcheck, verb, *named, *more]
        place = self.folder / node.name if node else self.folder
        place.mkdir(exist_ok=True)
        return subprocess.run(
            node.make_argv(*argv) if node else argv,
            cwd=place,
            env={**os.environ, "ENVCHECK_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=240,
        )


def train_alone(paddle: PaddleEnvironment) -> list[float]:
    """Return the losses of the same training in one process."""
    done = subprocess.run(
        [str(paddle.python_path), str(PROGRAM), "--steps", str(STEPS)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["loss"] for line in done.stdout.splitlines()]


def read_group_sums(run: Path) -> dict[tuple[str, tuple[int, ...]], list[float]]:
    """Return the sums of each group from the workers' logs."""
    found: dict[tuple[str, tuple[int, ...]], list[float]] = {}
    for log in run.glob("log/workerlog.*"):
        for line in log.read_text().splitlines():
            said: dict[str, Any] = json.loads(line) if line.startswith('{"event": "sum"') else {}
            if said:
                found.setdefault((said["group"], tuple(said["ranks"])), []).append(said["is"])
    return found


CASES = [
    ("3.1", "npu", (4, 2, 2)),
    ("3.3", "iluvatar", (4, 2, 2)),
    ("3.3", "npu", (2, 2, 1)),
    ("3.1", "iluvatar", (1, 2, 2)),
    ("3.1", "xpu", (2, 2, 2)),
]


@pytest.mark.parametrize(("version", "device", "shape"), thin_out(1, CASES))
def test_grid(
    paddles: dict[str, PaddleEnvironment], version: str, device: str, shape: tuple[int, int, int], tmp_path: Path
) -> None:
    """With tensor, pipeline and data parallelism the losses equal those of one process, and all sums are correct."""
    grid = GridTraining(paddles[version], device, shape, tmp_path)
    ready = grid.run_training("provision", "--yes")
    done = grid.run_training("train", "--json")

    assert ready.returncode == 0, ready.stdout + ready.stderr
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["state"], said["first_failed_worker"]) == ("succeeded", None)
    losses = [loss for _, loss in said["loss"]]
    assert losses == pytest.approx(train_alone(paddles[version]), rel=1e-4)
    assert losses[-1] < losses[0] / 4
    (run,) = tmp_path.glob("runs/2*")
    _check_groups(read_group_sums(run), shape)
    assert list_remaining_processes(tmp_path) == []


RANKS = {"given": (("--rank", "0"), ("--rank", "1")), "automatic": ((), ())}


@pytest.mark.parametrize(("version", "ranks"), thin_out(1, (("3.1", "given"), ("3.3", "automatic"))))
def test_grid_over_two_nodes(
    paddles: dict[str, PaddleEnvironment],
    nodes: tuple[NetworkNode, NetworkNode],
    tmp_path: Path,
    version: str,
    ranks: str,
) -> None:
    """Tensor parallel within nodes and a pipeline between them: the losses equal those of one process."""
    grid = GridTraining(paddles[version], "npu", (2, 2, 1), tmp_path, nodes=2)
    assert grid.run_training("provision", "--yes").returncode == 0
    more = ("--json", "--gather", "100", "--master", nodes[0].address)  # what the other node says is seen before ours
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(
            lambda node, own: grid.run_training("train", *more, *own, node=node), nodes, RANKS[ranks]
        )

    assert (first.returncode, second.returncode) == (0, 0), (first.stdout, first.stderr, second.stdout, second.stderr)
    losses = [loss for _, loss in json.loads(first.stdout)["loss"]]
    assert losses == pytest.approx(train_alone(paddles[version]), rel=1e-4)
    found = {
        key: seen
        for node in nodes
        for run in tmp_path.glob(f"{node.name}/runs/2*")
        for key, seen in read_group_sums(run).items()
    }
    assert found["tensor", (2, 3)] == [5, 5]
    assert set(found) >= {("tensor", (0, 1)), ("pipeline", (0, 2)), ("pipeline", (1, 3))}
    assert list_remaining_processes(tmp_path) == []


def _check_groups(found: dict[tuple[str, tuple[int, ...]], list[float]], shape: tuple[int, int, int]) -> None:
    """Check that each kind of parallelism partitions the ranks, and that all members have the correct sum."""
    tensor, pipeline, data = shape
    every = list(range(tensor * pipeline * data))
    for kind, size in {"tensor": tensor, "pipeline": pipeline, "data": data}.items():
        mine = {ranks: seen for (name, ranks), seen in found.items() if name == kind}
        assert sorted(rank for ranks in mine for rank in ranks) == every
        assert {len(ranks) for ranks in mine} == {size}
        assert all(seen == [sum(ranks)] * size for ranks, seen in mine.items())
