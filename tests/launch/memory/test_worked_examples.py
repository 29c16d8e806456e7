"""The worked examples of the memory research note, term by term: exact counts, sizes within its rounding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launch.catalogue import models
from launch.memory import GIB, parameter_shares, phases
from launch.memory.planned_job import ParallelLayout
from launch.planner import table_rows, verdict
from launch.planner.verdict import LaunchPlan
from tests.launch.planner.planner_helpers import ILUVATAR, make_job, make_lora_job


def count_largest_stage(name: str, tp: int, pp: int) -> float:
    """Return the parameters of a card of the fullest stage."""
    layout = ParallelLayout(tp, pp, cards=tp * pp)
    return max(
        parameter_shares.compute_parameter_share(models.find_model(name), layout, stage).total for stage in range(pp)
    )


def find_term(plan: LaunchPlan, phase: str, stage: int, name: str) -> float:
    found = next(p for p in plan.phases if p.name == phase and p.stage == stage)
    return dict(found.terms)[name] / GIB


def test_a_layer_of_300b() -> None:
    """Example A: attention, norms, experts and router of one layer, and the share of one of eight cards."""
    model = models.find_model("300b")

    assert model.attention.total == 150_994_944
    assert model.norms * model.norm_params == 16_384
    assert model.expert_mlp.experts == 64 * 3 * 8192 * 3584
    assert model.expert_mlp.replicated == 524_352
    assert sum(
        parameter_shares.divide_group(model.layer_params(10), ParallelLayout(8, 16, cards=128))
    ) == pytest.approx(724.06e6, rel=1e-5)
    assert count_largest_stage("300b", 8, 16) == pytest.approx(2.896e9, rel=1e-3)


def test_a_terms_of_the_step() -> None:
    """Example A: 5.4 GiB of weights, 10.8 of gradients, 32.4 of masters and moments on the fullest stage."""
    answer = verdict.evaluate_job(make_job("300b", 8, 16, offload=frozenset({"optimizer"})))
    found = {name: find_term(answer, "optimizer step", 1, name) for name in ("weights", "gradients")}
    away = sum(find_term(answer, "optimizer step", 1, name) for name in ("master weights", "moments"))

    assert found == pytest.approx({"weights": 5.4, "gradients": 10.8}, abs=0.05)
    assert away == pytest.approx(32.4, abs=0.05)
    assert answer.reading_gib == pytest.approx(58.5, abs=2)


def test_a_other_card_counts() -> None:
    """Example A: twelve stages use about 71 GiB, twenty about 46."""
    readings = [
        verdict.evaluate_job(make_job("300b", 8, pp, offload=frozenset({"optimizer"}))).reading_gib for pp in (12, 20)
    ]

    assert readings == pytest.approx([71, 46], abs=2.5)


def test_b_300b_lora() -> None:
    """Example B: the larger stage has 19.66e9 parameters; it uses 53 of 64 GiB on 16 cards, 93 on 8, before the step.

    In the step the offloaded states of the adapters are back on the card.
    """
    away = frozenset({"optimizer"})
    readings = []
    for pp in (2, 1):
        asked = make_lora_job("300b", 8, pp, offload=away)
        computing = [p for p in verdict.evaluate_job(asked).phases if p.name in ("forward and loss", "backward")]
        readings.append(max(phases.apply_meter(asked, p).total for p in computing) / GIB)

    assert count_largest_stage("300b", 8, 2) == pytest.approx(19.66e9, rel=5e-3)
    assert readings == pytest.approx([53, 93], rel=0.05)


def test_c_21b_lora() -> None:
    """Example C: 198.74e6 parameters per layer and card, 1.391e9 per stage; the use of 2 to 16 dies."""
    model = models.find_model("21b")
    dies = {
        cards: verdict.evaluate_job(
            make_lora_job("21b", tp, pp, device=ILUVATAR, memory_gib=32, fused_loss=False)
        ).reading_gib
        for cards, tp, pp in ((16, 4, 4), (8, 4, 2), (4, 4, 1), (2, 2, 1))
    }

    assert sum(parameter_shares.divide_group(model.layer_params(10), ParallelLayout(4, 4, cards=16))) == pytest.approx(
        198.74e6, rel=1e-4
    )
    assert sum(
        parameter_shares.divide_group(model.layer_params(10), ParallelLayout(4, 4, cards=16))
    ) * 7 == pytest.approx(1.391e9, rel=1e-3)
    assert dies == pytest.approx({16: 11, 8: 15, 4: 23, 2: 36}, abs=1)


def test_d_qwen_on_one_910b() -> None:
    """Example D: 14.4 GiB of weights; 24.3 GiB predicted there and 26.1 measured, at about 800 tokens."""
    row = {
        "framework": "ms-swift 1.x torch-npu", "model": "qwen1.5-7b", "method": "lora", "lora_rank": "8",
        "lora_targets": "qkv", "weight_dtype": "bf16", "cards": "1", "device": "Ascend-910B3", "tp": "1", "pp": "1",
        "device_mem_gib": "64", "sharding": "none", "seq_len": "800", "seq_kind": "cap", "micro_batch": "1",
        "recompute": "full", "flash_attn": "0", "metric": "unspecified",
    }  # fmt: skip
    answer = verdict.evaluate_job(table_rows.build_row_job(row))

    assert find_term(answer, "load", 0, "weights") == pytest.approx(14.4, abs=0.1)
    assert answer.reading_gib == pytest.approx((24.3 + 26.1) / 2, abs=2)


def test_a_on_smaller_cards() -> None:
    """Example A on cards of 50 GiB: plain offload loads the states back for the step, so it does not fit either way."""
    small = make_job("300b", 8, 16, offload=frozenset({"optimizer"}), memory_gib=50)

    assert verdict.evaluate_job(small).verdict == "does-not-fit"
    assert verdict.evaluate_job(replace(small, offload=frozenset())).verdict == "does-not-fit"
