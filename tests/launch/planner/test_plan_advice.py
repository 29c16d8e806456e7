"""The options that plan suggests give the promised figure when they are added to the command."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from envcheck.cli.main import main
from envcheck.core.errors import UsageError
from envcheck.core.toml_file import load_own_table
from launch.catalogue import devices, framework_options, frameworks, models
from launch.memory.planned_job import ParallelLayout, PlannedJob, Recompute
from launch.planner import (
    LaunchPlan,
    advice,
    calibration,
    default_layout,
    host_spread,
    layout_rules,
    machines,
    option_words,
    reductions,
    resolve,
    search,
    table_rows,
    verdict,
)
from launch.planner.resolve import PlannedMachine
from launch.planner.sweep import sweep_option
from launch.rendering import options
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
GIVEN: tuple[dict[str, Any], ...] = (
    {}, {"seq_len": 4096, "micro_batch": 4},
    {"recompute": "none", "micro_batch": 8, "grad_accum": 2}, {"seq_len": 8192, "sequence_parallel": False},
)  # fmt: skip


def parse_options(words: Mapping[str, str]) -> dict[str, Any]:
    """Return the options as the command parses them."""
    named = {name.lstrip("-").replace("-", "_"): value for name, value in words.items()}
    return {k: int(v) if k in NUMBERS else v or True for k, v in named.items()}


def make_machine(place: tuple[str, int, float], given: Mapping[str, Any]) -> PlannedMachine:
    device, cards, gib = place
    return machines.build_described_machine(device, given.get("cards", cards), gib)


def lay_out_job(model: str, place: tuple[str, int, float], method: str, given: Mapping[str, Any]) -> PlannedJob | None:
    try:
        return default_layout.choose_layout(make_machine(place, given), model, method, given)
    except UsageError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("given", thin_out(2, GIVEN), ids=str)
def test_changes_fit_as_promised(given: dict[str, Any]) -> None:
    """Every change is valid and fits, and its options give exactly its figure."""
    tried = 0
    for model, place, method in JOBS[GIVEN.index(given) :: 7]:
        job = lay_out_job(model, place, method, given)
        if job is None or verdict.evaluate_job(job).verdict == "fits":
            continue
        layout = default_layout.list_assumed_options(job, given)
        for change in advice.find_fitting_changes(job):
            options = parse_options({**layout, **change.added})
            again = lay_out_job(model, place, options.pop("method", method), {**given, **options})
            where = f"{model} {method} {place} {given}: {change.options}"

            assert again is not None, where
            assert verdict.evaluate_job(again).deciding.total == change.plan.deciding.total, where
            assert change.plan.verdict == "fits", where
            assert not list(layout_rules.list_refusals(change.plan.job)), where
            tried += 1

    assert tried > 8


def test_the_quick_verdict_equals_the_full_one() -> None:
    """`does_fit` agrees with the full verdict."""
    counts = {verdict.FITS: 0, verdict.NOT: 0, verdict.UNTOLD: 0}
    for model, place, method in JOBS[::3]:
        for given in GIVEN:
            if job := lay_out_job(model, place, method, {"sharding": "none", **given}):
                whole = verdict.evaluate_job(job).verdict

                assert verdict.does_fit(job) == (whole == verdict.FITS), f"{model} {place} {method} {given}"
                counts[whole] += 1

    assert min(counts.values()) > 5


@pytest.mark.slow
@pytest.mark.parametrize("given", thin_out(2, GIVEN), ids=str)
def test_headroom_fits_as_promised(given: dict[str, Any]) -> None:
    """The longest samples, the largest micro batch and the fewest cards fit."""
    tried = 0
    for model, place, method in JOBS[GIVEN.index(given) :: 7]:
        job = lay_out_job(model, place, method, given)
        if job is None or verdict.evaluate_job(job).verdict != "fits":
            continue
        left, layout = advice.find_headroom(job), default_layout.list_assumed_options(job, given)
        for more in ({"--seq-len": f"{left.seq_len}"}, {"--micro-batch": f"{left.micro_batch}"}, left.fewer):
            again = lay_out_job(model, place, method, {**given, **parse_options({**layout, **more})})

            assert again is not None, f"{model} {method} {place} {given}: {more}"
            assert verdict.evaluate_job(again).verdict == "fits", f"{model} {method} {place} {given}: {more}"
        assert left.cards <= job.layout.cards
        tried += 1

    assert tried > 2


@pytest.mark.parametrize(("model", "place", "method"), JOBS[::37], ids=str)
def test_found_layouts_have_their_figures(model: str, place: tuple[str, int, float], method: str) -> None:
    """Each layout of a search is valid, and its options give its figure."""
    job = lay_out_job(model, place, method, {})
    if job is None:
        pytest.skip("no such job")
    for found in search.search_layouts(job):
        words = found.name.split()
        given = {"seq_len": job.seq_len, "grad_accum": job.grad_accum}
        if not job.trains_all:
            given["lora_rank"] = job.adapter.rank
        again = lay_out_job(
            model, place, method, given | parse_options(dict(zip(words[::2], words[1::2], strict=True)))
        )

        assert not list(layout_rules.list_refusals(found.plan.job))
        assert again is not None, found.name
        assert verdict.evaluate_job(again).deciding.total == pytest.approx(found.plan.deciding.total), found.name


BASES = (
    "--model 21b --method sft --device 4090 --cards 8",  # a recipe's layout
    "--model 300b --method sft --device 4090 --cards 8",  # none fits
    "--model qwen-14b --method sft --device 4090 --cards 4 --framework llamafactory",
    "--model 21b --method sft --device 4090 --nodes 2",
    "--model qwen2.5-72b --method sft --device a100 --cards 8 --framework megatron --seq-len 4096 --micro-batch 4",
    "--model llama-3-8b --method sft --device 4090 --cards 2 --framework litgpt",
    "--model 21b --method sft --device 4090 --cards 8 --recompute none",
    "--model 21b --method sft --device npu",
    "--model 21b --method lora --device h200 --cards 8",
)


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
def test_a_command_with_the_printed_options_has_the_promised_figure(base: str) -> None:
    """A change, or the fewest cards, added to the command that printed it fits, with the figure that was printed."""
    tried = 0
    for added, need in list_printed_options(base):
        again = run_plan(f"{base} {added}")

        assert again["verdict"] == "fits", added
        assert need in (None, again["need_bytes"]["expected"]), added
        tried += 1

    assert tried


def list_printed_options(base: str) -> list[tuple[str, int | None]]:
    """Return the options of each change, with its need in bytes, and those of the fewest cards."""
    found = run_plan(base)
    fewest = found.get("headroom", {}).get("min_cards_options")
    return [(one["options"], one["need_bytes"]) for one in found.get("changes", ())] + ([(fewest, None)] * bool(fewest))


def run_plan(words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(CliRunner().invoke(main, ["plan", *words.split(), "--json"]).stdout)
    return document


def test_changes_are_printed_with_the_layout_that_they_keep() -> None:
    """The screen has the same options as the document: of a layout, one option alone would replace all of it."""
    base = "--model 21b --method sft --device 4090 --cards 8"
    screen = CliRunner().invoke(main, ["plan", *base.split()]).stdout

    assert "--cards 24 --pp 6 --tp 4" in screen
    assert all(added in screen for added, _need in list_printed_options(base))


OWN_JOB = """model_name_or_path: Qwen/Qwen2.5-72B
stage: sft
do_train: true
finetuning_type: full
dataset: alpaca_en_demo
template: qwen
cutoff_len: 4096
output_dir: saves/x
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
bf16: true
"""


def test_changes_of_an_own_job_are_options_or_settings(tmp_path: Path) -> None:
    """What the file of a job sets is changed there: options that the command would refuse are not printed."""
    file = tmp_path / "job.yaml"
    file.write_text(OWN_JOB)
    base = f"{file} --device h100 --cards 4"
    found = run_plan(base)["changes"]
    in_job = [one for one in found if not one["options"]]
    screen = CliRunner().invoke(main, ["plan", *base.split()]).stdout

    assert [one["framework_options"][0].split(",")[0] for one in in_job] == ["finetuning_type: lora"]
    assert len(found) > len(in_job) and "(in the job)" in screen and "--method" not in screen
    for one in found:
        again = run_plan(f"{base} {one['options']}")
        assert one in in_job or (again["verdict"], again["need_bytes"]["expected"]) == ("fits", one["need_bytes"])


def test_another_number_of_cards_is_planned_in_place_of_hosts() -> None:
    """--hosts takes no number of cards: the options then describe the hosts' cards, and plan the same job."""
    machine = replace(machines.build_described_machine("4090", 8, 24), cards=16, used_gib=0.5)
    hosts = host_spread.combine_hosts({"a": replace(machine, cards=8), "b": replace(machine, cards=8)})
    job = resolve.build_planned_job(hosts.machine, "21b", "sft", {"tp": 4, "sharding": "stage1", "recompute": "full"})
    limits = advice.CommandLimits(hardware=host_spread.list_hardware_options(hosts))
    kept = {"--tp": "4", "--sharding": "stage1", "--recompute": "full"}
    changes = advice.keep_layout(advice.find_fitting_changes(job), kept, limits)
    more = [change for change in changes if "--cards" in change.added]

    assert more and all("in place of the hosts" in f"{change.what}" for change in more)
    assert all("--device" not in change.options for change in changes if change not in more)
    for change in more:
        found = run_plan(f"--model 21b --method sft {change.options}")
        assert found["need_bytes"]["expected"] == round(change.plan.need_gib * 2**30), change.options
        assert found["layout"]["cards"] == change.plan.job.layout.cards


