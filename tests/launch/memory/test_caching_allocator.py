"""Free blocks that torch's caching allocator cannot use."""

from __future__ import annotations

import pytest

from launch.memory import caching_allocator, open_inputs
from launch.memory.caching_allocator import CachingAllocator
from launch.memory.planned_job import PlannedJob
from launch.planner import table_rows


def test_a_larger_tensor_needs_a_segment() -> None:
    """A freed block holds what is not larger; what is needs a segment of its own, and the free block remains."""
    allocator = CachingAllocator()
    allocator.allocate("scores", 10.0)
    allocator.free("scores")
    allocator.allocate("logits", 6.0)
    allocator.allocate("copy", 4.0)
    allocator.allocate("gradient", 8.0)
    allocator.free("logits")
    allocator.free("copy")
    allocator.allocate("scores", 10.0)

    assert allocator.segments == [[(10.0, "scores")], [(8.0, "gradient")]]
    assert allocator.reserved == allocator.most_used == 18.0


def make_row_job(**more: str) -> PlannedJob:
    """Return LoRA of SmolLM2 360M with 4,096 tokens, as a loop that passes labels has it on a T4."""
    row = {
        "model": "smollm2-360m", "method": "lora", "cards": "1", "seq_len": "4096", "recompute": "full",
        "weight_dtype": "fp16", "framework": "loop with labels", "flash_attn": "0", "metric": "max_reserved",
    }  # fmt: skip
    return table_rows.build_row_job({**row, **more})


def test_score_matrices_larger_than_logits() -> None:
    """Scores of 0.94 GiB find no room in blocks of 0.75 GiB, which the loss has left: they are reserved for nothing."""
    small, large = (caching_allocator.unusable_bytes(make_row_job(seq_len=length)) for length in ("512", "4096"))

    assert large / 2**30 == pytest.approx(2.1, abs=0.1)
    assert small < 0.05 * 2**30


def test_a_lifted_embedding_leaves_its_16_bit_block() -> None:
    """PEFT's preparation replaces the embedding by an fp32 one; checkpoints fill a part of the block that it frees."""
    row = {"model": "llama-3.2-3b", "method": "qlora", "quant": "bnb-nf4", "seq_len": "1024", "flash_attn": "1"}
    job = make_row_job(**row)
    checkpoints = 4.0 * job.model.layers * job.model.hidden * job.tokens
    freed = 2.0 * job.model.vocab * job.model.hidden

    assert caching_allocator.lifted_bytes(job) == (freed,)
    assert caching_allocator.unusable_bytes(job) == pytest.approx(freed - checkpoints)


@pytest.mark.parametrize(
    "more",
    [
        {"cards": "2", "sharding": "fsdp"},
        {"recompute": "none"},
        {"seq_kind": "longest_sample"},
        {"framework": "megatron"},
    ],
)
def test_other_jobs_have_the_growth_of_their_framework(more: dict[str, str]) -> None:
    """Gathered layers, varying lengths, layers that keep their activations, and kernels of other frameworks have other
    blocks."""
    assert caching_allocator.unusable_bytes(make_row_job(**more)) == 0


def test_copies_of_a_model_have_the_blocks_of_one_card() -> None:
    """The allocator of a card does not know of other cards: with DDP each holds whole layers."""
    one, two = (caching_allocator.unusable_bytes(make_row_job(cards=cards, sharding=way)) for cards, way in WAYS)

    assert one == two > 0


WAYS = (("1", "none"), ("2", "ddp"))


@pytest.mark.parametrize(("sharding", "cards", "is_open"), [("fsdp", "8", True), ("none", "1", False)])
def test_the_models_own_recompute_has_no_cache(sharding: str, cards: str, is_open: bool) -> None:
    """Only wrappers of layers, as loops with FSDP use them, leave the cache of keys and values on."""
    job = make_row_job(sharding=sharding, cards=cards, flash_attn="1")

    assert ("use_cache" in [one.name for one, _others in open_inputs.list_alternatives(job)]) is is_open
