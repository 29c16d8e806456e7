"""A table of configurations, each row as a job.  The answers of a row are never read; docs/planner.md lists columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envcheck.core.errors import UsageError
from launch.catalogue import devices, frameworks
from launch.catalogue.frameworks import Framework
from launch.memory.job import Adapter, Layout, PlannedJob, Precision, Recompute
from launch.memory.states import moments
from launch.planner import shapes

Row = Mapping[str, str]

# A layout whose card count is not told: release tests of Megatron run on clusters (megatron-golden-014: 64).
ASSUMED_CARDS = 64
# Long data truncated at n fills n up to 2048 tokens; beyond, fewer samples are that long and the longest grows like
# n^0.63 (fitted: swift-bench at 4096 and 8192 tokens).
FILLED, FILL_POWER = 2048, 0.63

# Share by which activations may be off under a framework whose name says nothing.
UNKNOWN_SPREAD = 0.3

# Words of methods that leave the base frozen.
ADAPTED = ("lora", "dora", "bone", "lisa", "llamapro", "ia3", "prefix", "prompt", "p-tun", "ptun", "adapter", "freeze")

# Words of which a method and a way of sharding have at least one.
METHODS = ("full", "sft", "pt", "pretrain", "dpo", "kto", "orpo", "simpo", "cpo", "rm", "reward", "ppo", "grpo", "rlhf",
           "distill", "galore", *ADAPTED)  # fmt: skip
SHARDINGS = ("none", "no", "0", "ddp", "dp", "dist", "stage", "zero", "fsdp", "hsdp", "tp", "pp", "ep")

BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0}
LONGEST_UNKNOWN = ("cap", "short_data")
VARYING = (*LONGEST_UNKNOWN, "truncated_long_data", "longest_sample")


def number(row: Row, key: str, default: float = 0.0) -> float:
    """The column as a number; empty is `default`."""
    text = (row.get(key) or "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e15:
        raise UsageError(f"row {row.get('id', '?')}: {key} is {text!r}", f"{key} is a number, or empty")
    return value


def whole(row: Row, key: str, default: int = 0) -> int:
    return int(number(row, key, default))


def flag(row: Row, key: str) -> bool:
    return (row.get(key) or "").strip().lower() in ("1", "1.0", "true", "yes")


def framework(row: Row) -> Framework:
    """By name; else by what the row uses: tensor or pipeline parallel means a Megatron kind, the rest a trainer."""
    found = frameworks.find(row.get("framework") or "")
    if found:
        return second(found) if "fsdp2" in (row.get("sharding") or "").lower() else found
    way = (row.get("sharding") or "").lower()
    parallel = whole(row, "tp", 1) * whole(row, "pp", 1) * whole(row, "ep", 1) > 1 or way.startswith("dist")
    like = frameworks.frameworks()["paddle" if "paddle" in way else "megatron" if parallel else "generic"]
    return replace(like, spread=UNKNOWN_SPREAD)


def second(f: Framework) -> Framework:
    """With PyTorch's second FSDP, which has neither the first one's hooks on inputs nor its no_sync: accelerate looks
    for that by name, and reduces after every micro batch."""
    return replace(f, watches_inputs=False, accumulates_whole=False)


def layout(row: Row) -> Layout:
    tp, pp, cp = (max(1, whole(row, key, 1)) for key in ("tp", "pp", "cp"))
    cards = whole(row, "cards") or tp * pp * cp * (whole(row, "dp") or (ASSUMED_CARDS // (tp * pp * cp) or 1))
    if not whole(row, "cards") and tp * pp * cp == 1:
        cards = whole(row, "dp", 1)
    split = (row.get("device_map") or "").startswith("naive_layer_split")
    if split:
        pp = max(1, cards // (2 if row["device_map"].endswith("x2") else 1))
    etp = whole(row, "etp") or None
    return Layout(tp, pp, max(1, whole(row, "vpp", 1)), max(1, whole(row, "ep", 1)), etp, cp, cards, split)


def precision(row: Row, f: Framework) -> Precision:
    """Bytes per parameter; what a row leaves open is the framework's habit."""
    dtype = (row.get("weight_dtype") or "").strip()
    weight = BYTES.get(dtype, f.weight)
    master = {"1": 4.0, "0": 0.0}.get((row.get("master_weights") or "").strip(), f.master)
    if dtype == "fp16" and master:
        master = f.half_master
    if weight == 4.0:
        master = 0.0
    gradient = BYTES.get((row.get("grad_dtype") or "").strip(), 4.0 if weight == 4.0 else f.gradient)
    if weight == 1.0:
        gradient = min(gradient, 2.0)  # fp8 weights (ERNIE's FP8 recipe on 16 cards): 16-bit gradients
    return Precision(weight, gradient, master, moments(row.get("optimizer") or "adamw", weight, master))


