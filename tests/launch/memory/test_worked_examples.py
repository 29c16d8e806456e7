"""The worked examples of the memory research note, term by term: counts to the unit, sizes to its rounding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launch.catalogue import models
from launch.memory import GIB, holdings, phases
from launch.memory.job import Layout
from launch.planner import rows, verdict
from launch.planner.verdict import LaunchPlan
from tests.launch.planner.planner_helpers import ILUVATAR, job, lora


def largest(name: str, tp: int, pp: int) -> float:
    """Parameters of a card of the fullest stage."""
    layout = Layout(tp, pp, cards=tp * pp)
    return max(holdings.holding(models.find(name), layout, stage).total for stage in range(pp))


def term(plan: LaunchPlan, phase: str, stage: int, name: str) -> float:
    found = next(p for p in plan.phases if p.name == phase and p.stage == stage)
    return dict(found.terms)[name] / GIB


def test_a_layer_of_300b() -> None:
    """Example A: attention, norms, experts and router of one layer, and what one of eight cards holds of it."""
    model = models.find("300b")

    assert model.attention.total == 150_994_944
    assert model.norms * model.norm_params == 16_384
    assert model.expert_mlp.experts == 64 * 3 * 8192 * 3584
    assert model.expert_mlp.replicated == 524_352
    assert sum(holdings.held(model.layer(10), Layout(8, 16, cards=128))) == pytest.approx(724.06e6, rel=1e-5)
    assert largest("300b", 8, 16) == pytest.approx(2.896e9, rel=1e-3)


def test_a_terms_of_the_step() -> None:
    """Example A: 5.4 GiB of weights, 10.8 of gradients, 32.4 of masters and moments on the fullest stage."""
    answer = verdict.answer(job("300b", 8, 16, offload=frozenset({"optimizer"})))
    found = {name: term(answer, "optimizer step", 1, name) for name in ("weights", "gradients")}
    away = sum(term(answer, "optimizer step", 1, name) for name in ("master weights", "moments"))

    assert found == pytest.approx({"weights": 5.4, "gradients": 10.8}, abs=0.05)
    assert away == pytest.approx(32.4, abs=0.05)
    assert answer.reading_gib == pytest.approx(58.5, abs=2)


def test_a_other_card_counts() -> None:
    """Example A: twelve stages read about 71 GiB, twenty about 46."""
    readings = [verdict.answer(job("300b", 8, pp, offload=frozenset({"optimizer"}))).reading_gib for pp in (12, 20)]

    assert readings == pytest.approx([71, 46], abs=2.5)


def test_b_300b_lora() -> None:
    """Example B: the larger stage holds 19.66e9 parameters; 53 of 64 GiB are read on 16 cards, 93 on 8, before
    the adapters' states come back for the step."""
    away = frozenset({"optimizer"})
    readings = []
    for pp in (2, 1):
        asked = lora("300b", 8, pp, offload=away)
        computing = [p for p in verdict.answer(asked).phases if p.name in ("forward and loss", "backward")]
        readings.append(max(phases.read(asked, p).total for p in computing) / GIB)

    assert largest("300b", 8, 2) == pytest.approx(19.66e9, rel=5e-3)
    assert readings == pytest.approx([53, 93], rel=0.05)


def test_c_21b_lora() -> None:
    """Example C: 198.74e6 parameters a layer and card, 1.391e9 a stage; what 16 dies and fewer read."""
    model = models.find("21b")
    dies = {
        cards: verdict.answer(lora("21b", tp, pp, device=ILUVATAR, memory_gib=32, fused_loss=False)).reading_gib
        for cards, tp, pp in ((16, 4, 4), (8, 4, 2), (4, 4, 1), (2, 2, 1))
    }

    assert sum(holdings.held(model.layer(10), Layout(4, 4, cards=16))) == pytest.approx(198.74e6, rel=1e-4)
    assert sum(holdings.held(model.layer(10), Layout(4, 4, cards=16))) * 7 == pytest.approx(1.391e9, rel=1e-3)
    assert dies == pytest.approx({16: 11, 8: 15, 4: 23, 2: 36}, abs=1)


def test_d_qwen_on_one_910b() -> None:
    """Example D: 14.4 GiB of weights; 24.3 predicted there and 26.1 read, at about 800 tokens."""
    row = {
        "framework": "ms-swift 1.x torch-npu", "model": "qwen1.5-7b", "method": "lora", "lora_rank": "8",
        "lora_targets": "qkv", "weight_dtype": "bf16", "cards": "1", "device": "Ascend-910B3", "tp": "1", "pp": "1",
        "device_mem_gib": "64", "sharding": "none", "seq_len": "800", "seq_kind": "cap", "micro_batch": "1",
        "recompute": "full", "flash_attn": "0", "metric": "unspecified",
    }  # fmt: skip
    answer = verdict.answer(rows.job(row))

    assert term(answer, "load", 0, "weights") == pytest.approx(14.4, abs=0.1)
    assert answer.reading_gib == pytest.approx((24.3 + 26.1) / 2, abs=2)


def test_a_on_smaller_cards() -> None:
    """Example A on cards of 50 GiB: plain offload comes back for the step, so it does not fit with or without."""
    small = job("300b", 8, 16, offload=frozenset({"optimizer"}), memory_gib=50)

    assert verdict.answer(small).verdict == "does-not-fit"
    assert verdict.answer(replace(small, offload=frozenset())).verdict == "does-not-fit"
