"""What parameter sharding (ZeRO-3, FSDP) holds beside the shards: gathered layers, buckets, fp32 sub-groups."""

from __future__ import annotations

from launch.memory.holdings import Holding
from launch.memory.job import PlannedJob
from launch.memory.quantised import per_parameter

C = 2.0


def unsharded(job: PlannedJob, holding: Holding, block: float) -> float:
    """ZeRO-3: 2 min(N, live parameters); FSDP: 2 (units x block + embedding and head, the root unit).  Quantised
    blocks are gathered as they are stored.  Inside a pipeline weights stay whole, and gradients add up whole in fp32
    (FSDP2's unsharded_accumulated_grad), until the last micro batch."""
    if job.sharding == "zero3":
        return C * min(holding.total, job.framework.gathered)
    if job.sharding == "fsdp" and job.layout.pp > 1 and job.framework.pipelined_shards:
        return (C + 4.0 * job.trains_all) * holding.total
    if job.sharding == "fsdp":
        each = per_parameter(job.quant) if job.quant else C
        units = each * job.framework.units * block + C * (holding.embedding + holding.head)
        return min(C * holding.total, units) + accumulated(job, holding)
    return 0.0


def accumulated(job: PlannedJob, holding: Holding) -> float:
    """Between micro batches FSDP does not reduce (no_sync of accelerate's and Fabric's trainers): whole gradients add
    up on each card, 2 N bytes.  Parameters that are offloaded take their gradients along."""
    whole = (
        job.trains_all and "params" not in job.offload and (job.grad_accum or 1) > 1 and job.framework.accumulates_whole
    )
    return C * holding.total if whole else 0.0


def saving(job: PlannedJob, holding: Holding, block: float) -> float:
    """A 16-bit checkpoint is put together unit by unit on the card and leaves for the host at once: of ZeRO-3 a module
    (at most a block, the embedding or the head; stage3_gather_16bit_weights_on_model_save), of FSDP a block beside
    the root unit (FULL_STATE_DICT with offload_to_cpu).  Others write what they hold."""
    edges = (holding.embedding, holding.head)
    if job.sharding == "zero3":
        return C * max(block, *edges)
    return C * (block + sum(edges)) if job.sharding == "fsdp" else 0.0


def held_inputs(job: PlannedJob, inputs: float) -> float:
    """PyTorch's first FSDP watches frozen units by hooks on their inputs, which keeps those inputs a second time until
    the backward pass ends (FSDP1, _register_post_backward_reshard_only_hook; seen as exactly one more set of
    checkpoints for Llama-3-8B and Llama-2-70B with LoRA, fms-acceleration's tables, and not without FSDP)."""
    watched = job.sharding == "fsdp" and not job.trains_all and job.framework.watches_inputs
    return inputs if watched else 0.0


def buckets(job: PlannedJob, trained: float, gradients: float) -> float:
    """Communication buckets, 2 bytes an entry: ZeRO-3 never more than there is to reduce, ZeRO-1/2 in full; plain data
    parallel holds the gradients once more (PyTorch DistributedDataParallel, gradient_as_bucket_view)."""
    if job.sharding == "zero3":
        return C * min(trained, job.framework.bucket)
    if job.sharding in ("zero1", "zero2"):
        return C * job.framework.reduce
    plain = job.sharding == "none" and job.layout.replicas > 1
    return job.framework.ddp_copies * gradients if plain else 0.0


def subgroup(job: PlannedJob, trained: float) -> float:
    """DeepSpeed's step works on sub-groups whose gradients it turns to fp32: 4 min(N/D, sub-group)."""
    if job.sharding == "zero3":
        return 4.0 * min(trained / job.layout.dense_shards, job.framework.subgroup)
    if job.sharding in ("zero1", "zero2"):
        return 4.0 * trained / job.layout.dense_shards
    return 0.0
