"""What plan advises, taken at its word: options that are added to the command give the figure that was promised."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from envcheck.core.errors import UsageError
from launch.memory.job import PlannedJob
from launch.planner import advice, calibration, layouts, legal, machines, resolve, search, verdict
from launch.planner.resolve import Machine
from launch.planner.sweep import sweep
from tests.tiers import thin_out

NUMBERS = ("cards", "tp", "pp", "vpp", "ep", "cp", "micro_batch", "seq_len", "grad_accum", "lora_rank")
MODELS = ("300b", "21b", "0.3b", "28b", "qwen2.5-7b", "qwen2.5-72b", "qwen3-30b-a3b", "deepseek-v3", "llama-3-70b",
          "mixtral-8x7b", "gemma-2-9b", "gpt2-medium", "chatglm3-6b")  # fmt: skip
PLACES: tuple[tuple[str, int, float], ...] = (
    ("npu", 8, 64), ("npu", 96, 64), ("iluvatar", 16, 32), ("iluvatar", 2, 32), ("nvidia", 1, 24), ("nvidia", 8, 80),
    ("nvidia", 4, 24), ("cpu", 1, 64),
)  # fmt: skip
METHODS = ("sft", "lora", "dpo", "dpo-lora")
JOBS = [*itertools.product(MODELS, PLACES, METHODS)]
SAID: tuple[dict[str, Any], ...] = (
    {}, {"seq_len": 4096, "micro_batch": 4},
    {"recompute": "none", "micro_batch": 8, "grad_accum": 2}, {"seq_len": 8192},
)  # fmt: skip


def options_of(words: Mapping[str, str]) -> dict[str, Any]:
    """--micro-batch 1 as the command has it."""
    named = {name.lstrip("-").replace("-", "_"): value for name, value in words.items()}
    return {k: int(v) if k in NUMBERS else v if k != "fused_loss" else True for k, v in named.items()}


def machine(place: tuple[str, int, float], said: Mapping[str, Any]) -> Machine:
    device, cards, gib = place
    return machines.described(device, said.get("cards", cards), gib)


def made(model: str, place: tuple[str, int, float], method: str, said: Mapping[str, Any]) -> PlannedJob | None:
    try:
        return layouts.laid_out(machine(place, said), model, method, said)
    except UsageError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("said", thin_out(2, SAID), ids=str)
def test_advice_holds(said: dict[str, Any]) -> None:
    """Every change is legal, fits, and with its options in the command comes to the very figure."""
    tried = 0
    for model, place, method in JOBS[SAID.index(said) :: 7]:
        job = made(model, place, method, said)
        if job is None or verdict.answer(job).verdict == "fits":
            continue
        layout = layouts.unsaid(job, said)
        for change in advice.fitting(job):
            again = made(model, place, method, {**said, **options_of({**layout, **change.said})})
            where = f"{model} {method} {place} {said}: {change.options}"

            assert again is not None, where
            assert verdict.answer(again).deciding.total == change.plan.deciding.total, where
            assert change.plan.verdict == "fits", where
            assert not list(legal.refusals(change.plan.job)), where
            tried += 1

    assert tried > 8


def test_the_quick_question_has_the_same_answer() -> None:
    """Whether a job fits, asked without the whole answer, is what the whole answer says."""
    told = {verdict.FITS: 0, verdict.NOT: 0, verdict.UNTOLD: 0}
    for model, place, method in JOBS[::3]:
        for said in SAID:
            if job := made(model, place, method, {"sharding": "none", **said}):
                whole = verdict.answer(job).verdict

                assert verdict.fits(job) == (whole == verdict.FITS), f"{model} {place} {method} {said}"
                told[whole] += 1

    assert min(told.values()) > 5


@pytest.mark.slow
@pytest.mark.parametrize("said", thin_out(2, SAID), ids=str)
def test_room_holds(said: dict[str, Any]) -> None:
    """The longest samples, the largest micro batch and the least cards fit; the next larger ones do not surely fit."""
    tried = 0
    for model, place, method in JOBS[SAID.index(said) :: 7]:
        job = made(model, place, method, said)
        if job is None or verdict.answer(job).verdict != "fits":
            continue
        left, layout = advice.room(job), layouts.unsaid(job, said)
        for more in ({"--seq-len": f"{left.seq_len}"}, {"--micro-batch": f"{left.micro_batch}"}, left.fewer):
            again = made(model, place, method, {**said, **options_of({**layout, **more})})

            assert again is not None, f"{model} {method} {place} {said}: {more}"
            assert verdict.answer(again).verdict == "fits", f"{model} {method} {place} {said}: {more}"
        assert left.cards <= job.layout.cards
        tried += 1

    assert tried > 3


@pytest.mark.parametrize(("model", "place", "method"), JOBS[::37], ids=str)
def test_found_layouts_hold(model: str, place: tuple[str, int, float], method: str) -> None:
    """Each line of a search is legal, and as the layout of the command comes to its figure."""
    job = made(model, place, method, {})
    if job is None:
        pytest.skip("no such job")
    for found in search.search(job):
        words = found.name.split()
        said = {"seq_len": job.seq_len, "grad_accum": job.grad_accum}
        if not job.trains_all:
            said["lora_rank"] = job.adapter.rank
        again = made(model, place, method, said | options_of(dict(zip(words[::2], words[1::2], strict=True))))

        assert not list(legal.refusals(found.plan.job))
        assert again is not None, found.name
        assert verdict.answer(again).deciding.total == pytest.approx(found.plan.deciding.total), found.name


def test_advice_is_corrected_as_its_plan_is() -> None:
    """What runs of this machine taught stands behind each change, too: corrected, every one of them fits."""
    job = resolve.build(machines.described("nvidia", 1, 24), "qwen2.5-7b", "lora", {"seq_len": 2048})
    taught = calibration.Correction(1.25, 2.0**30, 3)

    def verdict_of(other: PlannedJob) -> str:
        return calibration.apply(verdict.answer(replace(other, memory_gib=job.memory_gib)), taught).verdict

    changes = advice.fitting(calibration.seen(job, taught))

    assert verdict_of(job) != "fits" and changes
    assert {verdict_of(change.plan.job) for change in changes} == {"fits"}
    assert all(not {"--seq-len": "2048"}.items() <= change.said.items() for change in changes)


def test_smallest_change_of_its_kind() -> None:
    """Shorter samples are shortened no more than needed: an eighth longer would not fit."""
    job = made("21b", ("npu", 8, 64), "lora", {"sharding": "none"})
    assert job
    cut = next(c for c in advice.fitting(job) if "--seq-len" in c.said)
    longer = made("21b", ("npu", 8, 64), "lora", {"sharding": "none", "seq_len": cut.plan.job.seq_len * 9 // 8})

    assert longer
    assert verdict.answer(longer).verdict != "fits"


def test_refusals_are_points_of_a_sweep() -> None:
    """A value that the framework refuses stands in the sweep with its reason."""
    job = made("qwen2.5-7b", ("nvidia", 8, 80), "sft", {"sweep": "tp=1..16"})
    assert job
    points = dict(sweep(job, "tp=1..16"))

    assert "does not divide 28 heads" in str(points[8])
    assert not isinstance(points[4], str)


def test_three_cheap_changes() -> None:
    """Where no cheap pair suffices three together are named, each with options that leave the samples as they are."""
    found = advice.fitting(
        resolve.build(
            machines.described("nvidia", 1, 24), "qwen2.5-7b", "lora",
            {"seq_len": 8192, "micro_batch": 4, "recompute": "none"},
        )
    )  # fmt: skip
    kept = [change for change in found if not advice.DEAR & change.said.keys()]

    assert kept and min(len(change.said) for change in kept) == 3
    assert all(change.plan.verdict == "fits" and change.plan.job.seq_len == 8192 for change in kept)