def test_calibration_without_effect_keeps_the_verdict() -> None:
    """A correction of nothing decides nothing: inputs that were not given and the context count as before."""
    row = {"model": "llama-2-7b", "method": "qlora", "quant": "bnb-int8", "cards": "1", "framework": "trl"}
    job = table_rows.build_row_job({**row, "device": "t4", "seq_len": "1024"})
    for gib in (8.0, 10.0, 12.0, 16.0, 24.0):
        plan = verdict.evaluate_job(replace(job, memory_gib=gib))

        assert calibration.correct_plan(plan, calibration.Correction(1.0, 0.0, 1)).verdict == plan.verdict


def test_advice_is_corrected_as_its_plan_is() -> None:
    """With a calibration, every suggested change fits after the correction."""
    job = resolve.build_planned_job(
        machines.build_described_machine("nvidia", 1, 24), "qwen2.5-7b", "lora", {"seq_len": 2048}
    )
    taught = calibration.Correction(1.25, 2.0**30, 3)

    def verdict_of(other: PlannedJob) -> str:
        return calibration.correct_plan(verdict.evaluate_job(replace(other, memory_gib=job.memory_gib)), taught).verdict

    changes = advice.find_fitting_changes(calibration.adjust_card_size(job, taught))

    assert verdict_of(job) != "fits" and changes
    assert {verdict_of(change.plan.job) for change in changes} == {"fits"}
    assert all(not {"--seq-len": "2048"}.items() <= change.added.items() for change in changes)


