"""Compare each term with the formula of its paper or manual."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launch.catalogue import devices, frameworks, models
from launch.catalogue.architecture import Model
from launch.memory import (
    GIB,
    activations,
    adapter_activations,
    adapters,
    large_gradients,
    loss,
    meter,
    offloaded,
    open_inputs,
    parameter_shares,
    phases,
    pinned_blocks,
    pipeline,
    quantised,
    sharding_buffers,
    states,
    uncertainty,
)
from launch.memory.planned_job import Adapter, ParallelLayout, PlannedJob, Precision, Recompute
from launch.memory.stage_parts import build_stage_parts, count_layer_bytes
from launch.memory.states import moment_bytes
from launch.planner import resolve, table_rows, verdict
from tests.launch.planner.planner_helpers import A100, GENERIC, MEGATRON, make_job

KNOWN = frameworks.load_frameworks()
GPT = Model("gpt", layers=12, hidden=1024, heads=16, kv_heads=16, head_dim=64, ffn=4096, vocab=51200, gated=False,
            norm="layernorm")  # fmt: skip


def test_published_activation_formula() -> None:
    """With f = 4h, k = a and dropout: 34 h bytes per token and layer without parallelism (arXiv 2205.05198)."""
    asked = make_job("0.3b", model=GPT, framework=MEGATRON, dropout=0.1, recompute=Recompute("none"))
    kept = activations.layer_activations(asked, False)

    assert kept.bytes_on_card(1, False) / GPT.hidden == pytest.approx(34, abs=0.2)


def test_sequence_parallelism_divides_everything() -> None:
    """With sequence parallelism a card keeps 1/T of a layer."""
    asked = make_job("0.3b", model=GPT, framework=MEGATRON, recompute=Recompute("none"))
    kept = activations.layer_activations(asked, False)

    assert kept.bytes_on_card(4, True) == pytest.approx(kept.bytes_on_card(1, False) / 4)
    assert kept.bytes_on_card(4, False) > kept.bytes_on_card(4, True)


def test_score_matrix() -> None:
    """A fused softmax without flash keeps 2 a s, dropout adds 3 a s: the 5 a s of arXiv 2205.05198."""
    asked = make_job("0.3b", model=GPT, framework=MEGATRON, flash=False, recompute=Recompute("none"), seq_len=1024)

    assert activations.score_bytes(asked) == 2 * 16 * 1024
    assert activations.score_bytes(replace(asked, dropout=0.1)) == 5 * 16 * 1024
    assert activations.score_bytes(replace(asked, recompute=Recompute("selective"))) == 0


@pytest.mark.parametrize(
    ("precision", "scheme", "shards", "each"),
    [
        (Precision(2, 2, 4, 8), "none", 8, 16),
        (Precision(2, 2, 4, 8), "zero1", 8, 4 + 12 / 8),
        (Precision(2, 2, 4, 8), "zero2", 8, 2 + 14 / 8),
        (Precision(2, 2, 4, 8), "zero3", 8, 16 / 8),
        (Precision(2, 4, 4, 8), "dist_opt", 4, 6 + 12 / 4),
        (Precision(2, 2, 8, 8), "dist_opt", 4, 4 + 16 / 4),
        (Precision(2, 2, 0, 4), "none", 1, 8),
        (Precision(4, 4, 0, 8), "fsdp", 8, 2),
    ],
)
def test_bytes_per_parameter(precision: Precision, scheme: str, shards: int, each: float) -> None:
    """The table of model states (arXiv 1910.02054; Megatron's distributed optimizer guide)."""
    assert states.shard_states(1000, precision, scheme, shards).total == pytest.approx(1000 * each)


@pytest.mark.parametrize(
    ("stages", "stage", "chunks", "batches", "loads"),
    [(4, 0, 1, 8, 4), (4, 3, 1, 8, 1), (4, 0, 1, 2, 2), (4, 0, 8, 32, (6 + 28 + 1) / 8), (1, 0, 1, 8, 1)],
)
def test_micro_batches_in_flight(stages: int, stage: int, chunks: int, batches: int, loads: float) -> None:
    """min(P - p, m) for 1F1B, (2 (P - p - 1) + (v - 1) P + 1)/v with chunks (arXiv 2104.04473)."""
    assert pipeline.count_loads_in_flight(stages, stage, chunks, batches) == loads


def test_54_layers_on_16_stages() -> None:
    """The largest stage has 4 layers, and a card of it 2.896e9 parameters (research note, example A)."""
    model, layout = models.find_model("300b"), ParallelLayout(8, 16, cards=128)
    counts = parameter_shares.split_layers(54, 16)

    assert sum(counts) == 54
    assert max(counts) == 4
    assert parameter_shares.compute_parameter_share(model, layout, 1).total == pytest.approx(2.896e9, rel=0.001)


def test_tied_head_is_a_second_copy_only_with_a_pipeline() -> None:
    """A tied head needs no memory on the stage of its embedding, and a copy on another stage."""
    model = models.find_model("21b")

    assert parameter_shares.compute_parameter_share(model, ParallelLayout(1, 1), 0).head == 0
    assert (
        parameter_shares.compute_parameter_share(model, ParallelLayout(1, 4, cards=4), 3).head
        == model.vocab * model.hidden
    )


def test_stages_add_up_to_the_model() -> None:
    """All stages and ranks together hold every parameter once; norms and router are on each of the T ranks."""
    model, layout = models.find_model("300b"), ParallelLayout(8, 16, cards=128)
    held = sum(parameter_shares.compute_parameter_share(model, layout, stage).total for stage in range(16)) * 8
    doubled = 7 * (model.trunk.replicated + model.final_norm.replicated)

    assert held == model.params + doubled


def test_experts_divide_by_ep_and_their_own_tensor_degree() -> None:
    """E x Te; Te is 1 if there are too few cards for T (Megatron-LM issue 4050)."""
    small, large = ParallelLayout(4, 2, ep=4, cards=8), ParallelLayout(4, 2, ep=4, cards=64)

    assert (small.expert_tp, large.expert_tp) == (1, 4)
    assert parameter_shares.divide_group(models.find_model("21b").expert_mlp, large)[1] == 754_974_720 / 16


def test_lora_counts() -> None:
    """r (in + out) per matrix: rank 32 on all linear layers of 300B with separate gate and up is 3.7e9 parameters."""
    model = models.find_model("300b")
    dense, experts = adapters.count_adapter_params(model, ParallelLayout(), Adapter(32), 0)

    assert dense + experts == pytest.approx(3.7e9, rel=0.04)


def test_fused_adapters_of_megatron() -> None:
    """One pair on qkv and one on gate-up: rank 16 on Llama-2-7B is 33.7e6, 0.565 GiB at 18 bytes (mindspeed-st-016)."""
    dense, _ = adapters.count_adapter_params(
        models.find_model("llama-2-7b"), ParallelLayout(), Adapter(16), 0, fused=True
    )

    assert dense * 18 / GIB == pytest.approx(13.117 - 6738415616 * 2 / GIB, abs=0.01)


def test_quantised_base() -> None:
    """NF4 needs 0.5625 bytes per parameter of the matrices; other parameters need 2, or 4 if cast to fp32."""
    held = parameter_shares.compute_parameter_share(models.find_model("qwen-7b"), ParallelLayout(), 0)
    packed, rest = quantised.base_weight_bytes(held, "bnb-nf4", 4.0)

    assert packed == pytest.approx(0.5625 * (held.dense - held.norms))
    assert rest == 4.0 * (held.embedding + held.head + held.norms)
    assert quantised.base_weight_bytes(held, "gptq-int4", 2.0)[1] == rest / 2


def test_quantised_head() -> None:
    """Lightning packs the head with the blocks, and unpacks it in fp16, then cast: 4 V h at the loss."""
    model = models.find_model("llama-2-7b")
    job = make_job(model.name, model=model, method="lora", quant="bnb-nf4", framework=KNOWN["litgpt"])
    job = replace(job, fused_loss=False)
    held = parameter_shares.compute_parameter_share(model, ParallelLayout(), 0)
    loss_terms = dict(phases.list_phases(job, 0)[1].terms)

    packed, rest = quantised.base_weight_bytes(held, "bnb-nf4", 2.0, with_head=True)
    assert packed == pytest.approx(0.5625 * (held.dense - held.norms + held.head))
    assert rest == 2.0 * (held.embedding + held.norms)
    assert loss_terms["unpacked matrix"] == 4.0 * model.vocab * model.hidden
    assert quantised.unpacked_head_bytes(replace(job, framework=GENERIC)) == 0


def test_the_graph_of_the_last_step() -> None:
    """bitsandbytes up to 0.43.1 keeps inputs until the graph is gone: litgpt of 2024 has the last one's in the next."""
    job = make_job(
        "llama-2-7b", method="lora", quant="bnb-nf4", framework=KNOWN["litgpt-2024"], recompute=Recompute("none"),
        seq_len=512, adapter=Adapter(32, "qv"),
    )  # fmt: skip
    m, old = job.model, replace(job, framework=KNOWN["litgpt-2023"])
    inputs = m.layers * 2 * (2 * m.hidden + m.hidden + m.ffn)

    assert build_stage_parts(job, 0).previous == (512 * (inputs + 6 * m.vocab), 512 * 4 * m.vocab)
    assert dict(phases.list_phases(job, 0)[1].terms)["previous step"] > 0
    assert phases.list_phases(job, 0)[1].total > phases.list_phases(old, 0)[1].total
    assert not any(
        sum(build_stage_parts(other, 0).previous)
        for other in (old, replace(job, quant=""), replace(job, framework=KNOWN["litgpt"]), replace(job, method="full"))
    )


def test_heads_of_their_own() -> None:
    """litgpt builds a head beside the embedding also for models that tie them."""
    row = {"model": "gemma-2b", "method": "lora", "cards": "1", "framework": "litgpt"}

    assert not table_rows.build_row_job(row).model.tied
    assert table_rows.build_row_job({**row, "framework": "trl"}).model.tied


def test_the_residual_stream_is_lifted() -> None:
    """PEFT's preparation makes checkpoints fp32 for bitsandbytes' types, but not with GPTQ, FSDP or litgpt."""
    trainer = make_job("qwen-7b", method="lora", quant="bnb-nf4", framework=GENERIC, recompute=Recompute("full"))
    plain = [
        replace(trainer, quant="gptq-int4"),
        replace(trainer, sharding="fsdp"),
        replace(trainer, framework=KNOWN["litgpt"]),
    ]

    assert activations.checkpoint_bytes(trainer) == 4.0 * trainer.model.hidden
    assert {activations.checkpoint_bytes(other) for other in plain} == {2.0 * trainer.model.hidden}


def test_a_lifted_layer_is_fp32_within_its_mlp() -> None:
    """bitsandbytes' matrices return fp32 for a lifted stream: gate, activation, up and their gradients have 4 bytes."""
    job = make_job("qwen-7b", method="lora", quant="bnb-nf4", framework=GENERIC, adapter=Adapter(8, "qv"))
    lifted, plain = (
        activations.dense_mlp_activations(one) for one in (job, replace(job, framework=KNOWN["llamafactory"]))
    )

    assert lifted.divided - plain.divided == lifted.gradient - plain.gradient == 3 * 2 * job.model.ffn


def test_quantised_experts_run_one_by_one() -> None:
    """Their gradients are those of one expert's tokens; unquantised ones are one product in transformers 5."""
    job = make_job("mixtral-8x7b", method="lora", quant="gptq-int4", framework=GENERIC, recompute=Recompute("none"))
    moe = job.model.moe
    assert moe
    one, every = (activations.mixture_activations(each, moe).gradient for each in (job, replace(job, quant="")))

    assert one < every
    assert one == 2 * job.model.hidden + moe.active * job.kernels.expert_gradient * job.model.hidden


def test_loops_without_autocast_take_16_bit_logits() -> None:
    """A loop of one's own: 8 bytes per logit, 14 under autocast, 16 with PEFT's fp32 head; an open input."""
    row = {"model": "llama-3-8b", "method": "lora", "cards": "1", "framework": "torch loop", "seq_len": "1024"}
    job = table_rows.build_row_job(row)
    each = job.model.vocab * job.tokens
    quantised_row = table_rows.build_row_job({**row, "method": "qlora"})

    assert loss.loss_bytes(job) == 8 * each
    assert loss.loss_bytes(replace(job, precision=Precision(4.0))) == 14 * each
    assert loss.loss_bytes(quantised_row) == 16 * each
    (wrapped,) = next(others for one, others in open_inputs.list_alternatives(job) if one.name == "autocast")
    assert loss.loss_bytes(wrapped) == 14 * each


def test_models_compute_their_loss_in_fp32() -> None:
    """A loop that passes labels: transformers' loss has an fp32 copy of the logits; nothing is open."""
    row = {"model": "llama-3-8b", "method": "lora", "cards": "1", "framework": "loop with labels", "seq_len": "1024"}
    job = table_rows.build_row_job(row)

    assert loss.loss_bytes(job) == 14 * job.model.vocab * job.tokens
    assert "autocast" not in [one.name for one, _others in open_inputs.list_alternatives(job)]


@pytest.mark.parametrize("loop", ["training loop", "loop with labels"])
def test_a_loop_in_fp32_computes_in_the_type_of_its_weights(loop: str) -> None:
    """Its activations have 4 bytes an element, and the attention kernel is open: FlashAttention has none for fp32."""
    row = {"model": "gpt2", "cards": "1", "weight_dtype": "fp32", "seq_len": "1024"}
    plain, whole = (table_rows.build_row_job({**row, "framework": word}) for word in (loop, f"fp32 {loop}"))
    opened = {one.name for one, _others in open_inputs.list_alternatives(whole)}
    machine = resolve.PlannedMachine(A100, 1, 80.0)
    asked = resolve.build_planned_job(machine, "gpt2", "full", {"framework": f"fp32 {loop}"})

    assert (plain.compute, whole.compute) == (2.0, 4.0)
    assert asked.precision == whole.precision == Precision(4.0, 4.0, 0.0, 8.0, 4.0)
    assert whole.framework.computes_loss == plain.framework.computes_loss
    assert whole.framework.kept_logits == plain.framework.kept_logits == 2.0
    assert "attention" in opened and not opened & {"autocast", "mixed_precision"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"framework": "trl"}, (6, 10)), ({"weight_dtype": "fp16"}, (6, 8)), ({"method": "qlora"}, (4, 12))],
)
def test_backward_pass_of_scores(given: dict[str, str], expected: tuple[int, int]) -> None:
    """A product of gradient and result; fp16 scores have an fp16 gradient; fp32 scores have no 16-bit copy."""
    row = {"model": "llama-3-8b", "method": "lora", "framework": "loop with labels", "cards": "1", "seq_len": "4096"}
    job = table_rows.build_row_job({**row, **given})
    plain = activations.attention_activations(replace(job, flash=False))
    scores = job.model.heads * job.seq_len

    assert (plain.score / scores, round(plain.gradient / scores)) == expected


