"""Memory of parameter sharding (ZeRO-3, FSDP) beside the shards: gathered layers, buckets, fp32 sub-groups."""

from __future__ import annotations

from dataclasses import replace

from launch.memory import group_sharded
from launch.memory.autocast import gathered_width
from launch.memory.parameter_shares import ParameterShare
from launch.memory.planned_job import PlannedJob
from launch.memory.quantised import bytes_per_parameter
from launch.memory.saved_activations import C


def unsharded_bytes(job: PlannedJob, holding: ParameterShare, block: float, units: float | None = None) -> float:
    """Return the bytes of gathered parameters: ZeRO-3 2 min(N, live parameters), FSDP 2 (units x block + root unit).

    `units`: the unsharded blocks, if they are not those of the backward pass.  In the forward pass FSDP1 has one, as it
    does not prefetch there; FSDP2 holds the last gathered buffer until the next is copied out: three, then two.

    ZeRO-3 gathers at least the largest tensor, which may be all experts of a layer.  Parameters that are fetched
    together come in one buffer, from which each is copied; it stays until the last of them is used (DeepSpeed,
    partition_parameters.py, AllGatherCoalescedHandle): 2 per entry of the bucket for prefetching, but not at the loss,
    where all are in use.  The root unit is embedding and head, where they have no units of their own.  Quantised blocks
    are gathered as stored.  SHARD_GRAD_OP keeps all from the forward to the backward pass.  Inside a pipeline weights
    stay unsharded until the last micro batch, with gradients in fp32 (FSDP2's unsharded_accumulated_grad).
    """
    if group_sharded.gathers_matrices(job):
        return 0.0 if units == 0.0 else group_sharded.gathered_bytes(job)
    if job.sharding == "zero3":
        live = max(job.framework.gathered, float(job.model.largest_tensor))
        fetched = 0.0 if units == 0.0 else min(live, job.framework.prefetch)
        return C * (min(holding.total, live) + min(holding.total, fetched))
    if job.sharding == "fsdp" and job.layout.pp > 1 and job.framework.pipelined_shards:
        return (C + 4.0 * job.trains_all) * holding.total
    if job.sharding == "fsdp":
        width = gathered_width(job)
        each = bytes_per_parameter(job.quant) if job.quant else width
        edges = holding.embedding + holding.head
        if job.framework.keeps_weights:
            return each * (holding.total - edges) + width * edges + accumulated_gradient_bytes(job, holding)
        root = 0.0 if shards_edges(job) else width * edges
        blocks = each * (job.framework.units if units is None else units) * block
        return min(width * holding.total, blocks + root) + accumulated_gradient_bytes(job, holding)
    return 0.0


def released_bytes(job: PlannedJob, holding: ParameterShare, block: float) -> float:
    """Return the bytes of gathered weights that SHARD_GRAD_OP has released at the last blocks."""
    plain = replace(job, framework=replace(job.framework, keeps_weights=False))
    return unsharded_bytes(job, holding, block) - unsharded_bytes(plain, holding, block)


def is_fully_sharded(job: PlannedJob) -> bool:
    """Whether it is the second FSDP."""
    return job.sharding == "fsdp" and job.method in job.framework.fully_shard


def prefetches_units(job: PlannedJob) -> bool:
    """Whether it is the first FSDP, outside a pipeline, which prefetches one unit before the backward pass of another.

    See torch/distributed/fsdp/_runtime_utils.py, _pre_backward_hook.
    """
    return job.sharding == "fsdp" and not is_fully_sharded(job) and job.layout.pp == 1


def has_adapter_units(job: PlannedJob) -> bool:
    """Whether each factor of an adapter is a unit of the first FSDP, as by PEFT's policy (fsdp_auto_wrap_policy)."""
    return prefetches_units(job) and not job.trains_all and job.framework.adapter_units


def mixes_units(job: PlannedJob) -> bool:
    """Whether units of the first FSDP have frozen weights and adapters: then also the frozen ones have gradients.

    A unit has one flat parameter and one flat gradient (torch/distributed/fsdp/_flat_param.py).
    """
    return prefetches_units(job) and not job.trains_all and not job.framework.adapter_units and not job.quant


def frozen_gradient_bytes(job: PlannedJob, holding: ParameterShare) -> float:
    """Return the bytes of a card's gradients of the frozen weights in mixed units: of the layers."""
    return sharded_gradient_width(job) * (holding.dense + holding.experts) * mixes_units(job)


def shards_edges(job: PlannedJob) -> bool:
    """Whether FSDP has units for the embedding and for the head, which are gathered only while they work."""
    return job.sharding == "fsdp" and job.layout.pp == 1 and job.method in job.framework.edge_units


