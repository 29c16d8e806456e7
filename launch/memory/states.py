"""Model states (weights, gradients, fp32 copies, moments) and how sharding divides them.

Per trained parameter (bytes): ZeRO mixed precision 2+2+4+8 (arXiv 1910.02054, section 3); Megatron with fp32 gradient
buffers 2+4+4+8; pure bf16 2+2+0+4 (torch AdamW keeps moments in the weight's type); fp32 4+4+0+8.
"""

from __future__ import annotations

from dataclasses import dataclass

from launch.memory import group_sharded
from launch.memory.parameter_shares import ParameterShare
from launch.memory.planned_job import PlannedJob, Precision

# Which of (weight, gradient, optimizer) each scheme divides by the shards.  Paddle's stage 2 divides gradients only in
# some versions (Framework.shards_gradients).  ZeRO: arXiv 1910.02054; dist_opt: Megatron's distributed optimizer guide.
DIVIDES = {
    "none": (False, False, False),
    "dist_opt": (False, False, True),
    "zero1": (False, False, True),
    "zero2": (False, True, True),
    "zero3": (True, True, True),
    "fsdp": (True, True, True),
}


@dataclass(frozen=True)
class ModelStates:
    """Bytes of one card; `adapters` are their weights, `adapter_steps` their gradients and moments."""

    weights: float = 0.0
    gradients: float = 0.0
    master: float = 0.0
    moments: float = 0.0
    adapters: float = 0.0
    adapter_steps: float = 0.0

    def __add__(self, other: ModelStates) -> ModelStates:
        return ModelStates(
            self.weights + other.weights,
            self.gradients + other.gradients,
            self.master + other.master,
            self.moments + other.moments,
            self.adapters + other.adapters,
            self.adapter_steps + other.adapter_steps,
        )

    @property
    def optimizer(self) -> float:
        """The states that optimizer offload moves to the host."""
        return self.master + self.moments + self.adapter_steps

    @property
    def total(self) -> float:
        """All states, bytes."""
        return self.weights + self.adapters + self.gradients + self.optimizer


def shard_states(
    params: float, precision: Precision, scheme: str, shards: float, gradients_too: bool = True
) -> ModelStates:
    """Return weight/Dw, gradient/Dg and (master + moments)/Do for `params` trained parameters."""
    weight, gradient, optimizer = DIVIDES[scheme]
    gradient = gradient and (gradients_too or scheme != "zero2")
    return ModelStates(
        params * precision.weight / (shards if weight else 1),
        params * precision.gradient / (shards if gradient else 1),
        params * precision.master / (shards if optimizer else 1),
        params * precision.moments / (shards if optimizer else 1),
    )


def full_training_states(job: PlannedJob, holding: ParameterShare) -> ModelStates:
    """Return the states of full training: dense parameters sharded over their data group, experts over theirs."""
    layout, f = job.layout, job.framework
    # DeepSpeed's stage 1 keeps whole gradients between micro batches only; of the last it copies its own partition.
    scheme = "zero2" if job.sharding == "zero1" and job.batches == 1 else job.sharding
    dense = holding.dense + holding.embedding + holding.head
    shards = layout.dense_shards / group_sharded.partition_excess(job)
    states = shard_states(dense, job.precision, scheme, shards, f.shards_gradients)
    states += shard_states(holding.experts, job.precision, scheme, layout.expert_shards, f.shards_gradients)
    return states + frozen_states(job, holding.vision)


def frozen_states(job: PlannedJob, params: float, shards: int | None = None) -> ModelStates:
    """Return the states of frozen weights, in the type of the model, divided if the scheme divides weights."""
    whole = params * job.precision.weight
    if not DIVIDES[job.sharding][0]:
        return ModelStates(weights=whole)
    shards = shards or job.layout.dense_shards
    return ModelStates(weights=whole / shards)


# Words of optimizers that go parameter by parameter or are one kernel: bitsandbytes, torchao, Apex, GaLore, Lion, Muon,
# and transformers' Adafactor.  torch's own go over lists of all parameters (foreach), with temporaries of their size.
WITHOUT_LISTS = (
    "8bit", "4bit", "32bit", "bnb", "paged", "fused", "apex", "galore", "lion", "muon", "adafactor", "anyprecision",
)  # fmt: skip


# Words of optimizers that step inside the backward pass, parameter by parameter, so that gradients never accumulate:
# transformers' and LLaMA-Factory's layerwise ones, torchtune's optimizer_in_bwd, LOMO (arXiv 2306.09782).
IN_BACKWARD = ("layerwise", "backward", "bwd", "lomo")


def steps_in_backward(optimizer: str, words: tuple[str, ...] = ()) -> bool:
    """Whether the optimizer runs inside the backward pass; `words`: those of the framework that do."""
    return any(word in optimizer.lower() for word in (*IN_BACKWARD, *words))


def steps_by_lists(optimizer: str) -> bool:
    """Whether the optimizer is one of torch's, in the form that it takes by default on a card."""
    return not any(word in optimizer.lower() for word in (*WITHOUT_LISTS, *IN_BACKWARD))


def moment_bytes(optimizer: str, weight: float, master: float) -> float:
    """Return the bytes of moments per parameter: Adam's two in fp32 with a master copy, else in the weight's type."""
    both = 8.0 if master or weight == 4.0 else 2 * weight
    if "paged" in optimizer:
        return 0.0  # managed memory outside the framework's allocator, which moves to the host under pressure
    if "8bit" in optimizer:
        both = 2.03  # one byte each and 1/64 of scales (bitsandbytes)
    elif "4bit" in optimizer:
        both = 1.06  # half a byte each and 1/32 of scales (torchao: an fp32 scale for 128 values)
    elif "low precision" in optimizer or "bf16" in optimizer:
        return 4.0
    if "lomo" in optimizer:  # none, AdaLomo's are factors of a matrix
        return 0.0
    if "galore" in optimizer:
        return both / 4  # moments of a low-rank projection (arXiv 2403.03507): rank about a quarter of the width
    if "muon" in optimizer or "lion" in optimizer or "sgd" in optimizer:
        return both / 2
    return 0.05 * both if "adafactor" in optimizer else both
