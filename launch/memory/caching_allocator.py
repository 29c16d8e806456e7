"""Memory that torch's caching allocator holds and cannot use: large blocks of a step, freed but too small for others.

A request takes the smallest free block that is large enough, or else a new segment; a block is split, and merged again
with free neighbours of its own segment (c10, CUDACachingAllocator.cpp; PyTorch, CUDA memory management).  So the score
matrices of an eager attention and the logits of a loss use each other's segments only if the later ones are not larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from launch.memory.activations import checkpoint_bytes, has_wide_scores
from launch.memory.loss import output_bytes, takes_half_logits
from launch.memory.planned_job import PlannedJob
from launch.memory.quantised import is_lifted
from launch.memory.saved_activations import C

WIDE = 4.0  # bytes of an fp32 element
STEPS = 2  # the blocks of the first step are those that later ones find

Events = Iterator[tuple[str, float]]  # name and bytes of a block that is allocated; 0 bytes: it is freed


@dataclass
class CachingAllocator:
    """`segments`: the blocks of each segment in order, as bytes and the name of the tensor there, "" if it is free."""

    segments: list[list[tuple[float, str]]] = field(default_factory=list)
    used: float = 0.0
    most_used: float = 0.0

    @property
    def reserved(self) -> float:
        """Bytes of all segments."""
        return sum(size for blocks in self.segments for size, _name in blocks)

    def allocate(self, name: str, size: float) -> None:
        """Put a tensor into the smallest free block that holds it, or into a segment of its own."""
        found = min(
            (
                (block, number, at)
                for number, blocks in enumerate(self.segments)
                for at, (block, owner) in enumerate(blocks)
                if not owner and block >= size
            ),
            default=None,
        )
        if found is None:
            self.segments.append([(size, name)])
        else:
            block, number, at = found
            rest = [(block - size, "")] if block > size else []
            self.segments[number][at : at + 1] = [(size, name), *rest]
        self.used += size
        self.most_used = max(self.most_used, self.used)

    def free(self, name: str) -> None:
        """Free a tensor, and merge its block with free neighbours."""
        for number, blocks in enumerate(self.segments):
            if any(owner == name for _size, owner in blocks):
                self.used -= sum(size for size, owner in blocks if owner == name)
                self.segments[number] = merge_free_blocks([(size, "" if o == name else o) for size, o in blocks])


def merge_free_blocks(blocks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return the blocks of a segment with adjacent free ones as one."""
    merged: list[tuple[float, str]] = []
    for size, owner in blocks:
        if merged and not owner and not merged[-1][1]:
            merged[-1] = (merged[-1][0] + size, "")
        else:
            merged.append((size, owner))
    return merged


def has_whole_layers(job: PlannedJob) -> bool:
    """Return whether each card holds whole layers all the time: one card, copies, or ZeRO up to stage 2."""
    x = job.layout
    return max(x.tp, x.pp, x.cp, x.ep) == 1 and not x.layer_split and job.sharding not in ("fsdp", "zero3")


def unusable_bytes(job: PlannedJob) -> float:
    """Return the bytes of free blocks when most memory is reserved, beyond those that are in use when most is used.

    For recomputed whole layers as their model's own code writes them, with lengths that do not vary.
    """
    plain = job.kernels.as_published and not job.model.moe and not job.model.mla and not job.fused_loss
    if not plain or not has_whole_layers(job) or job.varying_lengths or job.recompute.kind != "full":
        return 0.0
    allocator = CachingAllocator([[(size, "")] for size in lifted_bytes(job)])
    for _step in range(STEPS):
        for name, size in list_events(job):
            if size:
                allocator.allocate(name, size)
            else:
                allocator.free(name)
    return allocator.reserved - allocator.most_used


def lifted_bytes(job: PlannedJob) -> tuple[float, ...]:
    """Return the bytes of 16-bit embedding and head that PEFT's preparation has replaced by fp32 ones."""
    each = C * job.model.vocab * job.model.hidden
    return ((each,) if job.model.tied else (each, each)) if is_lifted(job) else ()


def list_events(job: PlannedJob) -> Events:
    """Yield the large blocks of a step: of checkpoints, a layer, the loss, and a layer that is recomputed."""
    checkpoints = [f"checkpoint {layer}" for layer in range(job.model.layers)]
    for name in checkpoints:
        yield (name, checkpoint_bytes(job) * job.tokens)
    yield from attention_events(job)
    yield from free("cast", "softmax", "masked")
    yield from mlp_events(job)
    yield from free("gate", "activation", "up", "product")
    yield from loss_events(job)
    yield from attention_events(job)
    yield from mlp_events(job)
    width = mlp_bytes(job)
    yield from (("product gradient", width), ("product", 0.0), ("activation gradient", width), ("up gradient", width))
    yield from free("product gradient", "activation gradient", "up gradient", "gate", "activation", "up")
    yield from attention_gradient_events(job)
    yield from free("logits", *checkpoints)


def free(*names: str) -> Events:
    """Yield the end of blocks."""
    return ((name, 0.0) for name in names)


def attention_events(job: PlannedJob) -> Events:
    """Yield the score matrix, scaled, masked, and its softmax, which is cast back unless the scores are in fp32."""
    each = 0.0 if job.flash else float(job.model.heads * job.seq_len) * job.tokens
    if each:
        width = (WIDE if has_wide_scores(job) else C) * each
        yield from (("scores", width), ("scaled", width), ("scores", 0.0), ("masked", width), ("scaled", 0.0))
        yield ("softmax", WIDE * each)
        yield ("masked", 0.0)
        if not has_wide_scores(job):
            yield ("cast", C * each)


def attention_gradient_events(job: PlannedJob) -> Events:
    """Yield the gradients of the softmax and of the scores, and the product of gradient and softmax."""
    each = 0.0 if job.flash else float(job.model.heads * job.seq_len) * job.tokens
    if each:
        if not has_wide_scores(job):
            yield from (("cast gradient", C * each), ("cast", 0.0))
        yield ("softmax gradient", WIDE * each)
        yield from free("cast gradient")
        yield from (("multiplied", WIDE * each), ("score gradient", WIDE * each))
        yield from free("multiplied", "softmax gradient", "softmax", "score gradient")


def mlp_bytes(job: PlannedJob) -> float:
    """Return the bytes of a tensor as wide as the MLP, in fp32 on a lifted residual stream."""
    return (2 if is_lifted(job) else 1) * C * job.model.ffn * job.tokens


def mlp_events(job: PlannedJob) -> Events:
    """Yield gate, activation, up and product."""
    return ((name, mlp_bytes(job)) for name in ("gate", "activation", "up", "product"))


def loss_events(job: PlannedJob) -> Events:
    """Yield logits, their fp32 copy, log-softmax, and the gradients of both; an output object keeps the logits."""
    logits = float(job.model.vocab) * job.tokens
    head, width = (WIDE if is_lifted(job) else C), (C if takes_half_logits(job) else WIDE)
    yield ("logits", head * logits)
    if width > head:
        yield ("copy", width * logits)
    yield from (("log-softmax", width * logits), ("copy", 0.0))
    if not output_bytes(job):
        yield ("logits", 0.0)
    yield from (("loss gradient", width * logits), ("copy gradient", width * logits))
    yield from free("loss gradient", "log-softmax")
    if width > head:
        yield ("logit gradient", head * logits)
    yield from free("copy gradient", "logit gradient")
