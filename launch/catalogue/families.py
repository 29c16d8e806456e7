"""Families of models by the model_type of their config.json: what their code does that no field tells.

Sources: the configuration and modelling classes of transformers 4.x and 5.x and of PaddleFormers; the code beside the
weights for those with their own (baichuan, chatglm, internlm2, minicpm, qwen).  A field of config.json wins over these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Family:
    """`norm` is rmsnorm (also a layer norm without bias: as many parameters), layernorm, or none (no parameters);
    `ffn_parts`: the field counts so many matrices' widths; `positions`: learned ones beyond max_positions, -1: none;
    `embedding_rows`: rows of h beside the embedding (BLOOM's norm); `bias`: qkv, out, mlp; `defaults`: of its class."""

    gated: bool = True
    norm: str = "rmsnorm"
    norms: int = 2
    tied: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    qk_norm: str = ""
    out_follows: bool = True  # attention_bias means the output projection, too
    ffn_parts: int = 1
    positions: int = -1
    embedding_rows: int = 0
    sinks: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    fp32_scale: bool = False
    fp32_weights: bool = False  # routing weights are a softmax that is not cast back (transformers 5)
    defaults: Mapping[str, Any] = field(default_factory=dict)


LLAMA = Family()
PLAIN: dict[str, Any] = {"gated": False, "norm": "layernorm"}
BIASES: dict[str, Any] = {"qkv_bias": True, "out_bias": True, "mlp_bias": True}
QWEN = Family(qkv_bias=True, out_follows=False)
GEMMA3 = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208}
WINDOWS = {"layer_types": ["sliding_attention", "full_attention"]}  # kinds, where a file does not list its layers
CAPS = {"final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0, **WINDOWS}
FAMILIES = {
    **dict.fromkeys(
        ("llama", "mistral", "baichuan", "internlm2", "phi3", "deepseek", "deepseek_v2", "ernie4_5",
         "mistral3", "ministral", "aquila", "orion", "seed_oss", "smollm3", "hunyuan", "xverse", "bitnet"), LLAMA
    ),
    **dict.fromkeys(("minicpm", "minicpm3", "granite", "granitemoe"), Family(tied=True)),
    **dict.fromkeys(("deepseek_v3", "kimi_k2", "ernie4_5_moe"), Family(router_bias=True)),
    "mixtral": Family(fp32_weights=True),
    "qwen": Family(qkv_bias=True, out_follows=False, ffn_parts=2),
    **dict.fromkeys(("qwen2", "qwen2_moe", "chatglm"), QWEN),
    **dict.fromkeys(("qwen3", "qwen3_moe"), Family(qk_norm="head")),
    "glm": Family(qkv_bias=True, out_follows=False),
    "glm4": Family(qkv_bias=True, out_follows=False, norms=4),
    "glm4_moe": Family(qkv_bias=True, out_follows=False, router_bias=True),
    "gemma": Family(tied=True, fp32_scale=True),
    "gemma2": Family(tied=True, norms=4, fp32_scale=True, defaults=CAPS),
    "gemma3_text": Family(tied=True, norms=4, qk_norm="head", fp32_scale=True, defaults=GEMMA3),
    "llama4_text": LLAMA,
    "olmo": Family(norm="none"),
    **dict.fromkeys(("olmo2", "olmo3", "olmoe", "flex_olmo", "minimax_m2"), Family(qk_norm="all")),
    **dict.fromkeys(("exaone4", "exaone_moe", "hy_v3"), Family(qk_norm="head")),
    "cohere": Family(tied=True, norms=1),
    "cohere2": Family(tied=True, norms=1),
    **dict.fromkeys(("nemotron", "jais2"), Family(**PLAIN)),
    "arcee": Family(gated=False),
    "apertus": Family(gated=False, qk_norm="head"),
    "stablelm": Family(norm="layernorm"),
    "phimoe": Family(norm="layernorm"),
    "dbrx": LLAMA,
    "gpt2": Family(**PLAIN, **BIASES, tied=True, positions=0),
    "gpt_bigcode": Family(**PLAIN, **BIASES, tied=True, positions=0),
    "opt": Family(**PLAIN, **BIASES, tied=True, positions=2),
    "gpt_neox": Family(**PLAIN, **BIASES),
    "gpt_neo": Family(**PLAIN, out_bias=True, mlp_bias=True, tied=True, positions=0),
    **dict.fromkeys(("gptj", "codegen"), Family(**PLAIN, mlp_bias=True, norms=1, head_bias=True)),
    "bloom": Family(**PLAIN, **BIASES, tied=True, embedding_rows=2),
    "phi": Family(**PLAIN, **BIASES, norms=1, head_bias=True),
    "falcon": Family(**PLAIN, tied=True, norms=1),
    "mpt": Family(gated=False, tied=True),
    "starcoder2": Family(**PLAIN, **BIASES, tied=True),
    "gpt_oss": Family(qkv_bias=True, out_bias=True, sinks=True, router_bias=True, expert_bias=True),
}  # fmt: skip
# A language model inside another type, or a later name of the same code.
SAME = {
    "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2", "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe",
    "gemma3": "gemma3_text",
    "llama4": "llama4_text", "ernie4_5_moe_vl": "ernie4_5_moe", "ernie4_5_vl_moe": "ernie4_5_moe", "glm4v": "glm4",
    "glm4v_moe": "glm4_moe", "internvl_chat": "internlm2", "llava": "llama",
}  # fmt: skip


def kind_of(text: Mapping[str, Any]) -> str:
    """The family's name, what says text or vision left off."""
    name = str(text.get("model_type") or "").lower()
    bare = name.removesuffix("_text")
    return next((k for k in (name, SAME.get(name), bare, SAME.get(bare)) if k in FAMILIES), name)


def family(text: Mapping[str, Any]) -> Family:
    return FAMILIES.get(kind_of(text)) or guessed(text)


# Activations that decoders of transformers 5 do not gate, but for BitNet: Gemma's is gelu_pytorch_tanh, the rest silu.
UNGATED = ("relu", "relu2", "relu_squared", "xielu", "gelu", "gelu_new", "gelu_fast", "quick_gelu")


def guessed(text: Mapping[str, Any]) -> Family:
    """Of an unknown type: two matrices in an MLP or three by its activation, the kind of norm by the name of its
    epsilon; the rest as Llama has it."""
    gated = str(text.get("hidden_act") or text.get("activation_function") or "silu") not in UNGATED
    layer_norm = any(key in text for key in ("layer_norm_eps", "layer_norm_epsilon")) and "rms_norm_eps" not in text
    return Family(gated=gated, norm="layernorm" if layer_norm else "rmsnorm")
