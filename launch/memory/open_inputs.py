"""Inputs that change the memory of a job and were not given: what they can be, and which option or key settles them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from envcheck.core.messages import Message, _
from launch.memory.adapter_activations import keeps_quantised_inputs
from launch.memory.planned_job import PlannedJob, Recompute
from launch.memory.quantised import is_lifted
from launch.memory.sharding_buffers import mixes_units
from launch.memory.states import steps_by_lists

NAMES = (
    "grad_accum", "fused_loss", "lora_targets", "optimizer", "expandable_segments", "buckets", "offload_share",
    "replicas", "attention", "autocast", "quantised_inputs", "use_cache", "mixed_precision", "preparation",
    "recompute", "adapter_units", "outliers",
)  # fmt: skip
# A plan knows its cards and precision, and names what it assumes.
OF_TABLES = ("replicas", "mixed_precision", "recompute")
USUAL_REPLICAS = 8
# The largest reading of an 8-bit base lies half of such copies above the rest (axolotl-examples-002: 6 of 12 GiB);
# others have hardly any (lora-3090-012 to -014).  Inputs decide, and no table has them.
MOST_OUTLIERS = 0.5


@dataclass(frozen=True)
class OpenInput:
    """`settings`: options and keys that settle the input; `others`: the job with other values of it."""

    name: str
    what: Message
    settings: str
    others: Callable[[PlannedJob], tuple[PlannedJob, ...]]


def _accumulate(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """More micro batches per step; a single one, in which gradients need not exist at the same time as activations."""
    return tuple(replace(job, grad_accum=count) for count in (1, max(2, job.layout.pp)))


def _change_loss(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """The other loss, where a framework has a chunked one of its own, or kernels of its own.

    Around models as published it is Liger's, which is off by default (transformers, training_args.py,
    use_liger_kernel).
    """
    f = job.framework
    switched = f.fused_chunk < 0 and f.kernels.as_published
    return (replace(job, fused_loss=not job.fused_loss),) if f.fused_chunk and not switched else ()


def _change_targets(job: PlannedJob) -> tuple[PlannedJob, ...]:
    if job.trains_all:
        return ()
    return tuple(replace(job, adapter=replace(job.adapter, targets=name)) for name in ("qv", "all-linear"))


def _fuse_optimizer(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """torch's AdamW without temporaries: fused=True or foreach=False."""
    lists = job.framework.step and steps_by_lists(job.optimizer)
    return (replace(job, framework=replace(job.framework, step=0.0)),) if lists else ()


