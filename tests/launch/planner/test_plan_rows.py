"""Tables of jobs are untrusted input: any row gets a verdict or a note."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.cli.commands.plan import plan
from envcheck.core.errors import UsageError
from launch import planner
from launch.catalogue import frameworks
from launch.memory import open_inputs
from launch.memory.stage_parts import build_stage_parts
from launch.planner import job_table, option_words, row_words, table_rows

BASE = {
    "id": "1", "framework": "Megatron-LM", "model": "llama-2-7b", "method": "full", "cards": "8", "device": "A100-80G",
    "device_mem_gib": "80", "tp": "2", "pp": "2", "sharding": "dist_opt", "seq_len": "4096", "micro_batch": "1",
    "recompute": "none", "layers": "32", "hidden": "4096", "heads": "32", "kv_heads": "32", "head_dim": "128",
    "ffn": "11008", "vocab": "32000",
}  # fmt: skip
COLUMNS = (*BASE, "quant", "offload", "lora_rank", "lora_targets", "modules_to_save", "vpp", "ep", "etp", "cp", "dp",
           "weight_dtype", "grad_dtype", "optimizer", "experts", "topk", "mla", "dropout", "metric")  # fmt: skip
WORDS = ("", "0", "1", "-1", "3", "13", "1000000", "nan", "inf", "1e99", "zero3", "fsdp", "full", "lora", "nf4",
         "block:2", "q1:kv2", "True", "optimizer:0.5", "fp8", "\x00", "x" * 40)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(WORDS), max_size=6))
def test_any_cell_is_answered(cells: dict[str, str]) -> None:
    """Any combination of cells gives a verdict, with a note if the row is invalid."""
    answer = job_table.predict_row({**BASE, **cells})

    assert answer["predicted_verdict"] in (planner.FITS, planner.NOT, planner.UNTOLD)
    assert answer["predicted_gib"] or answer["note"]
    if answer["predicted_gib"]:
        assert float(answer["low_gib"]) <= float(answer["predicted_gib"]) <= float(answer["high_gib"])


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_for_names(framework: str, model: str) -> None:
    """Any names of frameworks and models are accepted."""
    answer = job_table.predict_row({**BASE, "framework": framework, "model": model})

    assert float(answer["predicted_gib"]) > 0


def test_zero_is_rejected() -> None:
    """A batch, length or degree of 0 is rejected with its column."""
    for key in ("cards", "tp", "pp", "seq_len", "micro_batch"):
        answer = job_table.predict_row({**BASE, key: "0"})

        assert (answer["predicted_gib"], answer["predicted_verdict"]) == ("", planner.UNTOLD)
        assert answer["note"] == f"{key} is '0'; {key} must be at least 1, or empty"


def test_unknown_words_leave_a_figure_and_no_verdict() -> None:
    """An unknown method or sharding is named; there is a figure but no verdict."""
    answer = job_table.predict_row({**BASE, "sharding": "moon", "method": "frob"})

    assert float(answer["predicted_gib"]) > 0
    assert answer["predicted_verdict"] == planner.UNTOLD
    assert "method 'frob'" in answer["note"] and "sharding 'moon'" in answer["note"]


UNKNOWN = {
    "lora_targets": "foo_proj", "optimizer": "zadam", "offload": "gpu", "recompute": "sometimes", "quant": "int3",
    "weight_dtype": "int7", "grad_dtype": "bf17", "flash_attn": "maybe", "seq_kind": "mostly", "metric": "thermometer",
    "sharding": "zero9", "method": "dorado", "modules_to_save": "elbow", "device_map": "east", "mla": "q1", "tied": "2",
}  # fmt: skip
KNOWN = {
    "lora_targets": "q_proj,v_proj", "optimizer": "paged_adamw_32bit", "offload": "params+optimizer:0.5",
    "recompute": "block:4", "quant": "bnb-nf4-dq", "weight_dtype": "bfloat16", "sharding": "paddle-stage2",
    "method": "sft-qlora", "modules_to_save": "embed_tokens+lm_head", "metric": "max_reserved(coarse)",
}  # fmt: skip


@pytest.mark.parametrize("key", UNKNOWN)
def test_every_unknown_word_is_named(key: str) -> None:
    """An unknown word in any column is named and leaves no verdict."""
    answer = job_table.predict_row({**BASE, "lora_rank": "8", key: UNKNOWN[key]})

    assert answer["predicted_verdict"] == planner.UNTOLD
    assert f"{key} '{UNKNOWN[key]}' is unknown" in answer["note"]


def test_words_of_several_words() -> None:
    """`in` is part of an optimizer's name only before what it stands for."""
    odd = {name: [*row_words.list_unknown_words({**BASE, "optimizer": name})] for name in
           ("adamw_in_backward", "AdamW in bwd", "adamw backward", "adamw in", "adamw_in_frob")}  # fmt: skip

    assert [name for name, texts in odd.items() if texts] == ["adamw in", "adamw_in_frob"]