def test_watched_inputs() -> None:
    """FSDP1 keeps the inputs of recomputed frozen units twice; not in full training, and FSDP2 does not."""
    under = make_job(
        "llama-2-7b",
        method="lora",
        framework=GENERIC,
        sharding="fsdp",
        layout=ParallelLayout(cards=2),
        recompute=Recompute("full"),
    )

    assert build_stage_parts(under, 0).watched == dict(build_stage_parts(under, 0).kept)["checkpoints"] > 0
    assert build_stage_parts(replace(under, method="full"), 0).watched == 0
    assert build_stage_parts(replace(under, framework=KNOWN["torchtune"]), 0).watched == 0


def test_shards_inside_a_pipeline() -> None:
    """torchtitan keeps a stage's 16-bit weights and fp32 gradients unsharded between micro batches."""
    titan = make_job(
        "llama-2-7b", framework=KNOWN["torchtitan"], sharding="fsdp", layout=ParallelLayout(pp=4, cards=16)
    )
    held = parameter_shares.compute_parameter_share(titan.model, titan.layout, 1)

    assert build_stage_parts(titan, 1).gathered == 6.0 * held.total
    assert build_stage_parts(replace(titan, layout=ParallelLayout(cards=4)), 0).gathered < 2.0 * held.total


def test_gradients_come_and_go() -> None:
    """A trainer that sets gradients to None has none in the first forward pass, but has with two micro batches."""
    trainer = make_job("llama-2-7b", framework=GENERIC, grad_accum=1)

    def gradients(other: PlannedJob) -> float:
        return dict(phases.list_phases(other, 0)[1].terms)["gradients"]

    assert gradients(trainer) == 0
    assert gradients(replace(trainer, grad_accum=2)) > 0
    assert gradients(replace(trainer, framework=KNOWN["megatron"])) > 0


