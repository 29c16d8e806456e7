"""Train blocks cut over a grid of processes by paddle's own fleet: data x pipeline x tensor parallel.

    python -m paddle.distributed.launch --npus 0,...,15 grid_program.py --device npu --tensor 4 --pipeline 2

Every process computes from the same numbers, so that the losses are those of one process that runs this alone.  Before
the first step the sum over each kind of group is checked against the ranks that belong to it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy
import paddle
import paddle.distributed as dist
from paddle import nn
from paddle.distributed import fleet
from paddle.distributed.fleet.meta_parallel import ColumnParallelLinear, LayerDesc, PipelineLayer, RowParallelLinear

WIDTH, INNER, BLOCKS, ROWS, RATE = 16, 32, 4, 32, 0.4


def main() -> None:
    asked = parse_options()
    world = int(os.environ.get("PADDLE_TRAINERS_NUM", 1))
    if asked.device != "cpu":
        paddle.set_device(asked.device)  # the launcher's FLAGS_selected_xpus says which
    rank, step = start_fleet(asked, world) if world > 1 else (0, make_single_step())
    for number in range(1, asked.steps + 1):
        loss = step()
        if rank == 0:
            print(json.dumps({"step": number, "loss": round(loss, 6)}), flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tensor", type=int, default=1)
    parser.add_argument("--pipeline", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--output")  # where checkpoints would go: envcheck names it to every program
    return parser.parse_args()


# ---- the numbers, the same everywhere


def make_weights(block: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    chance = numpy.random.default_rng(block)
    first = chance.normal(0, WIDTH**-0.5, (WIDTH, INNER))
    return first.astype("float32"), chance.normal(0, INNER**-0.5, (INNER, WIDTH)).astype("float32")


def make_rows() -> tuple[numpy.ndarray, numpy.ndarray]:
    chance = numpy.random.default_rng(99)
    x = chance.normal(0, 1, (ROWS, WIDTH)).astype("float32")
    return x, numpy.tanh(x @ chance.normal(0, 0.5, (WIDTH, WIDTH))).astype("float32")


def measure_distance(said: paddle.Tensor, wanted: paddle.Tensor) -> paddle.Tensor:
    return ((said - wanted) ** 2).mean()


# ---- one process


def make_single_step() -> Callable[[], float]:
    pairs = [[paddle.to_tensor(part, stop_gradient=False) for part in make_weights(block)] for block in range(BLOCKS)]
    x, wanted = map(paddle.to_tensor, make_rows())

    def step() -> float:
        y = x
        for first, second in pairs:
            y = y + paddle.tanh(y @ first) @ second
        loss = measure_distance(y, wanted)
        loss.backward()
        for part in (part for pair in pairs for part in pair):
            part.set_value(part.detach() - RATE * part.grad)
            part.clear_gradient()
        return float(loss.item())

    return step


# ---- the grid


class Block(nn.Layer):
    """First matrix split by columns, second by rows; the product is summed over the tensor parallel group."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.first = ColumnParallelLinear(WIDTH, INNER, has_bias=False, gather_output=False)
        self.second = RowParallelLinear(INNER, WIDTH, has_bias=False, input_is_parallel=True)
        group = fleet.get_hybrid_communicate_group()
        at, of = group.get_model_parallel_rank(), group.get_model_parallel_world_size()
        first, second = make_weights(number)
        self.first.weight.set_value(numpy.split(first, of, axis=1)[at])
        self.second.weight.set_value(numpy.split(second, of, axis=0)[at])

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return x + self.second(paddle.tanh(self.first(x)))


def start_fleet(asked: argparse.Namespace, world: int) -> tuple[int, Callable[[], float]]:
    data = world // (asked.tensor * asked.pipeline)
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {"dp_degree": data, "mp_degree": asked.tensor, "pp_degree": asked.pipeline}
    strategy.pipeline_configs = {"accumulate_steps": 2, "micro_batch_size": ROWS // data // 2}
    fleet.init(is_collective=True, strategy=strategy)
    group = fleet.get_hybrid_communicate_group()
    prove_groups(group)
    layers = [LayerDesc(Block, number) for number in range(BLOCKS)]
    model = PipelineLayer(layers=layers, topology=group.topology(), loss_fn=measure_distance)
    made = paddle.optimizer.SGD(RATE, parameters=model.parameters())
    model, optimiser = fleet.distributed_model(model), fleet.distributed_optimizer(made)
    mine = [numpy.split(part, data)[group.get_data_parallel_rank()] for part in make_rows()]

    def step() -> float:
        loss = model.train_batch([paddle.to_tensor(part) for part in mine], optimiser)
        return sum_over_group(loss.detach().reshape([1]), group.get_data_parallel_group()) / data

    return dist.get_rank(), step


def prove_groups(hybrid: Any) -> None:
    """Return the sum of the members' ranks for each group of this process."""
    named = {
        "tensor": hybrid.get_model_parallel_group(),
        "pipeline": hybrid.get_pipe_parallel_group(),
        "data": hybrid.get_data_parallel_group(),
    }
    for name, group in named.items():
        wanted, said = sum(group.ranks), sum_over_group(paddle.to_tensor([float(dist.get_rank())]), group)
        if said != wanted:
            sys.exit(f"rank {dist.get_rank()}: the sum over the {name} group {group.ranks} is {said:g}, not {wanted}")
        print(json.dumps({"event": "sum", "group": name, "ranks": group.ranks, "is": said}), flush=True)


def sum_over_group(value: paddle.Tensor, group: Any) -> float:
    dist.all_reduce(value, group=group)
    return float(value.item())


if __name__ == "__main__":
    main()
