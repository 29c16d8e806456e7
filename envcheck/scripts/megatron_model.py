"""The model that the options of Megatron-LM and MindSpeed-LLM describe, as fields of config.json.

Source: Megatron-LM's megatron/training/arguments.py, MindSpeed-LLM's arguments of MoE and latent attention.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from launch.catalogue.model_fields import Field

# Reads the value of an option: None if it is not given, "" for a flag or an unknown value.
OptionReader = Callable[[str], "str | None"]
REQUIRED = ("num_layers", "hidden_size", "num_attention_heads")
VOCABULARY = ("padded_vocab_size", "vocab_size")
# Field of config.json → options with its value.
_NUMBERS: dict[str, tuple[str, ...]] = {
    "num_layers": ("num_layers",),
    "hidden_size": ("hidden_size",),
    "num_attention_heads": ("num_attention_heads",),
    "kv_channels": ("kv_channels",),
    "intermediate_size": ("ffn_hidden_size",),
    "vocab_size": VOCABULARY,
    "max_position_embeddings": ("max_position_embeddings",),
    "num_experts": ("num_experts",),
    "num_experts_per_tok": ("moe_router_topk",),
    "moe_intermediate_size": ("moe_ffn_hidden_size", "moe_intermediate_size"),
    "shared_intermediate_size": ("moe_shared_expert_intermediate_size",),
    "n_shared_experts": ("n_shared_experts",),
    "first_k_dense_replace": ("first_k_dense_replace",),
    "moe_layer_freq": ("moe_layer_freq",),
    "mtp_num_layers": ("mtp_num_layers",),
}
_GATED = ("swiglu", "gated_linear_unit", "geglu", "gelu_tanh")  # the last two are MindSpeed-LLM's
_LATENT: dict[str, tuple[str, ...]] = {
    "q_lora_rank": ("q_lora_rank",),
    "kv_lora_rank": ("kv_lora_rank",),
    "qk_nope_head_dim": ("qk_head_dim", "qk_nope_head_dim"),
    "qk_rope_head_dim": ("qk_pos_emb_head_dim", "qk_rope_head_dim"),
    "v_head_dim": ("v_head_dim",),
}


def read_model_fields(read: OptionReader) -> dict[str, Field]:
    """Return the fields of the model, {} without its basic dimensions; `vocab_size` is missing if it is the
    tokenizer's."""

    def is_given(*flags: str) -> bool:
        return any(read(flag) not in (None, "false", "False", "0") for flag in flags)

    fields = _read_numbers(_NUMBERS, read)
    if not fields.keys() >= {*REQUIRED}:
        return {}
    fields["num_layers"] = int(fields["num_layers"]) - len(re.findall(r"\d+", read("noop_layers") or ""))
    gated, has_bias = is_given(*_GATED), not is_given("disable_bias_linear")
    if "intermediate_size" not in fields:
        fields["intermediate_size"] = _default_width(int(fields["hidden_size"]), gated)
    if is_given("group_query_attention") and (groups := _read_number("num_query_groups", read)):
        fields["num_key_value_heads"] = groups
    if is_given("multi_latent_attention", "multi_head_latent_attention"):
        fields |= _read_numbers(_LATENT, read)
    fields["hidden_act"] = "silu" if gated else "gelu"
    if (read("normalization") or "LayerNorm").lower() == "layernorm":
        fields["layer_norm_epsilon"] = "1e-5"
    flags = {
        "attention_out_bias": has_bias,
        "add_qkv_bias": has_bias or is_given("add_qkv_bias"),
        "mlp_bias": has_bias,
        "qk_layernorm": is_given("qk_layernorm"),
        "tie_word_embeddings": not is_given("untie_embeddings_and_output_weights"),
    }
    return {**fields, **{field: True for field, is_set in flags.items() if is_set}}


def _default_width(hidden: int, gated: bool) -> int:
    """Four times the hidden size; two thirds of it, in units of 64, for a gated MLP."""
    return int(4 * hidden * 2 / 3) // 64 * 64 if gated else 4 * hidden


def _read_numbers(options: dict[str, tuple[str, ...]], read: OptionReader) -> dict[str, Field]:
    found = {
        field: next(filter(None, (_read_number(name, read) for name in names)), 0) for field, names in options.items()
    }
    return {field: number for field, number in found.items() if number}


def _read_number(name: str, read: OptionReader) -> int:
    text = read(name) or ""
    return int(text) if re.fullmatch(r"\d{1,9}", text) else 0