def test_vocabulary_parallel_loss() -> None:
    """Megatron's loss needs 6 bytes per token and entry of its share of the vocabulary, before core 0.8 10 bytes."""
    asked = make_job("0.3b", tp=2, framework=MEGATRON, fused_loss=False, seq_len=1000)
    older = frameworks.find_framework("Megatron-LM core 0.6")

    assert loss.loss_bytes(asked) == 6 * 1000 * 103424 / 2
    assert older and loss.loss_bytes(replace(asked, framework=older)) == 10 * 1000 * 103424 / 2


def test_torchs_parallel_loss() -> None:
    """torch's loss_parallel has four fp32 tensors in its backward pass, of a slice of the vocabulary each."""
    given = make_job("llama-3-8b", framework=KNOWN["torchtitan"], sharding="fsdp", layout=ParallelLayout(cards=8))
    plain = replace(given, fused_loss=False)
    divided = replace(plain, layout=ParallelLayout(tp=8, cards=8))

    assert loss.loss_bytes(divided) == 16 * plain.model.vocab / 8 * plain.tokens
    assert loss.loss_bytes(plain) == 12 * plain.model.vocab * plain.tokens


@pytest.mark.parametrize(
    ("name", "whole"), [("litgpt 2023", True), ("litgpt 0.4", True), ("litgpt 0.5.13", False), ("litgpt", False)]
)
def test_litgpts_adapters_are_in_units_of_whole_blocks_up_to_its_release_0_5_9(name: str, whole: bool) -> None:
    """Their frozen weights have gradients, which stay whole between micro batches; later releases have FSDP2."""
    found = frameworks.find_framework(name)
    assert found
    job = make_job("llama-2-7b", framework=found, sharding="fsdp", layout=ParallelLayout(cards=2), method="lora",
                   adapter=Adapter(8), open_inputs=frozenset(["adapter_units"]))  # fmt: skip
    layers = job.model.params - 2 * job.model.vocab * job.model.hidden
    gathered = dict(phases.list_phases(job, 0)[2].terms)["gathered layers"]

    assert (gathered > 2 * layers) is whole
    assert [one.name for one, _others in open_inputs.list_alternatives(job)] == ["adapter_units"] * (name == "litgpt")


def test_litgpts_logits() -> None:
    """They are in fp32; without adapters their gradient is there in chunks and joined, with adapters in chunks."""
    given = make_job("llama-2-7b", framework=KNOWN["litgpt"], precision=Precision(2, 2, 0, 4), fused_loss=False)
    adapted = replace(given, method="lora", adapter=Adapter(8))
    logits = given.model.vocab * given.tokens

    assert [loss.loss_bytes(job) / logits for job in (given, adapted)] == [12, 10]
    assert loss.output_bytes(given) == 4 * logits


def test_a_head_larger_than_the_bucket_is_a_gradient_of_its_own() -> None:
    """ZeRO-2: beside the partition; of an unknown bucket the verdict's lower bound leaves it out."""
    job = make_job("llama-3-8b", framework=KNOWN["generic"], sharding="zero2", layout=ParallelLayout(cards=8))
    large = replace(job, framework=replace(job.framework, reduce=2.0e9))
    head = 2.0 * job.model.head.total
    alone = phases.Phase("backward", 0, (("unit gradients", head),))
    unknown = replace(job, open_inputs=frozenset({"buckets"}))

    assert build_stage_parts(job, 0).first_gradient == head > build_stage_parts(large, 0).first_gradient == 0.0
    assert uncertainty.lower_bound(unknown, alone) == 0.0 < uncertainty.lower_bound(job, alone)


