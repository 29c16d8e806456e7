"""Measure the memory of real steps of paddle's pipeline (1F1B) on the CPU, on two ranks over gloo.

    PYTHONPATH=. python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo THIS.py CASE.json OUT

Each rank writes OUT/RANK.json with the allocator's bytes after loading and at the peak of the second step, as on a card
in bf16 (paddle_models.py).  Paddle lacks two things on a CPU, which are added: ParallelEnv.device_id, and sending on
the stream of the computation ("ProcessGroupGLOO does not support send with sync_op and use_calc_stream flag").
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import paddle
import paddle.distributed as dist
from paddle import nn
from paddle.base import core
from paddle.distributed import fleet
from paddle.distributed.fleet.meta_parallel import LayerDesc, PipelineLayer
from paddle.distributed.fleet.meta_parallel.pp_utils import p2p_communication
from paddle.distributed.fleet.utils import recompute
from paddle.nn import functional

from tests.launch.memory.count_paddle import WIDER, allocated_bytes, peak_bytes
from tests.launch.memory.paddle_models import NARROW, WIDE, Layer, Norm


def send_through_gloo(tensor: Any, group: Any, peer: int, *unused: Any) -> Any:
    return group.process_group.send(tensor, group.get_group_rank(peer), True).wait()


def receive_through_gloo(tensor: Any, group: Any, peer: int, *unused: Any) -> Any:
    return group.process_group.recv(tensor, group.get_group_rank(peer), True).wait()


class Embedding(nn.Layer):  # type: ignore[misc, unused-ignore]
    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.weight = self.create_parameter([case["vocab"], case["hidden"]])

    def forward(self, ids: Any) -> Any:
        return functional.embedding(ids, self.weight)


class PipelinedLayer(Layer):
    """A layer with its tables of positions, which all layers share."""

    tables: tuple[Any, ...] = ()

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__(case)
        self.again = case["recompute"]

    def forward(self, x: Any) -> Any:
        run = super().forward
        return recompute(run, x, *self.tables) if self.again else run(x, *self.tables)


class Head(nn.Layer):  # type: ignore[misc, unused-ignore]
    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.norm = Norm(case["hidden"], True)
        self.weight = self.create_parameter([case["hidden"], case["vocab"]])

    def forward(self, x: Any) -> Any:
        return paddle.matmul(self.norm(x), self.weight)


def compute_loss(logits: Any, labels: Any) -> Any:
    return (
        functional.cross_entropy(logits.astype(WIDE), labels.unsqueeze(-1), reduction="none").sum().astype(NARROW)
    )  # it is sent as fp32


def make_tables(case: dict[str, Any]) -> tuple[Any, ...]:
    length, size = case["tokens"], case["head_dim"]
    angle = paddle.arange(length).astype(NARROW).unsqueeze(1) * paddle.ones([size], NARROW)
    angle = angle.reshape([1, 1, length, size])
    ahead = paddle.triu(paddle.full([length, length], -1e9, NARROW), 1)
    return paddle.cos(angle), paddle.sin(angle), ahead.reshape([1, 1, length, length])


def count_case(case: dict[str, Any]) -> dict[str, float]:
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {"dp_degree": 1, "mp_degree": 1, "pp_degree": 2, "sharding_degree": 1}
    strategy.pipeline_configs = {"accumulate_steps": case["batches"], "micro_batch_size": case["batch"]}
    fleet.init(is_collective=True, strategy=strategy)
    PipelinedLayer.tables = make_tables(case)
    before = allocated_bytes()
    parts = [LayerDesc(kind, case) for kind in (Embedding, *[PipelinedLayer] * case["layers"], Head)]
    chunks = {"num_virtual_pipeline_stages": case["chunks"]} if "chunks" in case else {}
    plain = PipelineLayer(parts, num_stages=2, loss_fn=compute_loss, seg_method="layer:PipelinedLayer", **chunks)
    model = fleet.distributed_model(plain)
    optimizer = fleet.distributed_optimizer(paddle.optimizer.AdamW(parameters=plain.parameters()))
    ids = paddle.randint(0, case["vocab"], [case["batches"] * case["batch"], case["tokens"]])
    found = {"load": (allocated_bytes() - before) / WIDER}
    for _ in range(2):
        core.host_memory_stat_reset_peak_value("Allocated", 0)
        model.train_batch([ids, ids], optimizer)
        found["step"] = (peak_bytes() - before) / WIDER
    return found


def main() -> None:
    dist.ParallelEnv._device_id = 0
    p2p_communication._send_on_calc_stream = send_through_gloo
    p2p_communication._recv_on_calc_stream = receive_through_gloo
    dist.init_parallel_env()
    found = count_case(json.loads(Path(sys.argv[1]).read_text()))
    Path(sys.argv[2], f"{dist.get_rank()}.json").write_text(json.dumps(found))
    os._exit(0)


if __name__ == "__main__":
    main()