def _expand_segments(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """Expandable segments, where the framework may start the allocator with them; torch's default is off."""
    return (replace(job, expandable=not job.expandable),) if job.framework.sets_allocator else ()


def _size_buckets(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """Buckets of h^2 entries, as transformers' "auto" sets them (integrations/deepspeed.py)."""
    if not job.sharding.startswith("zero") or job.framework.storage:
        return ()
    square = float(job.model.hidden**2)
    f = job.framework
    sizes = replace(f, bucket=2 * square, reduce=square, gathered=max(square, f.gathered / 10), prefetch=0.9 * square)
    return (replace(job, framework=sizes),)


def _share_offload(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """Half of the states: Megatron-LM's optimizer offload takes a fraction."""
    if (
        job.offload_share != 1.0
        or "optimizer" not in job.offload
        or "dist_opt" not in job.framework.sharded
        or job.framework.reload
    ):
        return ()
    return (replace(job, offload_share=0.5),)


def _change_replicas(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """The fewest replicas of the layout, and the eight that fill a node with one-card replicas.

    A single one, or two where the job names a sharding: one replica has nothing to share.
    """
    x = job.layout
    each, least = max(x.tp * x.pp * x.cp, x.ep), 1 + (job.sharding != "none" and x.cp == 1)
    return tuple(replace(job, layout=replace(x, cards=each * count)) for count in (least, USUAL_REPLICAS))


def _change_attention(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """A score matrix, where the framework may not use the kernel that its option names."""
    return (replace(job, flash=False),) if job.framework.flash_doubtful and job.flash else ()


def _wrap_in_autocast(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """A loss in fp32, where a loop of one's own calls the model under autocast."""
    f = job.framework
    if f.autocast or f.computes_loss or f.full_precision:
        return ()
    return (replace(job, framework=replace(f, autocast=True)),)


def _has_own_loop(job: PlannedJob) -> bool:
    return job.framework.is_library or not job.framework.autocast or not job.framework_known


def _mix_units(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """Units of layers alone: a user's loop may wrap adapters in the first FSDP, and a framework did.

    A framework with mixed units in FSDP1 and with FSDP2 for adapters has one of both, depending on its release.
    """
    f = job.framework
    changed = bool(f.fully_shard) and not f.adapter_units
    mixed = replace(job, framework=replace(f, adapter_units=False, fully_shard=() if changed else f.fully_shard))
    return (mixed,) if (changed or _has_own_loop(job)) and mixes_units(mixed) else ()


def _cache_keys(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """Keys and values of all layers, where a loop of one's own has recompute of its own around transformers' model.

    llama-recipes did so until it passed use_cache=False (its pull request 165: 4 GB of LLaMA 7B).  Wrappers of layers
    for recompute belong to frameworks that shard; the model's own recompute turns the cache off (transformers,
    modeling_layers.py, GradientCheckpointingLayer).
    """
    wraps = _has_own_loop(job) and job.recompute.kind != "none" and job.sharding != "none"
    if not wraps or not job.framework.kernels.as_published:
        return ()
    return (replace(job, framework=replace(job.framework, caches_keys=True)),)


def _free_quantised_inputs(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """bitsandbytes from 0.43.2 on, whose products of frozen 4-bit matrices keep no input."""
    if job.framework.pins_quantiser or not keeps_quantised_inputs(job):
        return ()
    return (replace(job, framework=replace(job.framework, quantised_inputs=False)),)


def _compute_in_fp32(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """fp32 weights without autocast: transformers' trainers have it with bf16 or fp16 only."""
    p, f = job.precision, job.framework
    usual = f.weight == p.weight or job.sharding != "none" or not f.autocast  # or cast by the framework that shards
    if usual or p.weight != 4.0 or job.compute == p.weight or not job.kernels.as_published:
        return ()
    return (replace(job, precision=replace(p, compute=p.weight)),)


def _change_recompute(job: PlannedJob) -> tuple[PlannedJob, ...]:
    return tuple(replace(job, recompute=Recompute(kind)) for kind in ("none", "full") if kind != job.recompute.kind)


def _leave_out_preparation(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """A 16-bit embedding, head and residual stream, where the user's script decides to call PEFT's preparation."""
    if job.framework.prepares or job.trains_all or not is_lifted(job):
        return ()
    return (replace(job, framework=replace(job.framework, lift=2.0)),)


def _copy_outliers(job: PlannedJob) -> tuple[PlannedJob, ...]:
    """16-bit copies of columns of an 8-bit base."""
    return (replace(job, outlier_share=MOST_OUTLIERS),) if job.quant == "bnb-int8" else ()


INPUTS = {
    one.name: one
    for one in (
        OpenInput("grad_accum", _("micro-batches per step"), "--grad-accum", _accumulate),
        OpenInput("fused_loss", _("loss implementation"), "--fused-loss, --no-fused-loss", _change_loss),
        OpenInput("lora_targets", _("LoRA targets"), "--lora-targets", _change_targets),
        OpenInput("optimizer", _("optimizer variant"), "--optimizer adamw_torch_fused", _fuse_optimizer),
        OpenInput(
            "expandable_segments", _("allocator"), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", _expand_segments
        ),
        OpenInput("buckets", _("DeepSpeed's buckets"), "stage3_max_live_parameters, reduce_bucket_size", _size_buckets),
        OpenInput("offload_share", _("extent of the offload"), "--optimizer-offload-fraction", _share_offload),
        OpenInput("replicas", _("number of replicas"), "--cards", _change_replicas),
        OpenInput("autocast", _("type of the loss"), "torch.autocast", _wrap_in_autocast),
        OpenInput("attention", _("attention kernel"), "attn_implementation", _change_attention),
        OpenInput("quantised_inputs", _("release of bitsandbytes"), "bitsandbytes>=0.43.2", _free_quantised_inputs),
        OpenInput("recompute", _("recomputation"), "--recompute", _change_recompute),
        OpenInput("mixed_precision", _("mixed precision"), "bf16, fp16", _compute_in_fp32),
        OpenInput(
            "preparation",
            _("preparation of the quantised base"),
            "prepare_model_for_kbit_training",
            _leave_out_preparation,
        ),
        OpenInput(
            "adapter_units", _("units of FSDP"), "fsdp_auto_wrap_policy (peft.utils.other), litgpt>=0.5.10", _mix_units
        ),
        OpenInput("outliers", _("outliers of 8-bit products"), "llm_int8_threshold=0", _copy_outliers),
        OpenInput("use_cache", _("cache of keys and values"), "use_cache=False", _cache_keys),
    )
}


def settle_inputs(job: PlannedJob, *names: str) -> PlannedJob:
    """Return the job with these inputs given."""
    return replace(job, open_inputs=job.open_inputs - set(names))


def list_alternatives(job: PlannedJob) -> Iterator[tuple[OpenInput, tuple[PlannedJob, ...]]]:
    """Yield the inputs of the job that were not given and can differ, each with the job with other values."""
    for name, one in INPUTS.items():
        if name in job.open_inputs and (others := tuple(other for other in one.others(job) if other != job)):
            yield one, others
