"""Values of the options: methods, sharding, offload, quantised base models, optimizers, LoRA targets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.messages import NOTHING, Message, _, join
from launch.catalogue.architecture import Model
from launch.catalogue.frameworks import Framework
from launch.memory.planned_job import PlannedJob

FULL = ("full", "sft", "pt", "pretrain", "cpt")
PREFERENCE = ("dpo", "kto", "orpo", "simpo")
TUNERS = ("lora", "qlora", "dora")
ADAPTER_RANK = 32  # of adapters without a given rank, as in the LoRA configurations of ERNIEKit
# A tuner alone is SFT with that tuner; a stage alone trains the full model.
METHODS = (
    *FULL,
    *TUNERS,
    *PREFERENCE,
    *(f"{stage}-{tuner}" for stage in ("sft", "pt", "cpt", *PREFERENCE) for tuner in ("full", *TUNERS)),
)
PAIRS = ("dpo", "orpo", "simpo")  # chosen and rejected sample in one forward pass; KTO has no pairs
REFERENCED = ("dpo", "kto")  # with a frozen copy of the model; with adapters, the base model with adapters disabled

SHARDING = {
    "none": "none", "0": "none", "stage0": "none", "zero0": "none", "1": "zero1", "stage1": "zero1", "zero1": "zero1",
    "2": "zero2", "stage2": "zero2", "zero2": "zero2", "3": "zero3", "stage3": "zero3", "zero3": "zero3",
    "fsdp": "fsdp", "dist-opt": "dist_opt", "dist_opt": "dist_opt",
}  # fmt: skip
SHARDING_NAMES = {
    "none": "none",
    "dist_opt": "stage1",
    "zero1": "stage1",
    "zero2": "stage2",
    "zero3": "stage3",
    "fsdp": "fsdp",
}
OFFLOADS = ("none", "optimizer", "tensorwise", "params", "activations")
RECOMPUTES = ("full", "selective", "none")
QUANTS = {
    "nf4": "bnb-nf4", "nf4-dq": "bnb-nf4-dq", "int4": "gptq-int4", "int8": "gptq-int8", "wint4": "wint4",
    "wint8": "wint8", "wint4/8": "wint4/8", "fp8": "fp8", "fp4": "fp4", "bnb-int8": "bnb-int8", "bnb-nf4": "bnb-nf4",
    "bnb-nf4-dq": "bnb-nf4-dq", "gptq-int4": "gptq-int4", "gptq-int8": "gptq-int8", "awq-int4": "awq-int4",
    "hqq-int4": "hqq-int4",
}  # fmt: skip
OPTIMIZERS = (
    "adamw", "adam", "adamw4bit", "adamw8bit", "adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit", "paged_adamw",
    "adamw_torch", "adamw_torch_fused", "adamw_bf16", "adafactor", "lion", "muon", "sgd", "galore_adamw",
    "galore_adamw_8bit",
)  # fmt: skip
# Names of the matrices in checkpoints: Llama's, and those of families that fuse them (PaddleFormers, Qwen, ChatGLM,
# InternLM2, GPT-NeoX, GPT-2, Phi-3, Baichuan).
MODULES = {
    "q_proj": "q", "wq": "q", "k_proj": "k", "wk": "k", "v_proj": "v", "wv": "v", "qkv_proj": "qkv", "W_pack": "qkv",
    "query_key_value": "qkv", "c_attn": "qkv", "wqkv": "qkv", "Wqkv": "qkv", "o_proj": "o", "wo": "o", "dense": "o",
    "gate_proj": "g", "w1": "g", "up_proj": "u", "w3": "u", "gate_up_proj": "gu", "up_gate_proj": "gu", "fc1": "u",
    "dense_h_to_4h": "gu", "c_fc": "u", "down_proj": "d", "w2": "d", "dense_4h_to_h": "d", "fc2": "d", "c_proj": "od",
}  # fmt: skip
LATENT = {"q_a_proj": "q", "q_b_proj": "q", "kv_a_proj_with_mqa": "kv", "kv_b_proj": "kv"}
SETS = {"qv": "qv", "qkv": "qkv", "attn": "qkvo", "mlp": "gud", "all-linear": "qkvogud"}
ALL = ("all-linear", "all", "all_linear", "linear")


def check_choice(name: str, value: str | None, legal: Mapping[str, Any] | Iterable[str]) -> str:
    """Return the legal spelling of the value, "" for None; raise UsageError with the legal values."""
    if value is None:
        return ""
    matched = suggestions.match_name(value, legal)
    if matched is not None:
        return matched
    named = [name for name in legal if name]
    next_step = suggestions.suggest(value, named, more=_("choose one of {legal}", legal=join(", ", named)))
    raise UsageError(_("unknown --{name} {value}", name=name, value=value), next_step)


def parse_sharding(value: str, f: Framework) -> str:
    """Return the internal name of a --sharding value; stage 1 is "dist_opt" if the framework has only that."""
    found = SHARDING[check_choice("sharding", value.lower(), SHARDING)]
    return "dist_opt" if found == "zero1" and "zero1" not in f.sharded and "dist_opt" in f.sharded else found


def parse_stage(method: str) -> str:
    """Return the stage of a --method value: dpo, pt, ...; "" for supervised fine-tuning."""
    stage = method.partition("-")[0]
    return stage if stage in (*PREFERENCE, "pt", "cpt") else ""


def is_same_method(one: str, other: str) -> bool:
    """Whether two --method values are the same training: lora and sft-lora, full and sft."""
    stages = [parse_stage(method) for method in (one, other)]
    tuners = [found if (found := method.rpartition("-")[2]) in TUNERS else "full" for method in (one, other)]
    return stages[0] == stages[1] and tuners[0] == tuners[1]


@dataclass(frozen=True)
class OffloadParts:
    """Parts that are moved to the host: the share of the optimizer, and the layers of activations (0: all)."""

    kinds: frozenset[str]
    share: float = 1.0
    layers: int = 0


def parse_offload(value: str | None) -> OffloadParts:
    """Return the parts in a --offload value, separated by + or commas; UsageError for an unknown one.

    A number after a colon limits a part: optimizer:0.5 (Megatron's optimizer-offload-fraction), activations:8 (its
    cpu-offloading-num-layers).
    """
    kinds, share, layers = set[str](), 1.0, 0
    for part in (value or "none").replace(",", "+").split("+"):
        word, colon, number = part.partition(":")
        kind = check_choice("offload", word, OFFLOADS)
        if colon and kind == "optimizer" and re.fullmatch(r"(0?\.0*[1-9]\d*|1(\.0*)?)", number):
            share = float(number)
        elif colon and kind == "activations" and re.fullmatch(r"[1-9]\d{0,4}", number):
            layers = int(number)
        elif colon:
            raise UsageError(
                _("--offload {part}: invalid number", part=part),
                _("use a share of the optimizer, as optimizer:0.5, or a number of layers, as activations:8"),
            )
        if kind in kinds:
            words = _("--offload {value}: {kind} is given twice", value=value, kind=kind)
            raise UsageError(words, _("remove one of them"))
        kinds.add(kind)
    return OffloadParts(frozenset(kinds - {"none"}), share, layers)


def format_offload(job: PlannedJob) -> str:
    """Return the value of --offload for the job."""
    limits = {"optimizer": (job.offload_share, 1.0), "activations": (job.offload_layers, 0)}
    words = ((kind, *limits.get(kind, (0, 0))) for kind in sorted(job.offload))
    return "+".join(kind if number == whole else f"{kind}:{number:g}" for kind, number, whole in words)


def list_legal_targets(model: Model) -> tuple[str, ...]:
    """Return the valid --lora-targets of a model: sets of modules, and single modules that it has."""
    latent = [name for name in LATENT if name[0] == "k" or (model.mla and model.mla.q_rank)] if model.mla else []
    lacking = "kv" if model.mla else ""
    lacking += "q" if model.mla and model.mla.q_rank else ""
    lacking += "" if model.gated else "g"
    plain = [name for name, letters in MODULES.items() if not set(letters) & set(lacking) or letters == "gu"]
    return (*SETS, *plain, *latent)


def parse_targets(value: str | None, model: Model) -> tuple[str, Message]:
    """Return the smallest set with all named modules, and a note if it has more.

    Raises UsageError for a module that the model does not have.
    """
    names = [name.strip() for name in (value or "all-linear").split(",") if name.strip()]
    if len(names) == 1 and (names[0] in SETS or names[0] in ALL):
        return ("all-linear" if names[0] in ALL else names[0]), NOTHING
    legal = list_legal_targets(model)
    wrong = [name for name in names if name not in legal]
    if wrong or not names:
        raise UsageError(
            _("--lora-targets {wrong}: {name} has no such module", wrong=join(", ", wrong) or value, name=model.name),
            _("choose from {legal}", legal=join(", ", legal)),
        )
    letters = set("".join({**MODULES, **LATENT, **SETS}[name] for name in names)) - (
        {"g"} if not model.gated else set()
    )
    found = next(name for name, held in SETS.items() if letters <= set(held))
    exact = letters == set(SETS[found]) - ({"g"} if not model.gated else set())
    if exact:
        return found, NOTHING
    return found, _(
        "adapters: {names} estimated as {found}, slightly more than needed", names=join(", ", names), found=found
    )


def parse_quantised_base(value: str, f: Framework) -> str:
    """Return the full name of a --quant value in this framework; for "" or "none" the framework's first.

    Raises UsageError if the framework does not support it.
    """
    value = check_choice("quant", value, ("", "none", *QUANTS))
    legal = [short for short, name in QUANTS.items() if name in f.quants]
    if not f.quants:
        raise UsageError(
            _("--quant {said}: {name} cannot train on a quantised base model", said=value or "nf4", name=f.name),
            _("use --method lora"),
        )
    same = {"int4": ("gptq-int4", "wint4"), "int8": ("gptq-int8", "wint8", "bnb-int8")}
    names = same.get(value) or ((QUANTS[value],) if value in QUANTS else ())
    found = next((name for name in names if name in f.quants), None) if value not in ("", "none") else f.quants[0]
    if not found:
        raise UsageError(
            _("--quant {said}: not supported by {name}", said=value, name=f.name),
            _("choose one of {legal}", legal=join(", ", legal)),
        )
    return found
