"""Compare sharded training steps, counted on 2 to 4 real ranks on the CPU, with the planner's phases.

count_ranks.py counts in a separate environment: torch's DistributedDataParallel and both FSDPs, DeepSpeed's ZeRO.
The model is small and has few tokens, so that states, units and buckets are most of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launch.catalogue import frameworks, model_config
from launch.catalogue.frameworks import Framework
from launch.memory import offloaded, pinned_blocks
from launch.memory.phases import list_phases
from launch.memory.planned_job import Adapter, ParallelLayout, PlannedJob, Precision, Recompute
from launch.memory.stage_parts import build_stage_parts
from tests.launch.memory.rank_runs import count_by_group, count_on_ranks
from tests.launch.planner.planner_helpers import A100, GENERIC

PROGRAM = Path(__file__).with_name("count_ranks.py")
MARGIN = 0.02
LLAMA = {
    "num_hidden_layers": 8, "hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32,
    "intermediate_size": 704, "vocab_size": 1024,
}  # fmt: skip
PLAIN = {
    "type": "llama", "config": LLAMA, "batch": 1, "tokens": 128, "recompute": False, "accumulate": 1, "ranks": 2,
    "bucket": 1_000_000, "subgroup": 10**9, "live": 1_000_000, "weight": 2, "offload": [],
    "rank": 0, "targets": "all-linear", "prefetch": 50_000, "units": False, "cast": False,
}  # fmt: skip
# FSDP2 as torchtitan configures it, with the modules of transformers and torch's foreach AdamW.
FULLY_SHARD = replace(
    frameworks.load_frameworks()["torchtitan"], kernels=GENERIC.kernels, step=GENERIC.step, edge_units=()
)
# Embedding and head are larger than the layers, as in small models with a large vocabulary.
LARGE = {"config": {**LLAMA, "num_hidden_layers": 4, "vocab_size": 8192}, "tokens": 64, "weight": 4, "recompute": True}
TIED = {
    **LARGE,
    "config": {**LLAMA, "num_hidden_layers": 4, "vocab_size": 8192, "tie_word_embeddings": True},
    "tokens": 32,
}

# transformers 5 recomputes inside the unit of FSDP, not around it as transformers 4 did.
INSIDE = replace(GENERIC, watches_inputs=False)
CAST = replace(INSIDE, casts_shards=True)
MIXED = replace(INSIDE, adapter_units=False)

CASES: dict[str, dict[str, Any]] = {
    "ddp": {},
    "fsdp1": {"weight": 4},
    "fsdp2": {"weight": 4},
    "zero1": {},
    "zero2": {},
    "zero3": {},
    "ddp, recomputed": {"recompute": True},
    "fsdp1, recomputed": {"weight": 4, "recompute": True},
    "fsdp1, two micro batches": {"weight": 4, "accumulate": 2},
    "fsdp2, recomputed": {"weight": 4, "recompute": True},
    "fsdp2, two micro batches": {"weight": 4, "accumulate": 2},
    "zero1, two micro batches": {"accumulate": 2},
    "zero2, recomputed": {"recompute": True},
    "zero2, two micro batches": {"accumulate": 2},
    "zero3, recomputed": {"recompute": True},
    "zero3, two micro batches": {"accumulate": 2},
    "zero3, more live parameters": {"recompute": True, "live": 3_000_000},
    "zero3, small sub-groups": {"subgroup": 750_000},
    "ddp, fp32 weights": {"weight": 4},
    "ddp, fp32 weights, recomputed": {"weight": 4, "recompute": True},
    "ddp, lora": {"rank": 8},
    "ddp, lora, recomputed": {"rank": 8, "recompute": True},
    "fsdp1, lora, own units": {"weight": 4, "rank": 8, "units": True},
    "fsdp1, lora, own units, recomputed": {"weight": 4, "rank": 8, "units": True, "recompute": True},
    "fsdp1, lora, own units, 16-bit base": {"rank": 8, "units": True},
    "fsdp1, lora, own units, 16-bit base, recomputed": {"rank": 8, "units": True, "recompute": True},
    "fsdp1, lora, mixed units": {"weight": 4, "rank": 8},
    "fsdp1, lora, mixed units, recomputed": {"weight": 4, "rank": 8, "recompute": True},
    "fsdp1, lora, mixed units, two micro batches": {"weight": 4, "rank": 8, "recompute": True, "accumulate": 2},
    "fsdp2, lora": {"weight": 4, "rank": 8},
    "zero2, lora": {"rank": 8},
    "zero2, lora, recomputed": {"rank": 8, "recompute": True},
    "zero3, lora": {"rank": 8},
    "zero3, lora, recomputed": {"rank": 8, "recompute": True},
    "zero3, lora, recomputed, more fetched": {"rank": 8, "recompute": True, "prefetch": 200_000},
    "zero1, optimizer on the host": {"offload": ["optimizer"]},
    "zero1, optimizer on the host, two micro batches": {"offload": ["optimizer"], "accumulate": 2},
    "zero2, optimizer on the host": {"offload": ["optimizer"]},
    "zero2, optimizer on the host, two micro batches": {"offload": ["optimizer"], "accumulate": 2},
    "zero2, optimizer on the host, large vocabulary": {
        "config": LARGE["config"],
        "tokens": 16,
        "bucket": 3_000_000,
        "offload": ["optimizer"],
    },
    "zero2, lora, optimizer on the host": {"rank": 8, "offload": ["optimizer"]},
    "zero3, optimizer on the host": {"offload": ["optimizer"]},
    "zero3, optimizer on the host, two micro batches": {"offload": ["optimizer"], "accumulate": 2},
    "zero3, all on the host": {"offload": ["optimizer", "params"]},
    "ddp, four ranks": {"ranks": 4},
    "fsdp1, four ranks": {"weight": 4, "ranks": 4},
    "fsdp1, four ranks, two micro batches": {"weight": 4, "ranks": 4, "accumulate": 2},
    "fsdp2, four ranks": {"weight": 4, "ranks": 4},
    "zero1, four ranks": {"ranks": 4},
    "zero2, four ranks": {"ranks": 4},
    "zero3, four ranks": {"ranks": 4},
    "fsdp1, gradients sharded": {"weight": 4, "whole_weights": True},
    "fsdp1, gradients sharded, recomputed": {"weight": 4, "whole_weights": True, "recompute": True},
    "fsdp1, gradients sharded, two micro batches": {"weight": 4, "whole_weights": True, "accumulate": 2},
    "fsdp1, autocast alone": {"weight": 4, "cast": True},
    "fsdp1, autocast alone, recomputed": {"weight": 4, "cast": True, "recompute": True},
    "fsdp1, autocast alone, two micro batches": {"weight": 4, "cast": True, "accumulate": 2},
    "fsdp1, large vocabulary": LARGE,
    "fsdp1, large vocabulary, two micro batches": {**LARGE, "accumulate": 2},
    "fsdp1, large vocabulary, tied": TIED,
    "fsdp2, large vocabulary": LARGE,
    "fsdp2, large vocabulary, two micro batches": {**LARGE, "accumulate": 2},
    "fsdp2, units for embedding and head": {**LARGE, "edges": True},
    "fsdp2, large vocabulary, tied": TIED,
    "fsdp1, large vocabulary, tied, two micro batches": {**TIED, "accumulate": 2},
    "fsdp1, autocast alone, tied": {**TIED, "cast": True},
    "fsdp2, large vocabulary, tied, two micro batches": {**TIED, "accumulate": 2},
    "ddp, tied": {**TIED, "weight": 2},
    "ddp, tied, two micro batches": {**TIED, "weight": 2, "accumulate": 2},
    "ddp, fp32 weights, tied": TIED,
    "zero1, large vocabulary": {**LARGE, "weight": 2},
    "zero2, large vocabulary": {**LARGE, "weight": 2},
    "zero2, large vocabulary, two micro batches": {**LARGE, "weight": 2, "accumulate": 2},
    "zero2, large vocabulary, larger bucket": {**LARGE, "weight": 2, "tokens": 16, "bucket": 3_000_000},
    "zero3, large vocabulary": {**LARGE, "weight": 2, "tokens": 16},
    "zero1, tied": {**TIED, "weight": 2},
    "zero2, tied": {**TIED, "weight": 2},
    "zero3, tied": {**TIED, "weight": 2},
    "zero2, tied, two micro batches": {**TIED, "weight": 2, "accumulate": 2},
    "zero1, recomputed, small bucket": {"recompute": True, "bucket": 100_000},
    "zero1, optimizer on the host, small bucket": {**LARGE, "weight": 2, "tokens": 16, "offload": ["optimizer"]},
    "zero2, optimizer on the host, small bucket": {**LARGE, "weight": 2, "tokens": 16, "offload": ["optimizer"]},
    "zero3, optimizer on the host, large vocabulary": {**LARGE, "weight": 2, "tokens": 16, "offload": ["optimizer"]},
    "zero1, four ranks, large vocabulary": {**LARGE, "weight": 2, "tokens": 32, "ranks": 4},
    "zero2, four ranks, tied": {**TIED, "weight": 2, "ranks": 4},
}
REAL: tuple[str, ...] = ("ddp", "fsdp1", "fsdp2", "zero1", "zero2", "zero3")
REAL += (
    "fsdp1, autocast alone",
    "fsdp1, gradients sharded",
    "fsdp1, lora, mixed units",
    "fsdp1, large vocabulary",
    "fsdp2, units for embedding and head",
)
REAL += ("ddp, fp32 weights", "fsdp2, lora", "zero2, optimizer on the host", "zero3, optimizer on the host")
REAL += ("zero1, large vocabulary", "zero2, tied")
POOLED = [name for name in CASES if name.startswith("fsdp")]
# In the first step PEFT casts inputs to the type of the shards, and FSDP1 copies them in 16 bit, so it needs more than
# a later one; FSDP2's pools are largest in moments that do not have the most tensors.
APART = {
    "fsdp1, lora, own units": 0.04, "fsdp1, lora, own units, 16-bit base": 0.04,
    "fsdp1, lora, mixed units, two micro batches": 0.03, "fsdp1, large vocabulary, tied, two micro batches": 0.03,
    "fsdp2, large vocabulary": 0.05, "fsdp2, large vocabulary, two micro batches": 0.05,
    "fsdp2, large vocabulary, tied, two micro batches": 0.07, "fsdp2, four ranks": 0.03,
}  # fmt: skip
FULL = [name for name, case in CASES.items() if "rank" not in case and "offload" not in case]
AWAY = [name for name, case in CASES.items() if "offload" in case and "rank" not in case]
# Adapters are made whole and sharded with the optimizer; offloaded parameters leave the card then.
SHARDED_LATER = [name for name in CASES if name.startswith("zero3, lora")] + ["zero3, all on the host"]


def mark_cases(names: Iterable[str]) -> list[Any]:
    """Return the cases as parameters: one of each kind in the tier `real`, the others in `extended`."""
    return [pytest.param(name, marks=[pytest.mark.extended] if name not in REAL else []) for name in names]


def make_case(name: str) -> dict[str, Any]:
    """Return the input of count_ranks.py."""
    return {**PLAIN, **CASES[name], "kind": name.partition(",")[0]}


def list_group(name: str) -> tuple[str, ...]:
    """Return the cases that one start of the ranks counts: of the same tier, ranks and library."""

    def key(each: str) -> tuple[Any, ...]:
        return each in REAL, each.startswith("zero"), make_case(each)["ranks"]

    return tuple(each for each in CASES if key(each) == key(name))


Count = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def count(torch_environment: Path, deepspeed: Path, tmp_path_factory: pytest.TempPathFactory) -> Count:
    """Return the function that counts a case on the fullest rank, with its group."""

    def count_fullest(group: Sequence[str]) -> list[dict[str, Any]]:
        cases, folder = [make_case(name) for name in group], tmp_path_factory.mktemp("ranks")
        found = count_on_ranks(PROGRAM, (torch_environment, deepspeed), cases, folder, DS_ACCELERATOR="cpu")
        return [find_fullest(ranks) for ranks in found]

    return count_by_group(list_group, count_fullest)


def find_fullest(ranks: tuple[Any, ...]) -> Any:
    """Return the largest of each number in nested dictionaries of the same keys."""
    if isinstance(ranks[0], dict):
        return {key: find_fullest(tuple(rank[key] for rank in ranks)) for key in ranks[0]}
    return max(ranks)


def make_job(case: dict[str, Any]) -> PlannedJob:
    """Return the planner's job for the same step."""
    kind, bucket = case["kind"], case["bucket"]
    config = {**case["config"], "model_type": case["type"], "architectures": ["LlamaForCausalLM"]}
    zero = kind.startswith("zero")
    sized = replace(
        GENERIC,
        reduce=2 * bucket,
        bucket=2 * bucket,
        subgroup=case["subgroup"],
        gathered=case["live"],
        prefetch=case["prefetch"],
    )
    lean, wide = Precision(2, 2, 0, 4), Precision(4, 4, 0, 8)
    return PlannedJob(
        model=model_config.parse_model(config, "counted", "config.json"),
        framework=sized if zero else choose_units(case),
        device=A100, memory_gib=80, layout=ParallelLayout(cards=case["ranks"]),
        precision=Precision() if zero else wide if case["weight"] == 4 else lean,
        sharding={"ddp": "none", "fsdp1": "fsdp", "fsdp2": "fsdp"}.get(kind, kind),
        offload=frozenset(case["offload"]), recompute=Recompute("full" if case["recompute"] else "none"),
        seq_len=case["tokens"], micro_batch=case["batch"], grad_accum=case["accumulate"], meter="allocated",
        method="lora" if case["rank"] else "full", adapter=Adapter(case["rank"], case["targets"]),
    )  # fmt: skip


