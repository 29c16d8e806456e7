"""Measure the memory of litgpt's training steps on CPU ranks over gloo: its model, its loss, its ways to shard both.

    PYTHONPATH=.:LITGPT torchrun --standalone --nproc-per-node 2 tests/launch/memory/count_litgpt.py CASES.json FOLDER

A case is {"kind": "fsdp1" as Fabric's strategy sets it or "fsdp2" as litgpt/finetune/lora.py does, "rank": 0 for full
training, "targets": "qv" or "all-linear", "batch", "tokens", "recompute", "accumulate", "sizes": of litgpt.Config}.
Each rank writes FOLDER/RANK.json.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from tests.launch.memory.count_ranks import FirstFsdpTrainer, RankLedger, Trainer, print_phase, run_step
from tests.launch.memory.storage_ledger import count_on_ranks

CHUNK = 128  # litgpt/finetune/lora.py, lm_head_chunk_size


class LitTrainer(Trainer):
    """litgpt's loop: AdamW over what is trained, logits that live until the next ones.

    Fabric returns them in fp32 (lightning/fabric/wrappers.py, convert_output).
    """

    def compute_loss(self, ids: torch.Tensor) -> torch.Tensor:
        from litgpt.utils import chunked_cross_entropy

        if self.case["rank"]:
            self.logits: Any = [chunk.float() for chunk in self.model(ids, lm_head_chunk_size=CHUNK)]
            self.logits[-1] = self.logits[-1][..., :-1, :]
            loss: torch.Tensor = chunked_cross_entropy(self.logits, ids[..., 1:])
            return loss
        self.logits = self.model(ids).float()
        whole: torch.Tensor = chunked_cross_entropy(self.logits[..., :-1, :], ids[..., 1:])
        return whole


class LitFirstFsdpTrainer(LitTrainer, FirstFsdpTrainer):
    """Fabric's FSDPStrategy with the arguments of litgpt's scripts (lightning/fabric/strategies/fsdp.py)."""

    def __init__(self, model: Any, case: dict[str, Any]) -> None:
        from lightning.fabric.plugins.precision.fsdp import FSDPPrecision
        from lightning.fabric.strategies import fsdp
        from litgpt.lora import Block as AdapterBlock
        from litgpt.model import Block
        from torch.distributed.fsdp import FullyShardedDataParallel

        block = AdapterBlock if case["rank"] else Block
        strategy = fsdp.FSDPStrategy(
            auto_wrap_policy={block},
            activation_checkpointing_policy={block} if case["recompute"] else None,
            state_dict_type="full",
            limit_all_gathers=True,
            cpu_offload=False,
            precision=FSDPPrecision("bf16-true"),
        )
        wrapped = FullyShardedDataParallel(
            model,
            cpu_offload=strategy.cpu_offload,
            mixed_precision=strategy.mixed_precision_config,
            sharding_strategy=strategy.sharding_strategy,
            device_id=torch.device("cpu"),
            **strategy._fsdp_kwargs,
        )
        fsdp._setup_activation_checkpointing(wrapped, strategy._activation_checkpointing_kwargs)
        Trainer.__init__(self, wrapped, case)

    def load(self, weights: dict[str, Any]) -> None:
        from lightning.fabric.strategies.model_parallel import _load_raw_module_state

        _load_raw_module_state(weights, self.model, dist.get_world_size(), strict=False)


class LitSecondFsdpTrainer(LitTrainer):
    """ModelParallelStrategy with litgpt's own function; its checkpoint is divided tensor by tensor."""

    def __init__(self, model: Any, case: dict[str, Any]) -> None:
        from lightning.fabric.utilities.init import _materialize_distributed_module
        from litgpt.finetune.lora import parallelize_fn
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("data_parallel", "tensor_parallel"))
        model = parallelize_fn(model, mesh, activation_checkpointing=case["recompute"])
        _materialize_distributed_module(model, torch.device("cpu"))
        super().__init__(model, case)

    def load(self, weights: dict[str, Any]) -> None:
        """Do nothing: litgpt leaves its shards on the host (utils.py, load_from_full_model_state_dict)."""

    def backward(self, loss: torch.Tensor, last: bool) -> None:
        from torch.distributed.fsdp import FSDPModule

        for module in self.model.modules():
            if isinstance(module, FSDPModule):
                module.set_requires_gradient_sync(last, recurse=False)
        loss.backward()


KINDS: dict[str, Any] = {"fsdp1": LitFirstFsdpTrainer, "fsdp2": LitSecondFsdpTrainer}


def build_model(case: dict[str, Any], device: str) -> Any:
    """Return litgpt's model on a device, with adapters whose targets are its defaults."""
    from litgpt import lora, model

    sizes = {**case["sizes"], "block_size": case["tokens"]}
    with torch.device(device):
        if not case["rank"]:
            return model.GPT(model.Config(**sizes)).to(torch.bfloat16)
        more = ("lora_key", "lora_projection", "lora_mlp") if case["targets"] == "all-linear" else ()
        targets = dict.fromkeys(("lora_query", "lora_value", *more), True)
        config = lora.Config(**sizes, lora_r=case["rank"], lora_alpha=16, lora_dropout=0.05, **targets)
        adapted = lora.GPT(config).to(torch.bfloat16)
    lora.mark_only_lora_as_trainable(adapted)
    return adapted


def drop_as_on_a_card(tensor: torch.Tensor, p: float, training: bool, inplace: bool = False) -> torch.Tensor:
    """A card keeps a mask of bytes, the CPU one in the type of the tensor."""
    return torch.native_dropout(tensor, p, training)[0]


def count_case(case: dict[str, Any], explain: bool) -> dict[str, Any]:
    """Return the bytes of each phase of the second step; loading is from a checkpoint on the host."""
    torch.manual_seed(1)
    torch.nn.functional.dropout = drop_as_on_a_card
    ids = torch.randint(0, case["sizes"]["padded_vocab_size"], (case["accumulate"], case["batch"], case["tokens"]))
    weights = build_model(case, "cpu").state_dict()
    ledger = RankLedger(case["sizes"]["padded_vocab_size"])
    ledger.known |= {tensor.untyped_storage()._cdata for tensor in weights.values()}
    with ledger:
        trainer = KINDS[case["kind"]](build_model(case, "meta"), case)
        trainer.load(weights)
        dist.barrier()
        ledger.end_phase("load")
        for _ in range(2):
            run_step(trainer, ledger, ids)
    phases = ledger.sum_phases()
    if explain:
        states = {name: ledger.find_numbers(tensors) for name, tensors in trainer.list_states().items()}
        owner = {number: name for name, numbers in states.items() for number in numbers}
        for name, phase in phases.items():
            print_phase(ledger, name, phase, owner)
    return {
        "pools": ledger.sum_pools(),
        "phases": {name: {"peak": phase["peak"], "end": phase["end"]} for name, phase in phases.items()},
    }


if __name__ == "__main__":
    count_on_ranks(count_case)