def test_pools_of_streams_count_where_the_cache_is_read() -> None:
    """Their sizes are counted in test_counted_on_ranks.py; tensors and ZeRO-3 have none."""
    asked = make_job("llama-3-8b", framework=KNOWN["torchtitan"], sharding="fsdp", precision=Precision(4, 4, 0, 8),
                     layout=ParallelLayout(cards=8), memory_gib=80)  # fmt: skip
    load, forward = phases.list_phases(asked, 0)[:2]
    read, tensors = (phases.apply_meter(replace(asked, meter=m), forward).total for m in ("reserved", "allocated"))
    cache = (KNOWN["torchtitan"].growth - 1) * sum(n for name, n in forward.terms if name in phases.COMING)

    assert load.pooled == 0.0 < forward.pooled
    assert read - tensors == pytest.approx(forward.pooled + cache)
    assert phases.list_phases(replace(asked, sharding="zero3"), 0)[1].pooled == 0.0


def test_chunked_loss_is_far_smaller() -> None:
    """Liger computes the logits of tokens x h/V at a time."""
    asked = make_job("qwen2.5-7b", framework=GENERIC, precision=Precision())

    assert loss.loss_bytes(asked) < 0.2 * loss.loss_bytes(replace(asked, fused_loss=False))


def test_zero3_gathers_at_most_what_there_is() -> None:
    """ZeRO-3 gathers up to a billion parameters of 2 bytes, at most those of the model, and holds a bucket twice."""
    large = make_job("qwen2.5-7b", framework=GENERIC, sharding="zero3")
    small = make_job("qwen2-0.5b", framework=GENERIC, sharding="zero3")
    held = parameter_shares.compute_parameter_share(small.model, small.layout, 0)

    assert (
        sharding_buffers.unsharded_bytes(
            large, parameter_shares.compute_parameter_share(large.model, large.layout, 0), 0
        )
        == 2e9 + 2 * 5e7
    )
    assert sharding_buffers.unsharded_bytes(small, held, 0) == 2 * (held.total + 5e7)
    assert sharding_buffers.unsharded_bytes(small, held, 0, 0.0) == 2 * held.total


def test_meters_stack() -> None:
    """Reserved memory is at least the allocated memory, and the vendor's tool shows at least the reserved memory."""
    asked = make_job("qwen2.5-7b", framework=GENERIC, sharding="zero3", cards=8)
    phase = max(phases.list_phases(asked, 0), key=lambda p: p.total)
    shown = [phases.apply_meter(replace(asked, meter=kind), phase).total for kind in ("allocated", "reserved", "smi")]

    assert shown == sorted(shown)
    assert shown[0] < shown[2]


def test_usable_memory_of_a_910b() -> None:
    """64 GiB minus 3.2 in use, context and communicators are available for tensors."""
    asked = make_job("300b", 8, 16)

    assert meter.usable_bytes(asked) / GIB == pytest.approx(58.6, abs=0.3)


def test_fsdp_holds_the_working_units_gradients() -> None:
    """Full training under FSDP holds the unsharded gradients of a block and of the root unit in the backward pass.

    The gradients of an untied embedding come last.  FSDP1 joins those of the block in a flat one, FSDP2 copies them for
    their reduction; adapters, and other schemes, hold none.
    """
    f = frameworks.load_frameworks()["generic"]
    model = models.load_model("llama-3-8b")
    job = PlannedJob(
        model=model, framework=f, device=devices.find_device("A100"), memory_gib=80, layout=ParallelLayout(cards=8),
        sharding="fsdp", grad_accum=1,
    )  # fmt: skip
    block, head = model.layer_params(0).total, model.vocab * model.hidden
    first = build_stage_parts(job, 0)
    second = build_stage_parts(replace(job, framework=replace(f, fully_shard=("full", "lora"), reduce_width=4.0)), 0)

    assert first.unit_gradients == pytest.approx(2 * (block + head), rel=1e-4)
    assert first.flat_gradient == pytest.approx(2 * block, rel=1e-4)
    assert second.unit_gradients == pytest.approx(first.unit_gradients + 4 * block, rel=1e-4)
    assert second.flat_gradient == 0
    assert build_stage_parts(replace(job, sharding="zero3"), 0).unit_gradients == 0
    assert build_stage_parts(replace(job, method="lora", adapter=Adapter(8)), 0).unit_gradients == 0


def test_fsdp_reduces_the_root_unit_last() -> None:
    """FSDP1 has the root unit three times then, a tied one four; FSDP2 the input of the reduction and head gradients.

    Counted on real ranks (test_counted_on_ranks.py, large vocabulary).
    """
    f = KNOWN["generic"]
    job = make_job("llama-3-8b", framework=f, sharding="fsdp", layout=ParallelLayout(cards=8), grad_accum=1)
    model, own = job.model, job.precision.gradient / 8
    edge = float(model.vocab * model.hidden)
    second = replace(job, framework=replace(f, fully_shard=("full", "lora"), reduce_width=4.0))
    tied = replace(job, model=replace(model, tied=True))

    assert build_stage_parts(job, 0).last_reduction.total == pytest.approx(3 * 2 * 2 * edge - own * 2 * edge)
    assert build_stage_parts(tied, 0).last_reduction.total == pytest.approx(4 * 2 * edge - own * edge)
    assert build_stage_parts(second, 0).last_reduction.total == pytest.approx(4 * 2 * edge + 2 * edge)
    assert build_stage_parts(replace(job, sharding="zero3"), 0).last_reduction.total == 0


def test_output_of_a_loop_lives_until_the_backward_pass_ends() -> None:
    """Its 16-bit logits lie beside the last layer's recompute, too; a fused loss makes none."""
    loop = make_job("llama-2-7b", framework=KNOWN["loop"], fused_loss=False, micro_batch=8)
    freed = replace(loop, framework=replace(loop.framework, kept_logits=0.0))

    def backward(job: PlannedJob) -> float:
        nothing = states.ModelStates(), states.ModelStates()
        return sum(size for _name, size in phases.backward_terms(job, build_stage_parts(job, 0), nothing))

    assert backward(loop) - backward(freed) == pytest.approx(2 * loop.model.vocab * loop.tokens)
    assert loss.output_bytes(replace(loop, fused_loss=True)) == 0


