"""Intervals of predictions: factors from published readings, and inputs that were not given."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import memory_intervals
from launch.memory import intervals, open_inputs, uncertainty
from launch.memory.planned_job import ParallelLayout, PlannedJob
from launch.planner import job_table, machines, resolve, table_rows, verdict
from launch.planner.output import terminal_text

MEASURED = Path(memory_intervals.__file__).with_name("measured")
A100 = machines.build_described_machine("a100", 8, 80)


def make_job(**asked: object) -> PlannedJob:
    return resolve.build_planned_job(A100, "llama-3-8b", "full", {"sharding": "fsdp", "seq_len": 2048, **asked})


def test_factors_are_plausible() -> None:
    """Each regime has factors around 1, from a number of readings, in the order low, high, limit."""
    found = intervals.load_residuals()
    for name, one in found.items():
        assert 0.5 < one.low <= 1 <= one.high <= one.limit < 3, name
        assert one.readings >= 15 and one.sources >= 3
        assert 0.9 <= one.inside <= one.obeyed <= 1, name
    assert set(found) == set(intervals.REGIMES)


def test_known_settings_have_the_narrower_bounds() -> None:
    """A plan with every setting of the training given has the factors of plain jobs, with an assumed one others."""
    given = make_job(framework="torchtitan", recompute="full")
    found = intervals.load_residuals()

    assert intervals.find_residuals(given) == found["plain"]
    assert intervals.find_residuals(make_job(framework="torchtitan")) == found["assumed"]
    vague = (intervals.ROUTED, intervals.UNSPECIFIED)
    widths = {name: one.high - one.low for name, one in found.items() if name not in vague}
    assert widths[intervals.WHOLE] == min(widths.values()) < 0.12
    assert widths[intervals.ASSUMED] == max(widths.values())


def test_readings_of_one_card_have_bounds_of_their_own() -> None:
    """A plan's interval is that of tensors; readings beyond them have others."""
    job = replace(make_job(framework="trl", recompute="full"), layout=ParallelLayout(), sharding="none", meter="smi")
    answer = verdict.evaluate_job(replace(job, open_inputs=frozenset(), memory_gib=200.0))
    found, (low, high) = intervals.load_residuals(), verdict.reading_interval(answer)
    need = answer.deciding.total

    assert answer.interval == (found["whole"].low * need, found["whole"].high * need)
    assert (low, high) == pytest.approx(
        tuple(end * answer.reading_gib for end in (found["reserved"].low, found["reserved"].high))
    )
    assert intervals.find_residuals(replace(answer.job, method="lora", quant="bnb-nf4")) == found["reserved"]


@pytest.mark.parametrize(
    ("more", "regime"),
    [
        ({}, "plain"),
        ({"metric": "max_allocated"}, "replicas"),
        ({"metric": ""}, "unspecified"),
        ({"metric": "unspecified", "sharding": "zero3"}, "unspecified"),
        ({"cards": "1", "sharding": "none"}, "reserved"),
        ({"cards": "1", "sharding": "none", "metric": ""}, "unnamed"),
        ({"cards": "1", "sharding": "none", "metric": "max_allocated"}, "whole"),
        ({"cards": "1", "sharding": "none", "method": "qlora"}, "reserved"),
        ({"cards": "1", "sharding": "none", "method": "qlora", "metric": "max_allocated"}, "whole"),
        ({"sharding": "zero3"}, "complex"),
        ({"framework": "Megatron-LM", "sharding": "none", "tp": "8"}, "complex"),
        ({"framework": "Megatron-LM", "sharding": "none", "tp": "8", "metric": "max_allocated"}, "divided"),
        ({"sharding": "none", "tp": "8"}, "assumed"),  # torchtitan computes in fp32 there
        ({"offload": "params"}, "complex"),
        ({"cards": "1", "sharding": "none", "offload": "optimizer"}, "moved"),
        ({"cards": "1", "sharding": "none", "offload": "optimizer", "metric": "max_allocated"}, "whole"),
        ({"model": "mixtral-8x7b"}, "routed"),
        ({"model": "mixtral-8x7b", "metric": "max_allocated"}, "experts"),
        ({"seq_kind": "longest_sample"}, "complex"),
        ({"seq_kind": "longest_sample", "cards": "1", "sharding": "none"}, "moved"),
        ({"seq_kind": "longest_sample", "metric": "max_allocated"}, "replicas"),
        ({"cards": "1", "sharding": "none", "offload": "activations"}, "moved"),
        ({"cards": "1", "sharding": "none", "framework": "fp32 training loop", "weight_dtype": "fp32"}, "assumed"),
        ({"cards": "1", "sharding": "none", "framework": "training loop", "weight_dtype": "fp32"}, "reserved"),
        ({"cards": "1", "sharding": "none", "offload": "activations", "metric": "max_allocated"}, "moved"),
        ({"framework": ""}, "assumed"),
        ({"framework": "somebody's own"}, "assumed"),
    ],
)
def test_rows_have_regimes(more: dict[str, str], regime: str) -> None:
    """The regime of a row follows from its job alone; a word that only benchmark tables have changes nothing."""
    row = {"model": "llama-3-8b", "method": "full", "cards": "8", "tp": "1", "pp": "1", "sharding": "fsdp"}
    row |= {"framework": "torchtitan", "seq_len": "2048", "micro_batch": "1", "metric": "smi", **more}
    answers = [job_table.predict_row({**row, "quality": word}) for word in ("A", "C")]

    assert intervals.find_regime(table_rows.build_row_job(row)) == regime
    assert answers[0] == answers[1]