def test_smallest_change_of_its_kind() -> None:
    """Samples are shortened no more than needed: an eighth longer would not fit."""
    job = lay_out_job("21b", ("npu", 8, 64), "lora", {"sharding": "none"})
    assert job
    cut = next(c for c in advice.find_fitting_changes(job) if "--seq-len" in c.added)
    longer = lay_out_job("21b", ("npu", 8, 64), "lora", {"sharding": "none", "seq_len": cut.plan.job.seq_len * 9 // 8})

    assert longer
    assert verdict.evaluate_job(longer).verdict != "fits"


def test_refusals_are_points_of_a_sweep() -> None:
    """A value that the framework rejects is in the sweep with its reason; one that all values have is an error."""
    machine = machines.build_described_machine("nvidia", 8, 80)

    def plan_value(name: str, value: int) -> LaunchPlan:
        return verdict.evaluate_job(resolve.build_planned_job(machine, "qwen2.5-7b", "sft", {name: value}))

    points = dict(sweep_option("tp", [1, 2, 4, 8, 16], plan_value))

    assert "does not divide 28 heads" in str(points[8])
    assert not isinstance(points[4], str)
    with pytest.raises(UsageError, match="does not divide 28 heads"):
        sweep_option("tp", [8], plan_value)


def test_three_cheap_changes() -> None:
    """If no cheap pair fits, three changes are combined that keep the samples."""
    found = advice.find_fitting_changes(
        resolve.build_planned_job(
            machines.build_described_machine("nvidia", 1, 24), "qwen2.5-7b", "lora",
            {"seq_len": 8192, "micro_batch": 4, "recompute": "none"},
        )
    )  # fmt: skip
    kept = [change for change in found if not advice.COSTLY_OPTIONS & change.added.keys()]

    assert kept and min(len(change.added) for change in kept) == 3
    assert all(change.plan.verdict == "fits" and change.plan.job.seq_len == 8192 for change in kept)


def test_full_then_lora_then_qlora() -> None:
    """For full training LoRA and QLoRA are suggested last, in this order, with the stage of the method kept."""
    job = lay_out_job("llama-3-8b", ("nvidia", 1, 24), "dpo", {"seq_len": 512})
    assert job
    changes = advice.find_fitting_changes(job)
    methods = [change.added["--method"] for change in changes if "--method" in change.added]

    assert [method for method in methods if "," not in method][-2:] == ["dpo-lora", "dpo-qlora"]
    assert ["--method" in change.added for change in changes] == sorted("--method" in c.added for c in changes)


@pytest.mark.parametrize("framework", sorted(frameworks.load_frameworks().keys() - {"common"}))
def test_changes_exist_in_the_framework(framework: str) -> None:
    """Offload is suggested only with the sharding that it is a part of, adapters only where the framework has them."""
    f = frameworks.load_frameworks()[framework]
    for cards in (1, 8):
        made = PlannedJob(
            model=models.load_model("llama-3-8b"), framework=f, device=devices.find_named_device("a100"),
            memory_gib=24, layout=ParallelLayout(cards=cards), precision=resolve.choose_precision(f),
        )  # fmt: skip
        for change in advice.find_fitting_changes(made):
            other = change.plan.job
            assert not list(layout_rules.list_refusals(other))
            assert other.trains_all or f.adapters
            assert all(kind in f.offloads for kind in other.offload)
            assert not (other.sharding == "fsdp" and other.offload == {"optimizer"})
            assert not (other.sharding == "none" and "params" in other.offload)


@pytest.mark.parametrize("framework", sorted(load_own_table(framework_options.FILE)))
def test_every_suggested_option_has_a_setting(framework: str) -> None:
    """What the framework cannot be set to do is not suggested: each option, and each part of an offload, has a key."""
    f, tried = frameworks.load_frameworks()[framework], 0
    tp = 8 if "tp" in f.degrees else 1
    for cards, gib, method in itertools.product((1, 8), (16, 24, 48), ("full", "lora")):
        job = PlannedJob(
            model=models.load_model("llama-3-8b"), framework=f, device=devices.find_named_device("a100"),
            memory_gib=gib, layout=ParallelLayout(tp if cards == 8 else 1, cards=cards), method=method,
            precision=resolve.choose_precision(f), micro_batch=4, grad_accum=2, seq_len=4096,
            recompute=Recompute("full" if cards == 8 else "none"),
        )  # fmt: skip
        for change in advice.find_fitting_changes(job):
            values = [v for name, value in change.added.items() for v in split_values(name, value) if name != "--cards"]
            joint = len({"--sharding", "--offload"} & change.added.keys()) == 2 and framework == "swift"
            assert len(change.settings) == len(values) or joint, f"{change.added} {change.settings}"
            assert change.plan.job.sharding == "none" or change.plan.job.layout.dense_shards > 1 or cards == 1
            tried += 1

    assert tried


def split_values(name: str, value: str) -> list[str]:
    return value.split("+") if name == "--offload" else [value]


def test_erniekit_has_no_nf4_and_no_offload_of_parameters() -> None:
    """Changes that ERNIEKit has no key for are not suggested for it, not even combined."""
    for base in (
        "--model 21b --method sft --device 4090 --cards 8",
        "--model 300b --method sft --device 4090 --cards 8",
    ):
        for added, _need in list_printed_options(base):
            assert "nf4" not in added and "params" not in added


def test_settings_are_the_frameworks_own() -> None:
    """Changes are named as the framework names them; these names are in its table of options."""
    folder = Path(options.__path__[0])
    for framework, schema in (("llamafactory", "llamafactory"), ("swift", "swift3-sft"), ("paddle", "erniekit")):
        names = set(load_own_table(folder / f"{schema}.toml")["names"])
        settings = [
            text
            for option, text in load_own_table(framework_options.FILE)[framework].items()
            if option.startswith("--")
        ]
        named = {word for text in settings for word in re.findall(r"(?:^|, |--)([a-z_]+)(?=:| (?!file))", text)}
        assert named - {"or"} <= names, named - names

    changes = {"--fused-loss": "", "--micro-batch": "1", "--method": "dpo-lora"}
    assert framework_options.list_framework_options("llamafactory", changes, rank=16, sharding="none") == [
        "enable_liger_kernel: true",
        "per_device_train_batch_size: 1",
        "finetuning_type: lora, lora_rank: 16, lora_target: all",
    ]


def test_one_setting_for_sharding_with_offload() -> None:
    """ms-swift has names for stages with offload; what no name covers are keys of DeepSpeed's file."""
    name_options = functools.partial(framework_options.list_framework_options, "swift", rank=8, sharding="none")

    assert name_options({"--sharding": "stage2", "--offload": "optimizer"}) == ["--deepspeed zero2_offload"]
    assert name_options({"--offload": "params+optimizer", "--sharding": "stage3"}) == ["--deepspeed zero3_offload"]
    assert name_options({"--sharding": "stage3", "--offload": "optimizer"}) == [
        "--deepspeed zero3",
        "zero_optimization.offload_optimizer.device: cpu",
    ]
    assert name_options({"--micro-batch": "1", "--sharding": "stage2"})[1:] == ["--deepspeed zero2"]
    assert name_options({"--offload": "optimizer"}, sharding="stage2") == ["--deepspeed zero2_offload"]


@pytest.mark.parametrize("framework", ["generic", "llamafactory", "swift", "axolotl", "torchtune", "torchtitan"])
def test_offload_under_fsdp_is_no_key_of_deepspeed(framework: str) -> None:
    """A job that FSDP shards has no file of DeepSpeed: its offload is an option of FSDP."""
    name_options = functools.partial(framework_options.list_framework_options, framework, {"--offload": "params"}, 8)

    (setting,) = name_options(sharding="fsdp")
    assert "offload" in setting and "zero_optimization" not in setting


def test_rank_of_suggested_adapters_is_the_default_one() -> None:
    """The settings of a suggested LoRA have the rank with which it was planned, the one of a job without a rank."""
    machine = machines.build_described_machine("a100", 8, 80)
    job = resolve.build_planned_job(machine, "llama-3-8b", "full", {"framework": "llamafactory", "seq_len": 2048})
    asked = resolve.build_planned_job(machine, "llama-3-8b", "lora", {"framework": "llamafactory", "seq_len": 2048})
    made = next(other for _what, _added, other in reductions.list_tuner_changes(job))

    assert made.adapter.rank == asked.adapter.rank == option_words.ADAPTER_RANK
    plan = verdict.evaluate_job(made)
    (settings,) = advice.LayoutChange("", {"--method": "lora"}, plan, 1.0).settings
    assert f"lora_rank: {made.adapter.rank}," in settings