def test_without_fsdp_torchtitan_divides_in_fp32() -> None:
    """Its autocast is for one card and DDP alone: stages and tensor ranks have no 16-bit copies."""
    titan = make_job("llama-3-8b", framework=KNOWN["torchtitan"], sharding="none", precision=Precision(4, 4, 0, 8),
                     layout=ParallelLayout(tp=2, pp=2, cards=4), recompute=Recompute("full"))  # fmt: skip
    usual = replace(titan, framework=replace(titan.framework, casts_in_fsdp=False))
    wide, cast = (build_stage_parts(job, 0) for job in (titan, usual))

    assert (wide.copies_backward, cast.copies_backward > 0) == (0, True)
    assert dict(wide.kept)["checkpoints"] == dict(cast.kept)["checkpoints"]  # in fp32 both ways
    assert replace(titan, layout=ParallelLayout(cards=4)).compute == 2
    assert replace(titan, sharding="fsdp").compute == 2


def test_autocast_alone_gathers_fp32() -> None:
    """FSDP without MixedPrecision: fp32 gathered weights and gradients, fp32 checkpoints, copies of kept layers."""
    wide = Precision(4, 4, 0, 8)
    given = make_job(
        "llama-2-7b", sharding="fsdp", layout=ParallelLayout(cards=8), precision=wide, recompute=Recompute("full")
    )
    cast = replace(given, framework=replace(given.framework, casts_shards=True))
    whole, parts = (build_stage_parts(job, 0) for job in (given, cast))
    again = build_stage_parts(replace(cast, recompute=Recompute("none")), 0)

    assert parts.gathered == 2 * whole.gathered
    assert parts.flat_gradient == 2 * whole.flat_gradient
    assert dict(parts.kept)["checkpoints"] == 2 * dict(whole.kept)["checkpoints"]
    assert again.copies_backward > 1.9 * given.model.params > parts.copies_backward + whole.copies_backward


def test_units_that_mix_adapters_and_frozen_weights() -> None:
    """Under FSDP1 frozen weights of mixed units have gradients and keep inputs; a loop of one's own may have them."""
    layout = ParallelLayout(cards=8)
    given = make_job("llama-2-7b", framework=GENERIC, method="lora", adapter=Adapter(8), sharding="fsdp", layout=layout)
    mixed = replace(given, framework=replace(given.framework, adapter_units=False))
    whole, parts = (build_stage_parts(job, 0) for job in (given, mixed))
    layers = given.model.params - 2 * given.model.vocab * given.model.hidden
    loop = replace(given, framework=KNOWN["loop"], open_inputs=frozenset(("adapter_units",)))

    assert parts.states.gradients == pytest.approx(given.precision.gradient * layers / 8, rel=1e-3)
    assert whole.states.gradients == whole.unit_gradients == whole.flat_gradient == 0
    assert parts.unit_gradients == parts.flat_gradient > 0
    assert activations.keeps_inputs(mixed) and not activations.keeps_inputs(given)
    assert [one.name for one, _others in open_inputs.list_alternatives(loop)] == ["adapter_units"]
    assert not list(open_inputs.list_alternatives(replace(loop, framework=KNOWN["generic"])))


def test_units_of_embedding_and_head() -> None:
    """With units of their own embedding and head are gathered and reduced alone; torchtitan keeps the head gathered."""
    titan = KNOWN["torchtitan"]
    job = make_job("llama-3-8b", framework=titan, sharding="fsdp", layout=ParallelLayout(cards=8), grad_accum=1)
    apart, root = (
        build_stage_parts(replace(job, framework=replace(titan, edge_units=units)), 0) for units in (("full",), ())
    )
    edge = float(job.model.vocab * job.model.hidden)

    assert root.gathered - apart.gathered == pytest.approx(2 * 2 * edge)
    assert apart.gathered_loss == pytest.approx(2 * 2 * edge)
    assert apart.last_reduction.total == pytest.approx((2 + 4) * edge)
    assert apart.head_reduction > apart.last_reduction.total and root.head_reduction == 0


def test_chunked_losses_hold_gradients_of_the_head() -> None:
    """Losses that compute gradients chunk by chunk hold the head's: Liger once, XTuner twice, torchtune's none."""
    sizes = {}
    for name in ("generic", "xtuner", "torchtune"):
        job = make_job("llama-3-8b", framework=KNOWN[name], fused_loss=True, seq_len=4096)
        frozen = replace(job, method="lora", adapter=Adapter(8))
        sizes[name] = (loss.loss_bytes(job) - loss.loss_bytes(frozen)) / (2 * job.model.vocab * job.model.hidden)

    assert sizes == pytest.approx({"generic": 1.0, "xtuner": 2.0, "torchtune": 0.0})


def test_zero3_gathers_the_largest_tensor() -> None:
    """A tensor with all experts of a layer is gathered whole, although it has more entries than live parameters."""
    model = models.load_model("gpt-oss-120b")
    job = PlannedJob(
        model=model, framework=frameworks.load_frameworks()["generic"], device=devices.find_device("A100"),
        memory_gib=80, layout=ParallelLayout(cards=8), sharding="zero3",
    )  # fmt: skip

    assert model.largest_tensor == 128 * 2 * 2880 * 2880 > 2e9
    assert build_stage_parts(job, 0).gathered_loss == 2 * model.largest_tensor


@pytest.mark.parametrize(
    ("optimizer", "size"),
    [("adamw", 4.0), ("adamw8bit", 2.03), ("adamw4bit", 1.06), ("paged_adamw_32bit", 0.0), ("paged_adamw8bit", 0.0),
     ("galore_adamw", 1.0), ("galore_adamw_8bit", 2.03 / 4), ("lion", 2.0)],
)  # fmt: skip
def test_moments_of_optimizers(optimizer: str, size: float) -> None:
    """Bytes of moments per 16-bit parameter; paged optimizers hold theirs outside the allocator, GaLore a quarter."""
    assert moment_bytes(optimizer, 2.0, 0.0) == pytest.approx(size)


def test_adapters_keep_the_gathered_input() -> None:
    """With sequence parallelism Megatron's adapters keep their input for the whole sequence, others their part."""
    known, model = frameworks.load_frameworks(), models.load_model("llama-3-8b")
    sizes = {}
    for name in ("megatron", "generic"):
        job = PlannedJob(
            model=model, framework=known[name], device=devices.find_device("A100"), memory_gib=80, method="lora",
            layout=ParallelLayout(tp=4, cards=4), sequence_parallel=True, adapter=Adapter(8, "qkv"),
        )  # fmt: skip
        kept = adapter_activations.attention_adapters(job)
        sizes[name] = (kept.bytes_on_card(4, True), kept.bytes_on_card(1, False))

    assert sizes["megatron"][0] > 0.9 * sizes["megatron"][1]
    assert sizes["generic"][0] == pytest.approx(sizes["generic"][1] / 4)