def sharding(row: Row) -> str:
    """none, dist_opt, zero1, zero2, zero3 or fsdp."""
    text = (row.get("sharding") or "none").lower()
    if "fsdp" in text or "hsdp" in text:
        return "zero2" if "grad" in text else "fsdp"
    stage = re.search(r"(?:zero|stage)-?_?([0-3])", text)
    if not stage:
        return "dist_opt" if "dist" in text else "none"
    found = ("none", "zero1", "zero2", "zero3")[int(stage[1])]
    return "dist_opt" if found == "zero1" and "paddle" in text else found


def offload(row: Row) -> tuple[frozenset[str], float]:
    """(kinds, share of the optimizer): optimizer(tensorwise), optimizer(swap), optimizer:0.5, params, activations."""
    kinds, share = set[str](), 1.0
    for part in re.split(r"[+,]", (row.get("offload") or "none").lower()):
        if "tensorwise" in part or "swap" in part:
            kinds.add("tensorwise")
        elif "optim" in part:
            kinds.add("optimizer")
            share = float(m[1]) if (m := re.search(r":(\d*\.?\d+)", part)) else 1.0
        elif "param" in part or "activation" in part:
            kinds.add("params" if "param" in part else "activations")
    return frozenset(kinds), share


def recompute(row: Row) -> Recompute:
    kind, _, count = (row.get("recompute") or "none").strip().lower().partition(":")
    layers = int(count) if count.isdigit() else 0
    return Recompute(kind if kind in ("full", "none", "block") else "selective", layers)


def length(row: Row) -> int:
    """The longest sample."""
    said = max(1, whole(row, "seq_len", 2048))
    if row.get("seq_kind") == "truncated_long_data" and said > FILLED:
        return int(FILLED * (said / FILLED) ** FILL_POWER + 0.5)
    return said


def meter(row: Row) -> str:
    text = (row.get("metric") or "").lower()
    if "reserved" in text:
        return "reserved"
    return "allocated" if "alloc" in text or "active" in text else "smi"


def trained(row: Row) -> dict[str, Any]:
    """Method, adapters, quantised base, and what preference training adds."""
    method = (row.get("method") or "full").lower()
    adapters = any(word in method for word in ADAPTED)
    quant = (row.get("quant") or "").strip() or ("bnb-nf4" if "qlora" in method else "")
    pairs = method.startswith(("dpo", "simpo", "orpo", "cpo", "rm")) and not flag(row, "packing")
    saved = tuple(filter(None, (row.get("modules_to_save") or "").split("+")))
    return {
        "method": "lora" if adapters else "full",
        "pairs": pairs,
        "reference": method.startswith(("dpo-full", "kto-full", "ppo", "grpo-full")),
        "quant": quant if adapters else "",
        "adapter": Adapter(whole(row, "lora_rank", 8), row.get("lora_targets") or "all-linear", saved),
    }


def job(row: Row) -> PlannedJob:
    """The whole row."""
    f = framework(row)
    kind = row.get("seq_kind") or ""
    device = devices.find(row.get("device") or "")
    away, share = offload(row)
    model, laid = shapes.of_row(row), layout(row)
    if laid.pp > model.layers:
        raise UsageError(f"row {row.get('id', '?')}: pp is {laid.pp}", f"{model.name} has {model.layers} layers")
    return PlannedJob(
        model=model,
        framework=f,
        device=device,
        memory_gib=number(row, "device_mem_gib", device.memory_gib) or device.memory_gib,
        layout=laid,
        precision=precision(row, f),
        sharding=sharding(row),
        offload=away,
        offload_share=share,
        recompute=recompute(row),
        seq_len=length(row),
        varying_lengths=kind in VARYING,
        length_known=kind not in LONGEST_UNKNOWN,
        micro_batch=max(1, whole(row, "micro_batch", 1)),
        grad_accum=whole(row, "grad_accum") or None,
        flash=(row.get("flash_attn") or "1").strip() != "0",
        half=row.get("weight_dtype") == "fp16",
        fused_loss=flag(row, "fused_ce"),
        sequence_parallel=flag(row, "seq_parallel"),
        dropout=number(row, "dropout"),
        compiled=flag(row, "compile"),
        optimizer=row.get("optimizer") or "adamw",
        expandable=flag(row, "expandable_segments"),
        meter=meter(row),
        last_rank="last rank" in (row.get("rank_reported") or ""),
        first_iteration=(row.get("reading_phase") or "") == "after first iteration",
        **trained(row),
    )