def test_known_words_are_not_named() -> None:
    """Words of frameworks and checkpoints are known; targets select the smallest set of modules."""
    assert not [*row_words.list_unknown_words({**BASE, **KNOWN})]
    job = table_rows.build_row_job({**BASE, **KNOWN})
    assert (job.adapter.targets, job.adapter.saved, job.recompute.layers) == ("qv", ("embed", "head"), 4)


def test_row_numbers_of_unknown_words(tmp_path: Path) -> None:
    """The command names the rows by number; a framework or card that is not listed is named and gets a verdict."""
    table, out = tmp_path / "jobs.csv", tmp_path / "out.csv"
    lines = [
        {**BASE, "id": ""},
        {**BASE, "id": "x", "optimizer": "zadam"},
        {**BASE, "framework": "blubb", "device": "Q9-80G"},
    ]
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, BASE.keys() | {"optimizer"})
        writer.writeheader()
        writer.writerows(lines)
    done = subprocess.run(
        [sys.executable, "-m", "envcheck", "plan", "--rows", table, "-o", out], capture_output=True, text=True
    )
    with out.open(newline="") as file:
        answers = list(csv.DictReader(file))

    assert done.returncode == 0
    assert "row 2 (x): optimizer 'zadam' is unknown" in done.stderr
    assert "row 3 (1): framework 'blubb' is unknown" in done.stderr and "device 'Q9-80G'" in done.stderr
    assert [answer["id"] for answer in answers] == ["1", "x", "1"]
    assert answers[2]["predicted_verdict"] != planner.UNTOLD


SHORT = {"id": "1", "model": "21b", "method": "lora", "cards": "8", "tp": "4", "pp": "2", "sharding": "stage1",
         "seq_len": "8192", "micro_batch": "1", "device": "h200"}  # fmt: skip


def test_empty_cells_are_named_in_the_note() -> None:
    """The note has what empty cells were taken as: plan would assume full recomputation, for example."""
    note = job_table.predict_row(SHORT)["note"]
    given = {"framework": "paddle", "recompute": "full", "seq_parallel": "1", "fused_ce": "1", "lora_rank": "32"}

    assert (
        "assumed for empty cells: framework megatron, recompute none, seq_parallel 0, fused_ce 0, lora_rank 32" in note
    )
    assert "assumed" not in job_table.predict_row({**SHORT, **given})["note"]


def test_a_model_by_its_fields() -> None:
    """The model column takes fields as --model does."""
    fields = "num_layers=28,hidden_size=3584,num_attention_heads=28,intermediate_size=18944,vocab_size=152064"
    answer = job_table.predict_row({**SHORT, "model": fields})

    assert answer["predicted_verdict"] == planner.FITS
    assert "28x3584" in table_rows.build_row_job({**SHORT, "model": fields}).model.name


def test_cells_beyond_the_header_are_refused(tmp_path: Path) -> None:
    """A comma without quotes costs its own row, and a comma at the end nothing."""
    head, cells = ",".join(SHORT), ",".join(SHORT.values())
    table = tmp_path / "jobs.csv"
    table.write_text(f"{head}\n{cells},,\n{cells},h200\n{cells}\n", encoding="utf-8")
    one, two, three = map(job_table.predict_row, job_table.read_rows(table))

    assert one["predicted_verdict"] == three["predicted_verdict"] == planner.FITS
    assert (two["predicted_gib"], two["predicted_verdict"]) == ("", planner.UNTOLD)
    assert (
        two["note"] == "more cells than columns; beyond the last column: h200; put cells with commas in double quotes"
    )


def test_a_negative_number_is_named_as_such() -> None:
    """The note of a negative number does not ask for a number; the line on standard error names its row once."""
    answer = job_table.predict_row({**SHORT, "cards": "-8"})
    (line,) = job_table.describe_failed_rows([answer])

    assert str(line) == "row 1 has no prediction: cards is '-8'; cards must be a positive number, or empty"