@pytest.mark.parametrize(("layers", "resident"), [(0, 2), (8, 26), (1, 32), (31, 3), (99, 2)])
def test_activation_offload_takes_a_number_of_layers(layers: int, resident: int) -> None:
    """Of 32 layers the offloaded ones leave two on the card: the one in use, and the one on its way."""
    job = PlannedJob(
        model=models.load_model("llama-3-8b"), framework=frameworks.load_frameworks()["megatron"],
        device=devices.find_device("A100"), memory_gib=80,
    )  # fmt: skip
    moved = replace(job, offload=frozenset({"activations"}), offload_layers=layers)
    for recompute in (Recompute("none"), Recompute("full")):
        whole, rest = (count_layer_bytes(replace(one, recompute=recompute), 0) for one in (job, moved))
        assert rest.sets == pytest.approx(whole.sets * resident / 32)
        assert rest.checkpoints == pytest.approx(whole.checkpoints * resident / 32)


def test_a_fraction_of_the_optimizer_is_offloaded() -> None:
    """Megatron moves all 12 bytes of the offloaded share of parameters: masters and moments."""
    job = PlannedJob(
        model=models.load_model("llama-3-8b"), framework=frameworks.load_frameworks()["megatron"],
        device=devices.find_device("A100"), memory_gib=80, precision=Precision(2, 4, 4, 8),
        offload=frozenset({"optimizer"}), offload_share=0.25,
    )  # fmt: skip
    step = phases.list_phases(job, 0)[3]

    assert dict(step.terms)["master weights"] + dict(step.terms)["moments"] == pytest.approx(
        0.75 * 12 * job.model.params
    )


@pytest.mark.parametrize(("sharding", "left"), [("zero1", True), ("zero2", True), ("zero3", False)])
def test_a_block_of_the_initialisation_may_be_left(sharding: str, left: bool) -> None:
    """ZeRO-1 and 2 with the optimizer on the host: at most a rank's share of the weights, less what is in it."""
    job = make_job("llama-2-7b", cards=2, framework=GENERIC, sharding=sharding, offload=frozenset({"optimizer"}))
    load, _forward, backward = phases.list_phases(job, 0)[:3]
    share = dict(load.terms)["weights"] / 2

    assert uncertainty.initial_block_bytes(job, load) == pytest.approx(share * left)
    assert uncertainty.initial_block_bytes(job, backward) < share
    assert not uncertainty.initial_block_bytes(replace(job, expandable=True), load)
    assert not uncertainty.initial_block_bytes(replace(job, offload=frozenset()), load)


def test_the_norm_of_a_moved_gradient_is_in_fp64() -> None:
    """8 bytes for each entry of the largest gradient in ZeRO-1 and 2, 4 or fewer in ZeRO-3, which takes a partition."""
    job = make_job("llama-2-7b", cards=2, framework=GENERIC, sharding="zero2", offload=frozenset({"optimizer"}))

    assert offloaded.moved_gradient_bytes(job) == 8.0 * job.model.largest_tensor
    assert offloaded.moved_gradient_bytes(replace(job, sharding="zero3")) <= 4.0 * job.model.largest_tensor


def test_ulysses_keeps_the_output_by_heads_and_by_tokens() -> None:
    """2 a d more per local token than ring attention if the projection is trained; buffers in any case."""
    known = frameworks.load_frameworks()["swift"]
    for method, more in (("full", 2 * 4096), ("lora", 0)):
        kept, peak = {}, {}
        for name, ulysses in (("ring", False), ("ulysses", True)):
            job = PlannedJob(
                model=models.load_model("llama-3-8b"), framework=replace(known, swaps_heads=ulysses),
                device=devices.find_device("A100"), memory_gib=80, layout=ParallelLayout(cp=4, cards=4), method=method,
                adapter=Adapter(8 * (method == "lora")),
            )  # fmt: skip
            found = activations.attention_activations(job)
            kept[name], peak[name] = found.kept_bytes, found.gradient
        assert kept["ulysses"] - kept["ring"] == more
        assert peak["ulysses"] - peak["ring"] == 2 * 2 * 4096


@pytest.mark.parametrize(
    ("offload", "on_host"),
    [(frozenset(), False), (frozenset({"activations"}), False), (frozenset({"optimizer"}), True)],
)
def test_only_the_optimizers_offload_moves_its_gradients(offload: frozenset[str], on_host: bool) -> None:
    """ZeRO-1's own partition of the gradients is on the card in the step, unless the optimizer steps on the host."""
    job = PlannedJob(
        model=models.load_model("llama-3-8b"), framework=KNOWN["axolotl"], device=devices.find_device("A100"),
        memory_gib=80, layout=ParallelLayout(cards=2), sharding="zero1", grad_accum=4, offload=offload,
    )  # fmt: skip
    gradients = dict(phases.list_phases(job, 0)[3].terms).get("gradients", 0.0)

    assert gradients == pytest.approx(0.0 if on_host else job.precision.gradient * job.model.params / 2, rel=0.01)
    assert (large_gradients.gradient_partition_bytes(job, 1e9) == 0.0) is on_host


def test_gradients_of_adapters_stay_with_offloaded_activations() -> None:
    """Without an accumulated gradient the forward pass has none, whatever is done with the activations."""
    job = PlannedJob(
        model=models.load_model("llama-3-8b"), framework=KNOWN["axolotl"], device=devices.find_device("A100"),
        memory_gib=80, method="lora", adapter=Adapter(64),
    )  # fmt: skip
    forward = [
        dict(phases.list_phases(replace(job, offload=away), 0)[1].terms)["adapters"]
        for away in (frozenset[str](), frozenset({"activations"}))
    ]

    assert forward[0] == forward[1]


@pytest.mark.parametrize(
    ("optimizer", "temporaries", "gradients"),
    [("adamw", 2.0, 1), ("adamw_bnb_8bit", 0, 1), ("adamw_torch_fused", 0, 1), ("adafactor", 16.0, 1),
     ("adamw_layerwise", 0, 0)],
)  # fmt: skip
def test_steps_of_optimizers(optimizer: str, temporaries: float, gradients: int) -> None:
    """torch's optimizers over lists have temporaries; others go parameter by parameter, some as gradients arrive.

    Adafactor has four of its largest tensor in fp32.
    """
    row = {"model": "llama-3-8b", "method": "full", "cards": "1", "framework": "trainer", "seq_len": "128"}
    job = table_rows.build_row_job({**row, "optimizer": optimizer, "master_weights": "0", "grad_accum": "1"})
    step = dict(phases.list_phases(job, 0)[3].terms)

    lists = optimizer == "adamw"
    assert step["step temporaries"] == temporaries * (job.model.params if lists else job.model.largest_tensor)
    assert (step["gradients"] == 2 * job.model.params) == gradients
    highest = max(phase.total for phase in phases.list_phases(job, 0)) + meter.workspace_bytes(job)
    assert phases.bytes_after_step(job, build_stage_parts(job, 0)) <= highest
    settled = [one.name for one, _others in open_inputs.list_alternatives(replace(job, open_inputs={"optimizer"}))]
    assert settled == ["optimizer"] * lists


