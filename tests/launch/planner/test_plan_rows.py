"""Tables of jobs are hostile input: whatever a cell holds, a row gets an answer or a sentence."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from launch import planner
from launch.catalogue import frameworks
from launch.planner import table

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
    """No mix of odd cells ends in anything but a verdict, with a note where no job could be made."""
    answer = table.predict({**BASE, **cells})

    assert answer["predicted_verdict"] in (planner.FITS, planner.NOT, planner.UNTOLD)
    assert answer["predicted_gib"] or answer["note"]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_for_names(framework: str, model: str) -> None:
    """Names of frameworks and models may be anything."""
    answer = table.predict({**BASE, "framework": framework, "model": model})

    assert float(answer["predicted_gib"]) > 0


def test_zero_is_no_length() -> None:
    """A batch, length or degree of 0 is told by its column, with no figure."""
    for key in ("cards", "tp", "pp", "seq_len", "micro_batch"):
        answer = table.predict({**BASE, key: "0"})

        assert (answer["predicted_gib"], answer["predicted_verdict"]) == ("", planner.UNTOLD)
        assert answer["note"] == f"row 1: {key} is '0'"


def test_unknown_words_leave_a_figure_and_no_verdict() -> None:
    """A method or sharding that nobody knows is named, and nothing is promised."""
    answer = table.predict({**BASE, "sharding": "moon", "method": "frob"})

    assert float(answer["predicted_gib"]) > 0
    assert answer["predicted_verdict"] == planner.UNTOLD
    assert "method 'frob'" in answer["note"] and "sharding 'moon'" in answer["note"]


def test_a_model_by_its_dimensions() -> None:
    """Dimensions make a model of any name; heads that are not told apart are all alike, and of hidden/heads."""
    plain = {**BASE, "model": "mine", "kv_heads": "32", "head_dim": "128"}

    assert table.predict(plain) == table.predict({**plain, "kv_heads": "", "head_dim": ""})


def peak(**cells: str) -> float:
    base = {**BASE, "framework": "HF Trainer", "tp": "1", "pp": "1", "sharding": "none", "cards": "1"}
    return float(table.predict({**base, "metric": "max_allocated", **cells})["predicted_gib"])


def test_optimizer_of_adapters() -> None:
    """Adapters in fp32 keep 8 bytes of moments a parameter, 2.03 under an 8-bit optimizer."""
    lora = {"method": "lora", "lora_rank": "64", "recompute": "full"}
    trained = 32 * 64 * (4 * (4096 + 4096) + 3 * (4096 + 11008))

    saved = peak(**lora, optimizer="adamw") - peak(**lora, optimizer="adamw8bit")

    assert abs(saved * 2**30 - trained * (8 - 2.03)) < 2e6


def test_second_fsdp_reduces_every_micro_batch() -> None:
    """Accumulation costs whole gradients, 2 bytes a parameter, under the first FSDP and nothing under the second."""
    said = {"cards": "8", "recompute": "full", "weight_dtype": "bf16", "optimizer": "adamw"}
    whole = {way: peak(**said, sharding=way, grad_accum="2") - peak(**said, sharding=way) for way in ("fsdp", "fsdp2")}

    assert whole["fsdp"] > 12 and whole["fsdp2"] < 2


def test_automodel_is_no_megatron() -> None:
    """NeMo's trainer of transformers' models is told from NeMo on Megatron."""
    found = [frameworks.find(name) for name in ("NeMo Automodel (FSDP2)", "NeMo 2.0")]

    assert [f and f.name for f in found] == ["automodel", "megatron"]


def test_answers_are_never_read() -> None:
    """A row's own reading changes nothing."""
    honest = table.predict(BASE)
    told = table.predict({**BASE, "peak_gib": "1", "static_gib": "1", "verdict": "oom", "published": "1", "notes": "x"})

    assert honest == told