def test_every_empty_cell_that_was_assumed_is_named() -> None:
    """Card, memory, degrees, sharding, length and batch of empty cells are in the note."""
    names = ("device", "cards", "tp", "pp", "sharding", "seq_len", "micro_batch")
    note = job_table.predict_row({**SHORT, "model": "llama-2-7b", **dict.fromkeys(names, "")})["note"]
    values = "device other, cards 1, tp 1, pp 1, sharding none, seq_len 2048, micro_batch 1"

    assert f"assumed for empty cells: framework generic, {values}, recompute none" in note
    assert "device_mem_gib 80" in note


@pytest.mark.parametrize("name", ("device", "seq_len"))
def test_a_missing_size_leaves_a_figure_and_no_verdict(name: str) -> None:
    """Without a card or a length there is a figure; the note has the cell to set instead of a verdict."""
    answer = job_table.predict_row({**SHORT, name: ""})

    assert answer["predicted_verdict"] == planner.UNTOLD and float(answer["predicted_gib"]) > 0
    assert f"{name} " in answer["note"] and "for a verdict" in answer["note"]
    assert " GiB" not in answer["note"]  # nor the limit of an assumed card
    sized = job_table.predict_row({**SHORT, "device": "", "device_mem_gib": "80"})
    assert sized["predicted_verdict"] == planner.FITS and "device other" in sized["note"]


def test_an_unknown_card_without_its_memory_has_no_verdict() -> None:
    """An unknown card has a verdict only if the row has its memory."""
    bare, sized = (job_table.predict_row({**SHORT, "device": "frobcard", "device_mem_gib": gib}) for gib in ("", "96"))

    assert (
        bare["predicted_verdict"] == planner.UNTOLD and "device 'frobcard' is not in the device table" in bare["note"]
    )
    assert sized["predicted_verdict"] == planner.FITS


def test_tensor_degrees_are_refused_as_by_plan() -> None:
    """A degree that does not divide a catalogue model has no prediction; one with dimensions records an edited one."""
    answer = job_table.predict_row({**SHORT, "cards": "9", "tp": "3", "pp": "1"})

    assert (answer["predicted_gib"], answer["predicted_verdict"]) == ("", planner.UNTOLD)
    assert "tp 3 does not divide 20 heads and 4 key/value heads" in answer["note"]
    assert job_table.predict_row({**BASE, "tp": "3", "cards": "6"})["predicted_gib"]


LORA_ROW = {
    "model": "qwen2.5-7b", "method": "lora", "device": "a100", "cards": "4", "tp": "2", "pp": "1", "sharding": "none",
    "seq_len": "2048", "micro_batch": "1",
}  # fmt: skip


def test_cards_are_refused_as_by_plan() -> None:
    """Cards that the degrees do not divide have no prediction, as they have no plan."""
    refused = job_table.predict_row({**LORA_ROW, "cards": "3"})

    assert "cards 3 is not a multiple of tp x pp x cp = 2" in refused["note"]
    assert not refused["predicted_gib"] and job_table.predict_row(LORA_ROW)["predicted_gib"]


def test_the_rank_of_adapters_is_that_of_plan() -> None:
    assert table_rows.build_row_job(LORA_ROW).adapter.rank == option_words.ADAPTER_RANK


def test_columns_are_named_as_the_options(tmp_path: Path) -> None:
    """A hyphen in the name of a column is read as in the name of an option; an unknown column keeps its name."""
    table = tmp_path / "rows.csv"
    table.write_text("model,method,cards,tp,pp,sharding,seq-len,micro-batch,my-note\nqwen-7b,lora,1,1,1,none,512,1,x\n")
    (row,) = job_table.read_rows(table)

    assert (row["seq_len"], row["micro_batch"], row["my-note"]) == ("512", "1", "x")