def head_reduction_bytes(job: PlannedJob, holding: ParameterShare, block: float) -> float:
    """Return the bytes beyond states and activations when FSDP2 reduces a head with a unit of its own, else 0.

    Its weights are freed before, and a block is prefetched; its gradients and the input and output of their reduction.
    """
    if not shards_edges(job) or not job.trains_all:
        return 0.0
    each = C + job.framework.reduce_width + sharded_gradient_width(job)
    return C * block + each * (holding.head or holding.embedding)


def sharded_gradient_width(job: PlannedJob) -> float:
    """Return the bytes of a card's gradients for one parameter; those of offloaded parameters are on the host."""
    return 0.0 if "params" in job.offload else job.precision.gradient / job.layout.dense_shards


def shard_copy_bytes(job: PlannedJob, holding: ParameterShare, block: float) -> float:
    """Return the bytes of a 16-bit copy of the card's part of the largest unit, from fp32 shards.

    FSDP gathers from it (_flat_param.py, _use_low_precision_shard; _fsdp_collectives.py, all_gather_copy_in), FSDP1
    also has one of the reduced gradient before that is fp32 (_runtime_utils.py, _reduce_grad).
    """
    if job.sharding != "fsdp" or job.layout.pp > 1 or gathered_width(job) == job.precision.weight or job.quant:
        return 0.0
    edges = (holding.embedding, holding.head)
    return C * max(block, max(edges) if shards_edges(job) else sum(edges)) / job.layout.dense_shards


def first_gather_bytes(job: PlannedJob, holding: ParameterShare, block: float) -> float:
    """Return the bytes gathered when FSDP2's first block is: weights and buffers of that block and of the unit before.

    FSDP2 holds the buffer of a gathered unit until that of the next is copied out.  ZeRO-3 copies the embedding out of
    the buffer in which it was gathered.
    """
    if group_sharded.gathers_matrices(job):
        return C * holding.embedding
    if job.sharding == "zero3":
        return 2 * C * holding.embedding
    if not is_fully_sharded(job) or job.layout.pp > 1:
        return 0.0
    edges = holding.embedding + (0.0 if shards_edges(job) else holding.head)
    each = bytes_per_parameter(job.quant) if job.quant else C
    return 2 * (C * edges + each * block)


def gather_buffer_bytes(job: PlannedJob, block: float) -> float:
    """Return the bytes of the buffer into which FSDP2 gathers a block."""
    if not is_fully_sharded(job) or job.layout.pp > 1:
        return 0.0
    return (bytes_per_parameter(job.quant) if job.quant else C) * block


def gather_pool_bytes(job: PlannedJob, holding: ParameterShare, block: float) -> float:
    """Return the bytes of the buffers that FSDP2 holds at once: of a block, and of the unit before or after it."""
    buffer = gather_buffer_bytes(job, block)
    edges = (holding.embedding, holding.head)
    unit = max(edges) if shards_edges(job) else sum(edges)
    return buffer + max(buffer, C * unit) if buffer else 0.0


def unit_gradient_bytes(job: PlannedJob, holding: ParameterShare, block: float) -> float:
    """Return the bytes of unsharded gradients of FSDP's working unit and of the input of their reduction.

    The gradients of the head exist from the start of the backward pass to its end, those of a block until they are
    reduced, besides whole gradients of earlier micro batches: 2 bytes each.  The second FSDP copies them into a buffer
    in the type of the reduction (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_reduce), which it
    holds until the next reduction: of a head with a unit of its own until the last block is done.
    """
    if group_sharded.gathers_matrices(job):
        return group_sharded.layer_gradient_bytes(job)
    if not reduces_blocks(job):
        return 0.0
    head = (holding.head or holding.embedding) * job.trains_all
    width = job.framework.reduce_width * is_fully_sharded(job)
    if shards_edges(job):
        return C * block + width * max(block, head)
    return gathered_width(job) * (block + head) + width * block


def flat_gradient_bytes(job: PlannedJob, block: float) -> float:
    """Return the bytes of the flat gradient in which FSDP1 joins the gradients of a block."""
    return gathered_width(job) * block if reduces_blocks(job) and not is_fully_sharded(job) else 0.0


def reduces_blocks(job: PlannedJob) -> bool:
    """Whether FSDP has and reduces gradients of whole blocks, one after the other."""
    keeps_whole = job.layout.pp > 1 and job.framework.pipelined_shards
    return job.sharding == "fsdp" and not keeps_whole and (job.trains_all or mixes_units(job))