def test_replicas_of_a_row_without_cards_are_open() -> None:
    """A row of a layout without a number of cards has bounds for one and for eight replicas; cards settle it."""
    row = {
        "model": "llama-3-8b",
        "method": "full",
        "tp": "8",
        "pp": "1",
        "sharding": "dist_opt",
        "framework": "megatron",
    }
    row |= {"seq_len": "4096", "micro_batch": "1", "metric": "max_allocated"}
    open_row, eight = (job_table.predict_row({**row, **more}) for more in ({}, {"cards": "8"}))

    assert float(open_row["high_gib"]) >= float(eight["predicted_gib"]) > float(open_row["predicted_gib"])


def test_most_readings_are_inside() -> None:
    """At least 90 % of the published readings that are in the repository lie in the interval of their row."""
    inside = []
    for name in ("published.csv", "published2.csv"):
        with (MEASURED / name).open(newline="") as file:
            for row in csv.DictReader(file):
                if (
                    row["kind"] == "measured"
                    and row["peak_gib"]
                    and row["seq_kind"] != "cap"
                    and row["quality"] in "AB"
                ):
                    answer = job_table.predict_row({**row, "peak_gib": "", "static_gib": "", "verdict": ""})
                    inside.append(float(answer["low_gib"]) <= float(row["peak_gib"]) <= float(answer["high_gib"]))

    assert len(inside) > 150 and sum(inside) >= 0.9 * len(inside)


def test_open_inputs_widen_the_interval() -> None:
    """Gradient accumulation that was not given widens the interval of FSDP by unsharded gradients."""
    given, asked = verdict.evaluate_job(make_job(grad_accum=1)), verdict.evaluate_job(make_job())
    spreads = {one.settings: one for one in verdict.list_open_spreads(asked)}

    assert "--grad-accum" in spreads and "--grad-accum" not in {
        one.settings for one in verdict.list_open_spreads(given)
    }
    assert spreads["--grad-accum"].high - asked.deciding.total > 1.7 * 8e9
    assert asked.interval[1] >= spreads["--grad-accum"].high > 1.5 * given.deciding.total


ROW = {
    "model": "llama-3-8b", "method": "lora", "cards": "1", "tp": "1", "pp": "1", "sharding": "none", "framework": "trl",
    "seq_len": "2048", "micro_batch": "1", "optimizer": "adamw", "lora_targets": "qv", "grad_accum": "1",
    "fused_ce": "0", "expandable_segments": "0", "recompute": "full", "metric": "smi",
}  # fmt: skip


def test_the_bounds_of_open_inputs_are_factors_of_the_extremes() -> None:
    """A row that does not name its allocator has the low bound of one value, and the high one of the other."""
    row = {**ROW, "framework": "axolotl"}  # whose releases differ; torch's own default is known
    asked, most, least = (job_table.predict_row({**row, "expandable_segments": word}) for word in ("", "0", "1"))
    factors = intervals.load_residuals()["reserved"]

    assert asked["predicted_gib"] == most["predicted_gib"] and asked["high_gib"] == most["high_gib"]
    assert float(asked["low_gib"]) == pytest.approx(factors.low * float(least["predicted_gib"]), abs=0.02)
    assert float(asked["low_gib"]) < float(most["low_gib"])