@pytest.mark.parametrize("separator", [";", "\t"])
def test_another_separator_is_named(separator: str, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text(separator.join(job_table.NEEDED) + "\n")
    with pytest.raises(UsageError) as refused:
        job_table.read_rows(table)

    assert refused.value.message.endswith(f"columns are separated by {separator!r}")


def test_rows_without_a_prediction_are_listed(tmp_path: Path) -> None:
    """Rows that fail are named on standard error, and the others are written."""
    table, out = tmp_path / "jobs.csv", tmp_path / "out.csv"
    lines = [{**SHORT, "memory_gib": "96"}, {**SHORT, "id": "x", "model": "nomodel"}, {**SHORT, "cards": "many"}]
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*SHORT, "memory_gib"], restval="")
        writer.writeheader()
        writer.writerows(lines)
    done = CliRunner().invoke(plan, ["--rows", str(table), "-o", str(out)], standalone_mode=False)
    with out.open(newline="") as file:
        answers = list(csv.DictReader(file))

    assert done.return_value == 0
    assert "row 2 (x) has no prediction: unknown --model nomodel" in done.stderr
    assert "row 3 (1) has no prediction" in done.stderr
    assert "memory_gib" not in done.stderr
    assert [bool(answer["predicted_gib"]) for answer in answers] == [True, False, False]
    assert "of 9" in answers[0]["note"]  # of 96 GiB


def test_a_model_by_its_dimensions() -> None:
    """Dimensions define a model of any name; key/value heads default to heads, their size to hidden/heads."""
    plain = {**BASE, "model": "mine", "kv_heads": "32", "head_dim": "128"}

    assert job_table.predict_row(plain) == job_table.predict_row({**plain, "kv_heads": "", "head_dim": ""})


def predict_peak(**cells: str) -> float:
    base = {**BASE, "framework": "HF Trainer", "tp": "1", "pp": "1", "sharding": "none", "cards": "1"}
    return float(job_table.predict_row({**base, "metric": "max_allocated", **cells})["predicted_gib"])


def test_optimizer_of_adapters() -> None:
    """Adapters in fp32 keep 8 bytes of moments per parameter, 2.03 with an 8-bit optimizer."""
    lora = {"method": "lora", "lora_rank": "64", "recompute": "full"}
    trained = 32 * 64 * (4 * (4096 + 4096) + 3 * (4096 + 11008))

    saved = predict_peak(**lora, optimizer="adamw") - predict_peak(**lora, optimizer="adamw8bit")

    assert abs(saved * 2**30 - trained * (8 - 2.03)) < 2e6


def test_second_fsdp_reduces_every_micro_batch() -> None:
    """Accumulation needs unsharded gradients, 2 bytes per parameter, with the first FSDP but not with the second."""
    cells = {"cards": "8", "recompute": "full", "weight_dtype": "bf16", "optimizer": "adamw"}
    whole = {
        way: predict_peak(**cells, sharding=way, grad_accum="2") - predict_peak(**cells, sharding=way)
        for way in ("fsdp", "fsdp2")
    }

    assert whole["fsdp"] > 10 and whole["fsdp2"] < 2


def test_strategies_of_the_first_fsdp() -> None:
    """SHARD_GRAD_OP has all weights in the backward pass; HYBRID_SHARD shards within a node."""
    cells = {"framework": "trl", "model": "llama-2-7b", "recompute": "full", "cards": "16", "device": "A100"}
    ways = ("fsdp", "fsdp (SHARD_GRAD_OP)", "hsdp", "fsdp HYBRID_SHARD")
    jobs = [table_rows.build_row_job({**BASE, **cells, "tp": "1", "pp": "1", "sharding": way}) for way in ways]
    whole, grads, hybrid, same = (build_stage_parts(job, 0) for job in jobs)

    assert grads.gathered == pytest.approx(2 * jobs[0].model.params, rel=1e-3) and grads.gathered > 4 * whole.gathered
    assert grads.gathered - grads.released == whole.gathered and whole.released == 0
    assert grads.states == whole.states
    assert hybrid.states == same.states and hybrid.states.moments == 2 * whole.states.moments
    assert not [text for way in ways for text in row_words.list_unknown_words({**BASE, "sharding": way})]


def test_spellings_of_the_distributed_optimizer() -> None:
    """Megatron's distributed optimizer is known by a hyphen or an underscore, in full or cut short."""
    for way in ("dist-opt", "dist_opt", "distributed-optimizer"):
        row = {**BASE, "sharding": way}
        assert table_rows.parse_sharding(row) == "dist_opt" and not [*row_words.list_unknown_words(row)], way


@pytest.mark.parametrize("word", ["opt", "optimizer", "op", "shard", "grad", "fsdp op"])
def test_part_of_a_way_of_sharding_is_unknown(word: str) -> None:
    """A word that means something only together with another one is named, not read as no sharding."""
    assert [text for text in row_words.list_unknown_words({**BASE, "sharding": word}) if "sharding" in text]
    assert not [*row_words.list_unknown_words({**BASE, "sharding": "zero 2, dist-opt"})]