def unreduced_bytes(job: PlannedJob, holding: ParameterShare, block: float) -> float:
    """Return the bytes of sharded gradients that are not there when FSDP reduces one block before the first."""
    if group_sharded.gathers_matrices(job):
        return job.precision.gradient * (block + holding.embedding) / job.layout.dense_shards * job.trains_all
    if job.sharding != "fsdp":
        return 0.0
    root = (holding.embedding + holding.head) * (not mixes_units(job))
    return job.precision.gradient * (2 * block + root) / job.layout.dense_shards


def first_bucket(job: PlannedJob) -> float:
    """Return the entries of one of the two buckets of ZeRO-1 and 2."""
    return job.framework.reduce / 2


def unfinished_share(job: PlannedJob, holding: ParameterShare) -> float:
    """Return the share of the layers whose backward pass is not done when ZeRO-1 and 2 reduce the first bucket.

    The head and the last layers are in it: the partition of the last rank, which is the fullest one.
    """
    layers = holding.dense + holding.experts
    return 1.0 - min(1.0, max(0.0, first_bucket(job) - holding.head) / layers) if layers else 1.0


def accumulated_gradient_bytes(job: PlannedJob, holding: ParameterShare) -> float:
    """Return the bytes of unsharded gradients between micro batches, 2 N, or 4 N if they are not in 16 bit.

    FSDP does not reduce before the last one (no_sync in the trainers of accelerate and Fabric).  Offloaded parameters
    have their gradients on the host.
    """
    whole = "params" not in job.offload and job.batches > 1 and job.framework.accumulates_whole
    layers = (holding.dense + holding.experts) * mixes_units(job)
    return gathered_width(job) * (holding.total if job.trains_all else layers) if whole else 0.0


def checkpoint_save_bytes(job: PlannedJob, holding: ParameterShare, block: float) -> float:
    """Return the bytes gathered on the card to save a 16-bit checkpoint; each part is moved to the host at once.

    ZeRO-3: a module (at most a block, the embedding or the head; stage3_gather_16bit_weights_on_model_save).  FSDP: a
    block and the root unit (FULL_STATE_DICT with offload_to_cpu).  Other schemes gather nothing.
    """
    edges = (holding.embedding, holding.head)
    if job.sharding == "zero3":
        return C * max(block, *edges)
    return C * (block + sum(edges)) if job.sharding == "fsdp" else 0.0


def held_input_bytes(job: PlannedJob, inputs: float) -> float:
    """Return the bytes of inputs that the hooks of PyTorch's first FSDP on frozen units keep until the backward ends.

    See _register_post_backward_reshard_only_hook; measured as exactly one more set of checkpoints for Llama-3-8B and
    Llama-2-70B with LoRA (tables of fms-acceleration), but not without FSDP.
    """
    watched = job.sharding == "fsdp" and not job.trains_all and job.framework.watches_inputs and not mixes_units(job)
    return inputs if watched else 0.0


def bucket_bytes(job: PlannedJob, trained: float, gradients: float) -> float:
    """Return the bytes of communication buckets, 2 per entry.

    ZeRO-3: the bucket of gradients in full, and its flattened input, at most the trained parameters; ZeRO-1 and 2: both
    in full;
    plain data parallelism: the gradients once more (PyTorch DistributedDataParallel, gradient_as_bucket_view).
    """
    if group_sharded.stores_gradients(job):
        return group_sharded.storage_bytes(job, trained, gradients)
    if group_sharded.gathers_matrices(job):
        return 0.0
    if job.sharding == "zero3":
        return C * job.framework.bucket / 2
    if job.sharding in ("zero1", "zero2"):
        return C * job.framework.reduce
    plain = job.sharding == "none" and job.layout.replicas > 1
    return job.framework.ddp_copies * gradients if plain else 0.0


def flattened_bytes(job: PlannedJob, trained: float) -> float:
    """Return the bytes of the flattened input of ZeRO-3's reduce-scatter: a bucket, at most the trained parameters."""
    joined = job.sharding == "zero3" and not group_sharded.gathers_matrices(job)
    return C * min(trained, job.framework.bucket / 2) if joined else 0.0


def subgroup_bytes(job: PlannedJob, trained: float) -> float:
    """Return the bytes of one sub-group's gradients in the step: 6 min(N/D, sub-group).

    DeepSpeed flattens them in 16 bit (2) and copies that to fp32 (4) while the partitions still exist.

    With an offloaded optimizer they are on the host, where DeepSpeedCPUAdam steps.
    """
    if "optimizer" in job.offload:
        return 0.0
    if job.sharding == "zero3":
        return job.framework.group_width * min(trained / job.layout.dense_shards, job.framework.subgroup)
    if job.sharding in ("zero1", "zero2"):
        return job.framework.group_width * trained / job.layout.dense_shards
    return 0.0
