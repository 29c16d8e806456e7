"""What people type, and what it means: methods, sharding, offload, quantised bases, optimizers, LoRA targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from envcheck.core.errors import UsageError
from launch.catalogue.architecture import Model
from launch.catalogue.frameworks import Framework

FULL = ("full", "sft", "pt", "pretrain", "cpt")
PREFERENCE = ("dpo", "kto", "orpo", "simpo")
TUNERS = ("lora", "qlora", "dora")
# A tuner alone is SFT with it; a stage alone trains everything.
METHODS = (
    *FULL,
    *TUNERS,
    *PREFERENCE,
    *(f"{stage}-{tuner}" for stage in ("sft", "pt", "cpt", *PREFERENCE) for tuner in ("full", *TUNERS)),
)
PAIRS = ("dpo", "orpo", "simpo")  # chosen and rejected sample in one forward pass; KTO's samples stand alone
REFERENCED = ("dpo", "kto")  # a frozen copy beside; under adapters the base with adapters switched off

SHARDING = {
    "none": "none", "0": "none", "stage0": "none", "zero0": "none", "1": "zero1", "stage1": "zero1", "zero1": "zero1",
    "2": "zero2", "stage2": "zero2", "zero2": "zero2", "3": "zero3", "stage3": "zero3", "zero3": "zero3",
    "fsdp": "fsdp", "dist-opt": "dist_opt", "dist_opt": "dist_opt",
}  # fmt: skip
SAID = {"none": "none", "dist_opt": "stage1", "zero1": "stage1", "zero2": "stage2", "zero3": "stage3", "fsdp": "fsdp"}
OFFLOADS = ("none", "optimizer", "tensorwise", "params", "activations")
RECOMPUTES = ("full", "selective", "none")
QUANTS = {
    "nf4": "bnb-nf4", "nf4-dq": "bnb-nf4-dq", "int4": "gptq-int4", "int8": "gptq-int8", "wint4": "wint4",
    "wint8": "wint8", "wint4/8": "wint4/8", "fp8": "fp8", "fp4": "fp4", "bnb-int8": "bnb-int8", "bnb-nf4": "bnb-nf4",
    "bnb-nf4-dq": "bnb-nf4-dq", "gptq-int4": "gptq-int4", "gptq-int8": "gptq-int8", "awq-int4": "awq-int4",
    "hqq-int4": "hqq-int4",
}  # fmt: skip
OPTIMIZERS = (
    "adamw", "adam", "adamw8bit", "adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit", "paged_adamw", "adamw_torch",
    "adamw_torch_fused", "adamw_bf16", "adafactor", "lion", "muon", "sgd", "galore_adamw", "galore_adamw_8bit",
)  # fmt: skip
# What a checkpoint calls the matrices: Llama's names and those of the families that fuse them (PaddleFormers, Qwen,
# ChatGLM, InternLM2, GPT-NeoX, GPT-2, Phi-3, Baichuan).
MODULES = {
    "q_proj": "q", "wq": "q", "k_proj": "k", "wk": "k", "v_proj": "v", "wv": "v", "qkv_proj": "qkv", "W_pack": "qkv",
    "query_key_value": "qkv", "c_attn": "qkv", "wqkv": "qkv", "Wqkv": "qkv", "o_proj": "o", "wo": "o", "dense": "o",
    "gate_proj": "g", "w1": "g", "up_proj": "u", "w3": "u", "gate_up_proj": "gu", "up_gate_proj": "gu", "fc1": "u",
    "dense_h_to_4h": "gu", "c_fc": "u", "down_proj": "d", "w2": "d", "dense_4h_to_h": "d", "fc2": "d", "c_proj": "od",
}  # fmt: skip
LATENT = {"q_a_proj": "q", "q_b_proj": "q", "kv_a_proj_with_mqa": "kv", "kv_b_proj": "kv"}
SETS = {"qv": "qv", "qkv": "qkv", "attn": "qkvo", "mlp": "gud", "all-linear": "qkvogud"}
ALL = ("all-linear", "all", "all_linear", "linear")


def checked(name: str, value: str | None, legal: Mapping[str, Any] | Iterable[str]) -> str:
    """The value, or a sentence that names the legal ones."""
    if value is None or value in legal:
        return value or ""
    raise UsageError(f"--{name} {value} is not known", f"choose one of {', '.join(legal)}")


def sharding(said: str, f: Framework) -> str:
    """Our name; stage 1 of a framework with a distributed optimizer is that optimizer."""
    found = SHARDING[checked("sharding", said.lower(), SHARDING)]
    return "dist_opt" if found == "zero1" and "zero1" not in f.sharded and "dist_opt" in f.sharded else found


def offload(said: str | None) -> frozenset[str]:
    kinds = [part.strip() for part in (said or "none").replace(",", "+").split("+")]
    for kind in kinds:
        checked("offload", kind, OFFLOADS)
    return frozenset(kinds) - {"none"}


def legal_targets(model: Model) -> tuple[str, ...]:
    """Sets of modules, and single ones by the usual names, that a model of this shape has."""
    latent = [name for name in LATENT if name[0] == "k" or (model.mla and model.mla.q_rank)] if model.mla else []
    lacking = "kv" if model.mla else ""
    lacking += "q" if model.mla and model.mla.q_rank else ""
    lacking += "" if model.gated else "g"
    plain = [name for name, letters in MODULES.items() if not set(letters) & set(lacking) or letters == "gu"]
    return (*SETS, *plain, *latent)


def targets(said: str | None, model: Model) -> tuple[str, str]:
    """(set, note): the smallest set that holds all named modules; the note says where it holds more."""
    names = [name.strip() for name in (said or "all-linear").split(",") if name.strip()]
    if len(names) == 1 and (names[0] in SETS or names[0] in ALL):
        return ("all-linear" if names[0] in ALL else names[0]), ""
    legal = legal_targets(model)
    wrong = [name for name in names if name not in legal]
    if wrong or not names:
        raise UsageError(
            f"--lora-targets {', '.join(wrong) or said}: {model.name} has no such module",
            f"choose of {', '.join(legal)}",
        )
    letters = set("".join({**MODULES, **LATENT, **SETS}[name] for name in names)) - (
        {"g"} if not model.gated else set()
    )
    found = next(name for name, held in SETS.items() if letters <= set(held))
    exact = letters == set(SETS[found]) - ({"g"} if not model.gated else set())
    return found, "" if exact else f"adapters: {', '.join(names)} counted as {found}, which is a little more"


def base(said: str, f: Framework) -> str:
    """The quantised base by its short or full name, as the framework has it; unsaid its first."""
    checked("quant", said, ("", "none", *QUANTS))
    legal = [short for short, name in QUANTS.items() if name in f.quants]
    if not f.quants:
        raise UsageError(f"--quant {said or 'nf4'}: {f.name} trains on no quantised base", "use --method lora")
    same = {"int4": ("gptq-int4", "wint4"), "int8": ("gptq-int8", "wint8", "bnb-int8")}
    names = same.get(said) or ((QUANTS[said],) if said in QUANTS else ())
    found = next((name for name in names if name in f.quants), None) if said not in ("", "none") else f.quants[0]
    if not found:
        raise UsageError(f"--quant {said}: {f.name} does not have it", f"choose one of {', '.join(legal)}")
    return found