def choose_units(case: dict[str, Any]) -> Framework:
    """Return FSDP2 with the units of the case, or how the case uses FSDP1."""
    if case["kind"] == "fsdp2":
        return replace(FULLY_SHARD, edge_units=("full",)) if case.get("edges") else FULLY_SHARD
    mixed = case["kind"] == "fsdp1" and case["rank"] and not case["units"]
    if case.get("whole_weights"):
        return replace(INSIDE, keeps_weights=True)
    return CAST if case["cast"] else MIXED if mixed else INSIDE


def compare_phases(case: dict[str, Any], counted: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return (planned, counted) bytes of each phase: of the peak, and for loading of what stays.

    The plan has the backward pass of the loss in the phase of the loss.
    """
    found = list_phases(make_job(case), 0)[:4]
    planned, phases = {phase.name: phase.total for phase in found}, counted["phases"]
    if "logits and loss" in dict(found[1].terms):
        planned["backward"] = max(planned["backward"], planned["forward and loss"])
    # DeepSpeed's initialisation makes the optimizer's states as well: its model is loaded before.
    loaded = phases["model" if case["kind"].startswith("zero") else "load"]["end"]
    return {name: (size, loaded if name == "load" else phases[name]["peak"]) for name, size in planned.items()}


@pytest.mark.parametrize("name", mark_cases(CASES))
def test_phases(name: str, count: Count) -> None:
    """Load, forward and loss, backward and optimizer step are predicted within 2 %."""
    compared = compare_phases(make_case(name), count(name))
    print(name, *(f"{planned / counted - 1:+.1%}" for planned, counted in compared.values()), sep=" | ")

    for phase, (planned, counted) in list(compared.items())[name in SHARDED_LATER :]:
        assert planned == pytest.approx(counted, rel=MARGIN), phase


@pytest.mark.parametrize("name", mark_cases(POOLED))
def test_pools(name: str, count: Count) -> None:
    """What an allocator needs that has a pool for each stream is predicted within 2 %, in some cases 7 %."""
    planned = max(phase.total + phase.pooled for phase in list_phases(make_job(make_case(name)), 0)[1:4])
    print(name, f"{planned / count(name)['pools'] - 1:+.1%}", sep=" | ")

    assert planned == pytest.approx(count(name)["pools"], rel=APART.get(name, MARGIN))


@pytest.mark.parametrize("name", mark_cases(FULL))
def test_states(name: str, count: Count) -> None:
    """Moments and fp32 copies are predicted within 0.1 % on every rank's shard."""
    states, step = count(name)["states"], dict(list_phases(make_job(make_case(name)), 0)[3].terms)

    assert step["moments"] == pytest.approx(states["moments"], rel=0.001)
    assert step["master weights"] == pytest.approx(states.get("master weights", 0), rel=0.001)


@pytest.mark.parametrize("name", mark_cases(AWAY))
def test_host_memory(name: str, count: Count) -> None:
    """What DeepSpeed holds on the host for one rank is predicted within 2 %."""
    job = make_job(make_case(name))
    parts = build_stage_parts(job, 0)

    assert offloaded.offloaded_bytes(job, parts.states, parts.trained) == pytest.approx(count(name)["host"], rel=MARGIN)


@pytest.mark.parametrize("name", mark_cases(AWAY))
def test_pinned_blocks(name: str, count: Count) -> None:
    """With what torch rounds up when DeepSpeed pins, the host's share is predicted within 2 %."""
    job = make_job(make_case(name))
    parts = build_stage_parts(job, 0)
    asked = offloaded.offloaded_bytes(job, parts.states, parts.trained)
    surplus = pinned_blocks.pinned_surplus_bytes(job, parts.trained)
    print(name, f"{(asked + surplus) / count(name)['host blocks'] - 1:+.1%}", f"{surplus / asked:.0%}", sep=" | ")

    assert asked + surplus == pytest.approx(count(name)["host blocks"], rel=MARGIN)