def test_a_row_without_a_meter_has_wider_bounds_than_the_vendor_tool() -> None:
    """It is predicted as the vendor's tool would read; its bounds come from readings that name no meter either."""
    asked, smi = (job_table.predict_row({**ROW, "metric": word}) for word in ("unspecified", "smi"))
    width = {name: float(row["high_gib"]) - float(row["low_gib"]) for name, row in (("asked", asked), ("smi", smi))}

    assert asked["predicted_gib"] == smi["predicted_gib"] and width["asked"] > 1.2 * width["smi"]


@pytest.mark.parametrize(("framework", "is_open"), [("trl", True), ("litgpt 2024", False), ("unsloth", False)])
def test_the_release_of_bitsandbytes_is_open(framework: str, is_open: bool) -> None:
    """Older releases keep inputs of 4-bit products; a framework that requires one release leaves nothing open."""
    asked = {"framework": framework, "recompute": "none", "cards": 1, "quant": "bnb-nf4"}
    job = resolve.build_planned_job(machines.build_described_machine("a100", 1, 80), "llama-3-8b", "qlora", asked)
    found = [others for one, others in open_inputs.list_alternatives(job) if one.name == "quantised_inputs"]

    assert len(found) == is_open
    assert all(verdict.find_peak(other) < verdict.find_peak(job) for others in found for other in others)


def test_an_open_input_can_leave_the_verdict_open() -> None:
    """What fits as planned and not with more micro-batches is undecided, names the input, and fits once it is given."""
    asked = replace(make_job(framework="trl", recompute="full"), memory_gib=32.0)
    answer = verdict.evaluate_job(asked)
    settled = open_inputs.settle_inputs(replace(asked, grad_accum=1), "grad_accum")

    assert answer.verdict == "unknown" and "micro-batches per step (--grad-accum)" in f"{answer.reason}"
    assert verdict.evaluate_job(settled).verdict == "fits"
    assert not verdict.does_fit(asked) and verdict.does_fit(settled)


@pytest.mark.parametrize(("recompute", "expected"), [("", "unknown"), ("none", "does-not-fit"), ("full", "fits")])
def test_an_open_input_can_make_a_job_fit(recompute: str, expected: str) -> None:
    """What fits only with recompute is undecided if the row does not mention it, and names the input."""
    row = {"model": "llama-3-8b", "method": "full", "cards": "8", "tp": "1", "pp": "1", "sharding": "fsdp"}
    row |= {"framework": "torchtitan", "seq_len": "8192", "micro_batch": "2", "device": "H100-80G"}
    answer = job_table.predict_row({**row, "recompute": recompute})

    assert answer["predicted_verdict"] == expected
    assert ("(--recompute)" in f"{answer['note']}") == (expected == "unknown")


def test_a_missing_framework_is_named() -> None:
    """The note of a row without a framework says that its bounds are wide because of that."""
    row = {"model": "llama-3-8b", "method": "lora", "cards": "1", "seq_len": "2048", "micro_batch": "1"}
    notes = [f"{job_table.predict_row({**row, 'framework': name})['note']}" for name in ("", "trl")]

    assert ["no framework is named" in note for note in notes] == [True, False]


@pytest.mark.parametrize("name", open_inputs.NAMES)
def test_each_input_can_be_settled(name: str) -> None:
    """Every input names an option or key; one that was given is not listed."""
    job = replace(make_job(), open_inputs=frozenset({name}), sharding="zero3", layout=ParallelLayout(cards=8))

    assert open_inputs.INPUTS[name].settings
    assert [one.name for one, _others in open_inputs.list_alternatives(job)] in ([name], [])
    assert not [*open_inputs.list_alternatives(replace(job, open_inputs=frozenset()))]


def test_up_to_is_a_limit_that_readings_obey() -> None:
    """ "up to" is at least the need for any other value of an open input, and missing without evidence or room."""
    roomy, tight = make_job(), replace(make_job(), memory_gib=26.0)
    answer = verdict.evaluate_job(roomy)
    limit = answer.limit

    assert limit is not None and limit >= max(one.high for one in verdict.list_open_spreads(answer))
    assert "up to" in f"{answer.reason}"
    assert "up to" not in f"{verdict.evaluate_job(tight).reason}" and verdict.evaluate_job(tight).limit is None


