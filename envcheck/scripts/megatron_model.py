"""The model that the options of Megatron-LM and MindSpeed-LLM describe, as fields of config.json.

Source: Megatron-LM's megatron/training/arguments.py, MindSpeed-LLM's arguments of MoE and latent attention.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from launch.catalogue.model_fields import Field

# Reads the value of an option: None if it is not given, "" for a flag or an unknown value.
OptionReader = Callable[[str], "str | None"]
REQUIRED = ("num_layers", "hidden_size", "num_attention_heads")
MAX_LAYERS = 10_000
VOCABULARY = ("padded_vocab_size", "vocab_size")
# Field of config.json → options with its value.
_NUMBERS: dict[str, tuple[str, ...]] = {
    "num_layers": ("num_layers",),
    "hidden_size": ("hidden_size",),
    "num_attention_heads": ("num_attention_heads",),
    "kv_channels": ("kv_channels",),
    "intermediate_size": ("ffn_hidden_size",),
    "vocab_size": VOCABULARY,
    "num_experts": ("num_experts",),
    "num_experts_per_tok": ("moe_router_topk",),
    "moe_intermediate_size": ("moe_ffn_hidden_size", "moe_intermediate_size"),
    "shared_intermediate_size": ("moe_shared_expert_intermediate_size",),
    "n_shared_experts": ("n_shared_experts",),
    "first_k_dense_replace": ("first_k_dense_replace",),
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


@dataclass(frozen=True)
class DescribedModel:
    """The model that options describe; no `fields` without its basic dimensions.

    `vocab_size` is missing if it is the tokenizer's.  `unreadable`: the option of a dimension that is given but cannot
    be read, `impossible`: the option that leaves no layer.
    """

    fields: Mapping[str, Field] = field(default_factory=dict)
    unreadable: str = ""
    impossible: str = ""


class _UnreadableOptionError(Exception):
    """An option of a dimension is given, but its value is not known."""


def read_model_options(read: OptionReader) -> DescribedModel:
    """Return the model that the options describe."""
    if any(read(name) is None for name in REQUIRED):
        return DescribedModel()
    try:
        fields = _read_fields(read)
    except _UnreadableOptionError as error:
        return DescribedModel(unreadable=str(error))
    if int(fields["num_layers"]) < 1:
        return DescribedModel(impossible="num_layers" if read("noop_layers") is None else "noop_layers")
    return DescribedModel(fields)


def _read_fields(read: OptionReader) -> dict[str, Field]:
    def is_given(*flags: str) -> bool:
        return any(read(flag) not in (None, "false", "False", "0") for flag in flags)

    fields = _read_numbers(_NUMBERS, read)
    count, without_effect = int(fields["num_layers"]), _read_noop_layers(read)
    if count > MAX_LAYERS:
        raise _UnreadableOptionError("num_layers")
    layers = [layer for layer in range(count) if layer not in without_effect]
    fields |= {"num_layers": len(layers), **_read_layer_kinds(count, layers, read)}
    if longest := _find_number("max_position_embeddings", read):
        fields["max_position_embeddings"] = longest
    gated, has_bias = is_given(*_GATED), not is_given("disable_bias_linear")
    if "intermediate_size" not in fields:
        fields["intermediate_size"] = _default_width(int(fields["hidden_size"]), gated)
    if is_given("group_query_attention"):
        fields["num_key_value_heads"] = _read_number(("num_query_groups",), read) or 1
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
    return {**fields, **{name: True for name, is_set in flags.items() if is_set}}


def _read_noop_layers(read: OptionReader) -> set[int]:
    """Return the layers without effect, a list of numbers; MindSpeed-LLM counts them in num_layers."""
    text = read("noop_layers")
    if text is not None and not re.fullmatch(r"\d{1,9}(,\d{1,9}){0,9999}", text):
        raise _UnreadableOptionError("noop_layers")
    return {int(number) for number in (text or "").split(",") if number}


def _read_layer_kinds(count: int, layers: list[int], read: OptionReader) -> dict[str, Field]:
    """Return which layers are mixtures: every n-th one, or an expression of lists like ([0]*3+[1]*57), 1 for a mixture.

    Layers without experts are counted as the first ones.
    """
    text = read("moe_layer_freq")
    if text is None:
        return {}
    if every := _find_number("moe_layer_freq", read):
        return {"moe_layer_freq": every}
    kinds = _evaluate_list(text)
    if len(kinds) != count:
        raise _UnreadableOptionError("moe_layer_freq")
    return {"first_k_dense_replace": sum(not kinds[layer] for layer in layers)}


def _evaluate_list(text: str) -> list[int]:
    """Return the value of an expression of lists of 0 and 1, their sums and multiples; [] for any other text."""
    try:
        return _evaluate_node(ast.parse(text[:MAX_LAYERS].strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _evaluate_node(node: ast.expr) -> list[int]:
    if isinstance(node, ast.List):
        found = [int(each.value == 1) for each in node.elts if isinstance(each, ast.Constant) and each.value in (0, 1)]
        if len(found) == len(node.elts):
            return found
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        both = [*_evaluate_node(node.left), *_evaluate_node(node.right)]
        if len(both) <= MAX_LAYERS:
            return both
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        parts, times = (node.right, node.left) if isinstance(node.left, ast.Constant) else (node.left, node.right)
        kinds = _evaluate_node(parts)
        if isinstance(times, ast.Constant) and type(times.value) is int and len(kinds) * times.value <= MAX_LAYERS:
            return kinds * times.value
    raise ValueError(ast.dump(node)[:80])


def _default_width(hidden: int, gated: bool) -> int:
    """Four times the hidden size; two thirds of it, in units of 64, for a gated MLP."""
    return int(4 * hidden * 2 / 3) // 64 * 64 if gated else 4 * hidden


def _read_numbers(options: Mapping[str, tuple[str, ...]], read: OptionReader) -> dict[str, Field]:
    found = {name: _read_number(names, read) for name, names in options.items()}
    return {name: number for name, number in found.items() if number is not None}


def _read_number(names: tuple[str, ...], read: OptionReader) -> int | None:
    """Return the number of the first option that is given, None if none is."""
    given = [name for name in names if read(name) is not None]
    numbers = (_find_number(name, read) for name in given)
    found = next((number for number in numbers if number is not None), None)
    if given and found is None:
        raise _UnreadableOptionError(given[0])
    return found


def _find_number(name: str, read: OptionReader) -> int | None:
    text = read(name) or ""
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None