@pytest.mark.parametrize(
    ("given", "tables"),
    [({}, 2), ({"weight_dtype": "fp32"}, 1), ({"grad_accum": "2"}, 3), ({"model": "llama-3-8b"}, 0),
     ({"method": "lora"}, 0), ({"optimizer": "adamw_layerwise"}, 2), ({"framework": "Megatron-LM"}, 0),
     ({"sharding": "zero2", "cards": "2"}, 3), ({"sharding": "zero3", "cards": "2"}, 3)],
)  # fmt: skip
def test_gradients_of_a_tied_matrix(given: dict[str, str], tables: int) -> None:
    """Those of embedding and head, and their sum, unless it is in place: of fp32 weights and in ZeRO-3, which gathers.

    Without sharding one of them is among the model's gradients.
    """
    row = {"model": "qwen2.5-1.5b", "method": "full", "cards": "1", "framework": "trainer", "seq_len": "128",
           "master_weights": "0", "grad_accum": "1", "optimizer": "adamw", **given}  # fmt: skip
    job = table_rows.build_row_job(row)
    matrix = job.model.vocab * job.model.hidden * job.precision.weight

    assert build_stage_parts(job, 0).last_gradient == tables * matrix
    if not given:
        last = dict(phases.list_phases(replace(job, seq_len=16), 0)[2].terms)
        assert (last["gradients"], last["unit gradients"]) == (2 * job.model.params, 2 * matrix)


def test_adapters_of_a_quantised_base_in_trl() -> None:
    """SFTTrainer casts adapters of a quantised base to 16 bit since 0.26, and its loss holds chunks of 256 tokens."""
    row = {"model": "llama-3-8b", "method": "qlora", "cards": "1", "framework": "TRL 1.14", "seq_len": "2048",
           "recompute": "full", "fused_ce": "1"}  # fmt: skip

    def adapters(**other: str) -> float:
        return dict(phases.list_phases(table_rows.build_row_job({**row, **other}), 0)[3].terms)["adapters"]

    assert adapters(framework="TRL") == 2 * adapters()
    assert adapters(method="lora") == adapters(method="lora", framework="TRL")
    job = table_rows.build_row_job(row)
    chunks = loss.loss_bytes(job) - 2 * job.model.hidden * job.tokens
    assert chunks == 18 * 256 * job.model.vocab


def test_modules_of_selective_recompute() -> None:
    """Megatron's modules: nothing of a mixture is kept, no product, no output of norms; scores, if core_attn is not."""
    row = {"model": "qwen3-30b-a3b", "framework": "Megatron-LM", "method": "full", "cards": "8", "ep": "8",
           "seq_len": "4096", "flash_attn": "0"}  # fmt: skip

    def kept(recompute: str) -> tuple[float, float]:
        job = table_rows.build_row_job({**row, "recompute": recompute})
        found = activations.layer_activations(job, True)
        return found.kept_bytes - found.score, found.score

    plain = kept("selective")[0]
    moe, m = KNOWN["megatron"], models.load_model("qwen3-30b-a3b")
    assert m.moe
    assert kept("selective")[1] == kept("selective:core_attn+moe")[1] == 0 < kept("selective:moe")[1]
    assert plain - kept("selective:moe_act")[0] == moe.kernels.mlp_trained * m.moe.active * m.moe.ffn
    assert plain - kept("selective:layernorm")[0] == moe.kernels.norm_out * 2 * m.hidden
    attention = activations.attention_activations(table_rows.build_row_job({**row, "recompute": "selective"}))
    norms = 2 * (m.hidden * (moe.kernels.norm_in + moe.kernels.norm_out) + 4)
    assert kept("selective:moe")[0] == pytest.approx(attention.kept_bytes + norms)


def test_losses_of_torchtune() -> None:
    """Whole, chunked and compiled; the recipes of 2024 kept the shifted fp32 logits through the backward pass."""
    row = {"model": "llama-3-8b", "method": "full", "cards": "1", "seq_len": "1024"}

    def each(framework: str, **more: str) -> float:
        job = table_rows.build_row_job({**row, "framework": framework, **more})
        hidden = 2 * job.model.hidden * job.tokens * job.fused_loss
        return (loss.loss_bytes(job) - hidden) / job.model.vocab / job.tokens

    assert (each("torchtune"), each("torchtune", compile="1"), each("torchtune 0.1")) == (12, 10, 16)
    assert each("torchtune", fused_ce="1") == each("torchtitan", fused_ce="1") == 7
    assert each("torchtune", fused_ce="1", compile="1") == 2.5


def test_experts_keep_one_copy_of_their_input() -> None:
    """Experts that apply the router's weights keep their input, others their output, too; without a gate one more."""
    row = {"model": "qwen3-30b-a3b", "method": "full", "cards": "8", "ep": "8", "seq_len": "4096"}

    def kept(framework: str, gated: bool = True) -> float:
        job = table_rows.build_row_job({**row, "framework": framework})
        assert job.model.moe
        model = replace(job.model, gated=gated)
        return activations.mixture_activations(replace(job, model=model), job.model.moe).kept_bytes

    m = models.load_model("qwen3-30b-a3b")
    assert m.moe
    assert kept("Megatron-LM core 0.7") - kept("Megatron-LM") == 2 * m.moe.active * m.hidden
    assert kept("MindSpeed-LLM") - kept("Megatron-LM") == 6 * m.moe.active * m.hidden
    assert kept("Megatron-LM", gated=False) - kept("Megatron-LM core 0.7", gated=False) == pytest.approx(
        2 * m.moe.active * (m.moe.ffn - m.hidden)
    )


def test_prediction_layers() -> None:
    """Of multi-token prediction the last stage holds layer, projection, embedding and a loss; transformers has none."""
    row = {"model": "deepseek-v3", "method": "full", "cards": "128", "tp": "8", "pp": "16", "ep": "8",
           "framework": "Megatron-LM", "seq_len": "4096", "recompute": "full"}  # fmt: skip
    job = table_rows.build_row_job(row)
    without = table_rows.build_row_job({**row, "mtp_layers": "0"})
    held, plain = (parameter_shares.compute_parameter_share(each.model, each.layout, 15) for each in (job, without))
    m, tp = job.model, job.layout.tp

    assert (m.mtp_layers, without.model.mtp_layers) == (1, 0)
    assert held.embedding == m.embedding.divided / tp and plain.embedding == 0
    assert held.dense + held.experts - plain.dense - plain.experts == sum(
        parameter_shares.divide_group(m.mtp, job.layout)
    )
    assert loss.loss_bytes(job) / loss.loss_bytes(without) == 2
    checks = (count_layer_bytes(each, 15).checkpoints for each in (job, without))
    assert next(checks) - next(checks) == 2 * 2 * m.hidden * job.tokens
    assert table_rows.build_row_job({**row, "framework": "HF Trainer", "tp": "1", "pp": "1"}).model.mtp_layers == 0


