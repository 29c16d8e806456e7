"""Measure the memory of a real step of paddle's sharding (stages 1 and 2) on the CPU, on ranks over gloo.

    PYTHONPATH=. python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo THIS.py CASE.json OUT

Each rank writes OUT/RANK.json with the allocator's bytes at the peak of each phase of the second step, and after it, as
on a card in bf16 (paddle_models.py).  Stage 2 refuses a CPU by its name alone: it takes the CPU for a card here.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import paddle
import paddle.distributed as dist
from paddle.base import core
from paddle.distributed import fleet
from paddle.distributed.fleet.meta_parallel.sharding import (
    group_sharded_optimizer_stage2,
    group_sharded_stage2,
    group_sharded_storage,
)
from paddle.distributed.sharding import group_sharded_parallel

from tests.launch.memory.count_paddle import WIDER, allocated_bytes, peak_bytes
from tests.launch.memory.paddle_models import Decoder


def run_phase(found: dict[str, float], name: str, work: Any) -> Any:
    """Run a phase and note its peak."""
    core.host_memory_stat_reset_peak_value("Allocated", 0)
    result = work()
    found[name] = peak_bytes() / WIDER
    return result


class CardLibrary:
    """Paddle's core that says that it was built for cards."""

    def __getattr__(self, name: str) -> Any:
        return getattr(core, name)

    def is_compiled_with_cuda(self) -> bool:
        return True


def pretend_card() -> None:
    """Let the modules of stage 2 take the CPU for a card: name, moves between devices, copies to the host."""
    for module in (group_sharded_optimizer_stage2, group_sharded_stage2, group_sharded_storage):
        module.core = CardLibrary()
        module.device_guard = lambda *unused: nullcontext()
    group_sharded_storage.cvt_to_device = lambda tensor, *unused: tensor
    paddle.Tensor.cpu = lambda tensor: tensor.detach().clone()
    paddle.get_device = lambda: "gpu:0"


def shard_gradients(plain: Any) -> tuple[Any, Any]:
    """Return model and optimizer under stage 2."""
    pretend_card()
    return group_sharded_parallel(plain, paddle.optimizer.AdamW(parameters=plain.parameters()), "os_g")[:2]  # type: ignore[no-any-return, unused-ignore]


def shard_optimizer(plain: Any) -> tuple[Any, Any]:
    """Return model and optimizer under stage 1."""
    optimizer = fleet.distributed_optimizer(paddle.optimizer.AdamW(parameters=plain.parameters()))
    return fleet.distributed_model(plain), optimizer


def count_case(case: dict[str, Any]) -> dict[str, float]:
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {
        "dp_degree": 1, "mp_degree": 1, "pp_degree": 1, "sharding_degree": dist.get_world_size(),
    }  # fmt: skip
    fleet.init(is_collective=True, strategy=strategy)
    paddle.seed(1)
    plain = Decoder(case)
    plain.train()
    model, optimizer = (shard_gradients if case["stage"] == 2 else shard_optimizer)(plain)
    ids = paddle.randint(0, case["vocab"], [case["batch"], case["tokens"]])
    found = {"load": allocated_bytes() / WIDER}
    for _ in range(2):
        loss = run_phase(found, "forward and loss", lambda: plain.compute_loss(model(ids), ids))
        run_phase(found, "backward", loss.backward)
        del loss
        optimizer._comm_task = None  # of gloo: it holds the buffer that it sent, which a card has released
        run_phase(found, "optimizer step", optimizer.step)
        optimizer.clear_grad()
        found["after the step"] = allocated_bytes() / WIDER
    return found


def main() -> None:
    dist.init_parallel_env()
    found = count_case(json.loads(Path(sys.argv[1]).read_text()))
    Path(sys.argv[2], f"{dist.get_rank()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
