"""Measure the memory of a real step of paddle's sharding on the CPU, on ranks over gloo.

    PYTHONPATH=. python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo THIS.py CASE.json OUT

Each rank writes OUT/RANK.json with the allocator's bytes at the peak of each phase of the second step, and after it, as
on a card in bf16 (paddle_models.py).  Stages 2 and 3 refuse a CPU by its name alone: they take the CPU for a card here.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import paddle
import paddle.distributed as dist
from paddle import nn
from paddle.base import core
from paddle.distributed import fleet
from paddle.distributed.fleet.meta_parallel.sharding import (
    group_sharded_optimizer_stage2,
    group_sharded_stage2,
    group_sharded_stage3,
    group_sharded_storage,
)
from paddle.distributed.fleet.utils import mix_precision_utils, tensor_fusion_helper
from paddle.distributed.sharding import group_sharded_parallel

from tests.launch.memory.count_paddle import WIDER, allocated_bytes, peak_bytes
from tests.launch.memory.count_paddle_pipeline import Embedding, PipelinedLayer, compute_loss, make_tables
from tests.launch.memory.paddle_models import WIDE, Linear, Norm


class Chain(nn.Layer):  # type: ignore[misc, unused-ignore]
    """A decoder whose matrices all are layers with hooks of their own."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.embedding = Embedding(case)
        self.layers = nn.LayerList([PipelinedLayer(case) for _ in range(case["layers"])])
        self.norm, self.head = Norm(case["hidden"], True), Linear(case["hidden"], case["vocab"], 0)

    def forward(self, ids: Any) -> Any:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class CardLibrary:
    """Paddle's core that says that it was built for cards, and copies tensors to them."""

    @property
    def eager(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(core, name, None) or getattr(core.eager, name)

    def is_compiled_with_cuda(self) -> bool:
        return True

    def Tensor(self, value: Any, place: Any = None, name: str = "", **given: Any) -> Any:  # noqa: N802 - paddle's name
        if place is None and isinstance(value, core.eager.Tensor):
            value = value.detach().clone()
            value.name = name
            return value
        return core.eager.Tensor(
            value=value, place=place or core.CPUPlace(), **({"name": name} if name else {}), **given
        )


class WidePaddle:
    """Paddle with the wide type in the place of fp32."""

    float32 = paddle.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(paddle, name)


class WideAdam(paddle.optimizer.AdamW):  # type: ignore[misc, unused-ignore]
    """States of the fused kernel for 16-bit weights and fp32 gradients, which a CPU lacks: an fp32 copy and moments."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.states: dict[str, list[Any]] = {}

    def _create_accumulators(self, block: Any, parameters: Any) -> None:
        pass

    def _append_optimize_op(self, block: Any, param_and_grad: Any) -> None:
        weight, gradient = param_and_grad
        assert gradient.dtype == WidePaddle.float32
        if weight.name not in self.states:
            self.states[weight.name] = [paddle.zeros(weight.shape, WIDE) for _ in range(3)]


def pretend_card(wide: bool) -> None:
    """Let the modules of sharding take the CPU for a card: name, moves between devices, copies to the host."""
    modules = (group_sharded_optimizer_stage2, group_sharded_stage2, group_sharded_stage3, group_sharded_storage)
    for module in (*modules, mix_precision_utils, tensor_fusion_helper) if wide else ():
        module.paddle = WidePaddle()
    for module in modules:
        module.core = CardLibrary()
        module.device_guard = lambda *unused: nullcontext()
    group_sharded_storage.cvt_to_device = lambda tensor, *unused: tensor
    tensor_fusion_helper.get_current_device_type = lambda: "gpu"
    paddle.Tensor.cpu = lambda tensor: tensor.detach().clone()
    paddle.get_device = lambda: "gpu:0"
    dist.reduce_scatter = scatter_through_gloo
    group_sharded_stage3._all_gather = gather_through_gloo


class Finished:
    """A collective that is done: gloo's own task holds its tensors, one of a card does not."""

    def wait(self) -> None:
        pass


def gather_through_gloo(tensor: Any, size: int, group: Any) -> tuple[Any, Finished]:
    whole = paddle.zeros([size], dtype=tensor.dtype)
    group.process_group.all_gather(tensor, whole).wait()
    return whole, Finished()


def scatter_through_gloo(out: Any, tensor: Any, *unused: Any, **given: Any) -> Any:
    """Reduce and scatter: gloo has no such collective, and the part is a slice of the whole."""
    return dist.all_reduce(tensor, group=given["group"], sync_op=False)


def run_phase(found: dict[str, float], name: str, work: Any) -> Any:
    """Run a phase and note its peak."""
    core.host_memory_stat_reset_peak_value("Allocated", 0)
    result = work()
    found[name] = max(found.get(name, 0.0), peak_bytes() / WIDER)
    return result


def make_optimizer(plain: Any, case: dict[str, Any]) -> Any:
    clip = nn.ClipGradByGlobalNorm(1.0) if case.get("clip") else None
    if not case.get("main_grad"):
        return paddle.optimizer.AdamW(parameters=plain.parameters(), grad_clip=clip)
    mix_precision_utils.MixPrecisionLayer(plain, dtype="bfloat16")
    return mix_precision_utils.MixPrecisionOptimizer(WideAdam(parameters=plain.parameters(), grad_clip=clip))


def shard_parameters(plain: Any, case: dict[str, Any]) -> tuple[Any, Any]:
    """Return model and optimizer under stage 2 or 3."""
    sizes = {name: case[name] for name in ("buffer_max_size", "segment_size") if name in case}
    group = fleet.get_hybrid_communicate_group().get_sharding_parallel_group()
    level = "os_g" if case["stage"] == 2 else "p_g_os"
    model, optimizer, _ = group_sharded_parallel(plain, make_optimizer(plain, case), level, group=group, **sizes)
    return model, optimizer


def shard_optimizer(plain: Any, case: dict[str, Any]) -> tuple[Any, Any]:
    """Return model and optimizer under stage 1."""
    optimizer = fleet.distributed_optimizer(make_optimizer(plain, case))
    return fleet.distributed_model(plain), optimizer


def count_case(case: dict[str, Any]) -> dict[str, float]:
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {
        "dp_degree": 1, "mp_degree": 1, "pp_degree": 1, "sharding_degree": dist.get_world_size(),
    }  # fmt: skip
    config = strategy.hybrid_configs["sharding_configs"]
    for name, value in case.get("configs", {}).items():
        setattr(config, name, value)
    fleet.init(is_collective=True, strategy=strategy)
    pretend_card(case.get("main_grad", False))
    paddle.seed(1)
    PipelinedLayer.tables = make_tables(case)
    before = allocated_bytes()
    plain = Chain(case)
    plain.train()
    model, optimizer = (shard_optimizer if case["stage"] == 1 else shard_parameters)(plain, case)
    ids = paddle.randint(0, case["vocab"], [case["batch"], case["tokens"]])
    load = (allocated_bytes() - before) / WIDER
    for _ in range(2 + case.get("more", 0)):
        found: dict[str, float] = {}
        for _batch in range(case.get("batches", 1)):
            loss = run_phase(found, "forward and loss", lambda: compute_loss(model(ids), ids))
            run_phase(found, "backward", loss.backward)
            del loss
            optimizer._comm_task = None  # of gloo: it holds the buffer that it sent, which a card has released
        run_phase(found, "optimizer step", optimizer.step)
        optimizer.clear_grad()
        found["after the step"] = allocated_bytes() / WIDER
    return {"load": load, **{name: size - before / WIDER for name, size in found.items()}}


def main() -> None:
    dist.init_parallel_env()
    found = count_case(json.loads(Path(sys.argv[1]).read_text()))
    Path(sys.argv[2], f"{dist.get_rank()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