def test_pinned_blocks_are_powers_of_two() -> None:
    """A sub-group ends with the parameter that fills it; a block is the next power of two."""
    assert [pinned_blocks.round_block(size) for size in (0, 1, 1024, 1025)] == [0, 1, 1024, 2048]
    assert list(pinned_blocks.join_groups((3, 4, 5, 2), 7)) == [7, 7]
    assert list(pinned_blocks.join_groups((3, 4, 5, 1), 7)) == [7, 6]


@pytest.mark.parametrize("name", ["llama-2-7b", "deepseek-v3", "qwen3-30b-a3b"])
def test_matrices_of_pinned_blocks(name: str) -> None:
    """The matrices whose partitions are pinned have the parameters of the model, without norms and biases."""
    model = models.load_model(name)

    assert sum(parameter_shares.list_matrices(model)) == pytest.approx(model.params, rel=0.001)


def test_host_memory_of_offloaded_llama_33b() -> None:
    """ZeRO-3 with everything on the host, 8 cards: 750 to 800 GB were in use (DeepSpeed, issue 3448)."""
    model = Model("33b", layers=60, hidden=6656, heads=52, kv_heads=52, head_dim=128, ffn=17920, vocab=32000)
    job = make_job("0.3b", cards=8, model=model, framework=GENERIC, device=A100, sharding="zero3",
                   offload=frozenset({"optimizer", "params"}), precision=Precision())  # fmt: skip
    host = verdict.host_memory_bytes(job)

    assert 700e9 < host < 750e9
    assert 800e9 < verdict.host_memory_limit(job, host) < 830e9
    assert verdict.host_memory_limit(replace(job, offload=frozenset()), host) == host


def test_outliers_of_8_bit_products_are_open() -> None:
    """bitsandbytes copies columns of its 8-bit matrices in 16 bit: none up to half, at most a byte per parameter."""
    row = {"model": "llama-2-7b", "method": "qlora", "quant": "bnb-int8", "cards": "1", "framework": "trl"}
    job = table_rows.build_row_job(row)
    others = {one.name: some for one, some in open_inputs.list_alternatives(job)}
    more = build_stage_parts(others["outliers"][0], 0).states.weights - build_stage_parts(job, 0).states.weights
    blocks = job.model.params - 2 * job.model.vocab * job.model.hidden

    assert more == pytest.approx(blocks, rel=0.01)
    assert "outliers" not in [one.name for one, _some in open_inputs.list_alternatives(replace(job, quant="bnb-nf4"))]


@pytest.mark.parametrize(("ep", "copies"), [("1", 0), ("8", 4)])
def test_torchtitan_runs_grouped_products_again(ep: str, copies: int) -> None:
    """Of routed experts its selective recompute keeps the two results of their exchange, if there is one."""
    row = {"model": "qwen3-30b-a3b", "cards": "8", "ep": ep, "framework": "torchtitan", "recompute": "selective"}
    job = table_rows.build_row_job({**row, "sharding": "fsdp2", "seq_len": "4096"})
    moe = job.model.moe
    assert moe is not None
    kept = activations.mixture_activations(job, moe)

    assert kept.divided == 0
    assert kept.fixed == copies * moe.active * job.model.hidden


@pytest.mark.parametrize(("sharding", "cards"), [("none", [8]), ("zero2", [2, 8])])
def test_a_sharding_has_several_replicas(sharding: str, cards: list[int]) -> None:
    """Where a row leaves the number of cards open, a sharding means two at least."""
    job = table_rows.build_row_job({"model": "llama-2-7b", "sharding": sharding, "framework": "trl"})
    found = next(some for one, some in open_inputs.list_alternatives(job) if one.name == "replicas")

    assert [one.layout.cards for one in found] == cards


@pytest.mark.parametrize(
    ("framework", "quant", "each"),
    [("training loop", "", 2), ("loop with labels", "bnb-nf4", 4), ("trl", "bnb-nf4", 0)],
)
def test_an_output_object_keeps_logits_in_the_backward_pass(framework: str, quant: str, each: int) -> None:
    """A loop that holds the model's output has its logits until all layers are done; a trainer has dropped them."""
    row = {
        "model": "llama-2-7b",
        "method": "lora",
        "quant": quant,
        "cards": "1",
        "seq_len": "2048",
        "recompute": "full",
    }
    job = table_rows.build_row_job({**row, "framework": framework, "flash_attn": "0"})
    backward = dict(phases.list_phases(job, 0)[2].terms)

    assert backward["attention scores"] == 0  # the recomputed layer has them: its backward pass is the peak
    assert backward["logits and loss"] == each * job.model.vocab * job.tokens


@pytest.mark.parametrize(("framework", "is_open"), [("trl", True), ("llm-foundry", False), ("llama-recipes", False)])
def test_unsharded_gradients_of_a_framework_that_accumulates_whole(framework: str, is_open: bool) -> None:
    """Composer and llama-recipes have no no_sync under FSDP: the number of micro batches changes no gradients."""
    row = {"model": "llama-2-7b", "sharding": "fsdp", "cards": "8", "seq_len": "2048", "recompute": "full"}
    job = table_rows.build_row_job({**row, "framework": framework})
    changes = [others for one, others in open_inputs.list_alternatives(job) if one.name == "grad_accum"]
    most = max(verdict.find_peak(other) for others in changes for other in others)

    assert (most > 1.5 * verdict.find_peak(job)) == is_open


@pytest.mark.parametrize("keeps", [True, False])
def test_gathered_layers_that_stay_are_as_certain_as_weights(keeps: bool) -> None:
    """SHARD_GRAD_OP gathers every layer once: no number of layers at a time is uncertain."""
    job = table_rows.build_row_job({"model": "llama-2-7b", "sharding": "fsdp", "cards": "8", "framework": "trl"})
    job = replace(job, framework=replace(job.framework, keeps_weights=keeps))

    shares = [uncertainty.uncertainty_share(job, term) for term in ("weights", "gathered layers")]
    assert (shares[0] == shares[1]) == keeps


def test_a_cublas_workspace_for_each_thread() -> None:
    """torch gives each of two handles 2 x 4 MiB + 8 x 16 KiB on cards before Hopper."""
    assert KNOWN["generic"].workspace_gib * GIB == pytest.approx(2 * (2 * 4096 + 8 * 16) * 1024, rel=0.02)