def test_buckets_of_a_deepspeed_configuration() -> None:
    """Sizes of a ds_config replace the defaults: 2 bytes for each entry of two buffers, and of live parameters."""
    cells = {"cards": "8", "recompute": "full", "weight_dtype": "bf16"}
    plain, small = (
        predict_peak(**cells, metric="max_reserved", sharding="zero2", reduce_bucket_size=size)
        for size in ("", "50000000")
    )
    usual, live = (
        predict_peak(**cells, micro_batch="8", sharding="zero3", stage3_max_live_parameters=size)
        for size in ("", "800000000")
    )

    assert (plain - small) * 2**30 == pytest.approx(2 * (4e8 - 1e8), rel=0.01)
    assert (usual - live) * 2**30 == pytest.approx(2 * 2e8, rel=0.01)


def test_automodel_is_not_megatron() -> None:
    """NeMo Automodel is distinguished from NeMo on Megatron."""
    found = [frameworks.find_framework(name) for name in ("NeMo Automodel (FSDP2)", "NeMo 2.0")]

    assert [f and f.name for f in found] == ["automodel", "megatron"]


def test_answers_are_never_read() -> None:
    """Measured results in a row do not change its prediction."""
    honest = job_table.predict_row(BASE)
    other = job_table.predict_row(
        {**BASE, "peak_gib": "1", "static_gib": "1", "verdict": "oom", "published": "1", "notes": "x"}
    )

    assert honest == other


def test_cards_of_expert_parallelism() -> None:
    """Without a number of cards, or with that of replicas, there are enough for the experts."""
    row = {"model": "qwen3-30b-a3b", "method": "full", "framework": "Megatron-LM", "seq_len": "4096", "ep": "8"}

    assert table_rows.build_row_job(row).layout.cards == table_rows.ASSUMED_CARDS
    assert table_rows.build_row_job({**row, "dp": "16"}).layout.cards == 16
    assert table_rows.build_row_job({**row, "ep": "1"}).layout.cards == 1


@pytest.mark.parametrize(
    ("name", "known", "open_row"),
    [
        ("mixed_precision", {"weight_dtype": "bf16"}, {"weight_dtype": "fp32"}),
        ("mixed_precision", {"weight_dtype": "fp32", "sharding": "fsdp"}, {"weight_dtype": "fp32"}),
        ("preparation", {"framework": "TRL SFTTrainer", "method": "qlora"}, {"method": "qlora"}),
        ("preparation", {"method": "lora"}, {"method": "qlora"}),
        ("recompute", {"recompute": "none"}, {"recompute": ""}),
        ("fused_loss", {}, {"framework": "TRL SFTTrainer 1.14"}),
        ("fused_loss", {"fused_ce": "0"}, {"framework": "unsloth"}),
        ("recompute", {"recompute": "full"}, {"recompute": "unspecified"}),
        ("recompute", {"recompute": "", "method": "qlora"}, {"recompute": "", "method": "qlora", "quant": "gptq-int4"}),
    ],
)
def test_inputs_that_columns_leave_open(name: str, known: dict[str, str], open_row: dict[str, str]) -> None:
    """fp32 weights without a word on autocast, a user's preparation of a quantised base, a framework's own loss."""
    row = {"model": "llama-3-8b", "method": "full", "cards": "1", "framework": "HF Trainer", "seq_len": "1024",
           "recompute": "full"}  # fmt: skip

    def is_open(more: dict[str, str]) -> bool:
        job = table_rows.build_row_job({**row, **more})
        return name in [one.name for one, _others in open_inputs.list_alternatives(job)]

    assert (is_open(known), is_open(open_row)) == (False, True)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ({}, "full"),
        ({"recompute": "none"}, "none"),
        ({"method": "lora", "quant": ""}, "none"),
        ({"quant": "gptq-int4"}, "none"),
        ({"framework": "TRL SFTTrainer"}, "none"),
    ],
)
def test_recompute_of_a_prepared_base(cells: dict[str, str], kind: str) -> None:
    """PEFT's preparation of a bitsandbytes base recomputes by default; a framework passes an option of its own."""
    row = {"model": "llama-2-7b", "method": "qlora", "quant": "bnb-nf4", "framework": "HF Trainer", "seq_len": "512"}

    job = table_rows.build_row_job(row | cells)

    assert job.recompute.kind == kind
    assert (f"recompute {kind}" in str(table_rows.describe_assumptions(row | cells, job))) is ("recompute" not in cells)