@pytest.mark.parametrize("framework_known", [True, False])
def test_shares_are_measured_ones(framework_known: bool) -> None:
    """The rows of interval and limit have the shares of residuals.toml for the job's regime."""
    job = replace(make_job(), assumed=(), framework_known=framework_known)
    answer = verdict.evaluate_job(replace(job, open_inputs=frozenset()))
    found = intervals.find_tensor_residuals(answer.job)
    lines = terminal_text.list_headline_lines(answer)
    (interval,) = [line for line in lines if line.startswith("  interval ")]
    limits = [line for line in lines if line.startswith("  up to ")]

    assert f"{100 * found.inside:.0f} % of {found.readings} published readings lie within" in interval
    assert answer.limit is not None and len(limits) == (answer.limit > answer.interval[1]) == 1
    assert f"{answer.limit / 2**30:.1f} GiB: {100 * found.obeyed:.0f} % of {found.readings} " in limits[0]
    assert f"up to {answer.limit / 2**30:.1f} of " in lines[0]


def test_no_limit_is_explained_that_is_not_printed() -> None:
    """A limit within the interval, or one that is not in the verdict, has no row."""
    answer = verdict.evaluate_job(make_job())

    assert terminal_text.describe_limit(replace(answer, limit=None)) is None
    assert terminal_text.describe_limit(replace(answer, limit=answer.interval[1])) is None
    assert verdict.evaluate_job(replace(make_job(), memory_gib=2.0)).limit is None


JOBS = [
    (framework, gib, length)
    for framework in ("torchtitan", "trl")
    for gib in (8, 40, 64, 80, 640)
    for length in (512, 4096)
]


@pytest.mark.parametrize(("framework", "gib", "length"), JOBS)
@pytest.mark.parametrize("is_assumed", [True, False])
def test_headline_and_interval_agree(framework: str, gib: float, length: int, is_assumed: bool) -> None:
    """A verdict without "most likely" holds for the whole interval; bounds of the reason are its ends."""
    job = replace(make_job(framework=framework, seq_len=length), memory_gib=gib, framework_known=not is_assumed)
    plan = verdict.evaluate_job(job if is_assumed else replace(job, open_inputs=frozenset(), assumed=()))
    headline, (low, high) = terminal_text.list_headline_lines(plan)[0], plan.interval

    assert low <= plan.low <= plan.deciding.total <= plan.high <= high
    assert not headline.startswith("fits") or ("most likely" in headline) == (high > plan.usable)
    assert not headline.startswith("does not fit") or ("most likely" in headline) == (low <= plan.usable)
    assert all(float(least) * 2**30 <= low + 0.06 * 2**30 for least in re.findall(r"at least ([\d.]+)", headline))
    assert "up to" not in headline or (plan.limit is not None and high <= plan.limit <= plan.usable)
    assert not headline.startswith("uncertain") or high > plan.usable


def test_a_fit_that_readings_may_exceed_says_so() -> None:
    """Cards between the bound of the verdict and the end of the interval: most likely, with that end."""
    job = replace(make_job(), open_inputs=frozenset())
    roomy = verdict.evaluate_job(replace(job, memory_gib=640.0))
    beside = 640.0 - roomy.usable / 2**30
    plan = verdict.evaluate_job(replace(job, memory_gib=beside + (roomy.high + roomy.interval[1]) / 2**31))
    tight = verdict.evaluate_job(replace(job, memory_gib=beside + (roomy.low + roomy.interval[0]) / 2**31))

    assert (plan.verdict, tight.verdict, roomy.is_sure) == (verdict.FITS, verdict.NOT, True)
    assert f"{plan.reason}".endswith(f"but {plan.interval[1] / 2**30:.1f} GiB is possible")
    assert f"{tight.reason}".endswith(f"and {tight.interval[0] / 2**30:.1f} GiB may be enough")
    assert "up to" not in f"{plan.reason}" and "at least" not in f"{tight.reason}"


def test_a_context_of_uncertain_size_decides_no_fit() -> None:
    """A need that leaves less than the context may take beyond its count: unknown, and the reason names the context."""
    job = replace(make_job(), open_inputs=frozenset())
    roomy, margin = verdict.evaluate_job(replace(job, memory_gib=640.0)), uncertainty.context_excess(job) / 2**30
    beside = 640.0 - roomy.usable / 2**30 + roomy.high / 2**30
    tight, enough = (verdict.evaluate_job(replace(job, memory_gib=beside + share * margin)) for share in (0.9, 1.1))

    assert (tight.verdict, enough.verdict) == (verdict.UNTOLD, verdict.FITS)
    assert f"{tight.reason}".endswith("least certain: context")
    assert [verdict.does_fit(one.job) for one in (tight, enough)] == [False, True]
