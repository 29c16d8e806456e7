"""Model families by the model_type of config.json: properties of their code that no field has.

Sources: configuration and modelling classes of transformers 4.x and 5.x and of PaddleFormers; the code in the weights'
repository for baichuan, chatglm, internlm2, minicpm and qwen.  A field of config.json overrides these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ModelFamily:
    """Properties of a family.

    `norm`: rmsnorm (also a layer norm without bias, which has as many parameters), layernorm, or none (no parameters).
    `ffn_parts`: number of matrices whose widths the field adds up.  `positions`: learned positions beyond
    max_positions, -1: none.  `embedding_rows`: further rows of the embedding (BLOOM's norm).  `defaults`: defaults of
    its configuration class.  `parallel`, `fused_qkv`: as in `Model`.
    """

    gated: bool = True
    norm: str = "rmsnorm"
    norms: int = 2
    tied: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    qk_norm: str = ""
    out_follows: bool = True  # attention_bias includes the output projection
    ffn_parts: int = 1
    positions: int = -1
    embedding_rows: int = 0
    sinks: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    fp32_scale: bool = False
    fp32_weights: bool = False  # the softmax of routing weights is not cast back to 16 bit (transformers 5)
    parallel: bool = False
    fused_qkv: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)


LLAMA = ModelFamily()
PLAIN: dict[str, Any] = {"gated": False, "norm": "layernorm"}
BIASES: dict[str, Any] = {"qkv_bias": True, "out_bias": True, "mlp_bias": True}
QWEN = ModelFamily(qkv_bias=True, out_follows=False)
GEMMA3 = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208}
WINDOWS = {"layer_types": ["sliding_attention", "full_attention"]}  # for files that do not list their layers
CHAINED = ("gelu_new", "gelu_fast")  # activations that transformers computes in single operations
PARTLY = {"partial_rotary_factor": 0.5}  # for files without it
PHI = {"hidden_act": "gelu_new", **PARTLY}
CAPS = {"final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0, **WINDOWS}
FAMILIES = {
    **dict.fromkeys(
        ("llama", "mistral", "baichuan", "internlm2", "phi3", "deepseek", "deepseek_v2", "ernie4_5",
         "mistral3", "ministral", "aquila", "orion", "seed_oss", "smollm3", "hunyuan", "xverse", "bitnet"), LLAMA
    ),
    **dict.fromkeys(("minicpm", "minicpm3", "granite", "granitemoe"), ModelFamily(tied=True)),
    **dict.fromkeys(("deepseek_v3", "deepseek_v32", "kimi_k2", "ernie4_5_moe"), ModelFamily(router_bias=True)),
    "mixtral": ModelFamily(fp32_weights=True),
    "qwen": ModelFamily(qkv_bias=True, out_follows=False, ffn_parts=2),
    **dict.fromkeys(("qwen2", "qwen2_moe", "chatglm"), QWEN),
    **dict.fromkeys(("qwen3", "qwen3_moe"), ModelFamily(qk_norm="head")),
    "glm": ModelFamily(qkv_bias=True, out_follows=False),
    "glm4": ModelFamily(qkv_bias=True, out_follows=False, norms=4),
    "glm4_moe": ModelFamily(qkv_bias=True, out_follows=False, router_bias=True),
    "gemma": ModelFamily(tied=True, fp32_scale=True),
    "gemma2": ModelFamily(tied=True, norms=4, fp32_scale=True, defaults=CAPS),
    "gemma3_text": ModelFamily(tied=True, norms=4, qk_norm="head", fp32_scale=True, defaults=GEMMA3),
    "llama4_text": LLAMA,
    "olmo": ModelFamily(norm="none"),
    **dict.fromkeys(("olmo2", "olmo3", "olmoe", "flex_olmo", "minimax_m2"), ModelFamily(qk_norm="all")),
    **dict.fromkeys(("exaone4", "exaone_moe", "hy_v3"), ModelFamily(qk_norm="head")),
    "cohere": ModelFamily(tied=True, norms=1),
    "cohere2": ModelFamily(tied=True, norms=1),
    **dict.fromkeys(("nemotron", "jais2"), ModelFamily(**PLAIN)),
    "arcee": ModelFamily(gated=False),
    "apertus": ModelFamily(gated=False, qk_norm="head"),
    "stablelm": ModelFamily(norm="layernorm"),
    "phimoe": ModelFamily(norm="layernorm"),
    "dbrx": LLAMA,
    "gpt2": ModelFamily(**PLAIN, **BIASES, tied=True, positions=0),
    "gpt_bigcode": ModelFamily(**PLAIN, **BIASES, tied=True, positions=0),
    "opt": ModelFamily(**PLAIN, **BIASES, tied=True, positions=2),
    "gpt_neox": ModelFamily(**PLAIN, **BIASES, parallel=True, fused_qkv=True, defaults=PARTLY),
    "gpt_neo": ModelFamily(**PLAIN, out_bias=True, mlp_bias=True, tied=True, positions=0),
    **dict.fromkeys(("gptj", "codegen"), ModelFamily(**PLAIN, mlp_bias=True, norms=1, head_bias=True)),
    "bloom": ModelFamily(**PLAIN, **BIASES, tied=True, embedding_rows=2),
    "phi": ModelFamily(**PLAIN, **BIASES, norms=1, head_bias=True, parallel=True, defaults=PHI),
    "falcon": ModelFamily(**PLAIN, tied=True, norms=1),
    "mpt": ModelFamily(gated=False, tied=True),
    "starcoder2": ModelFamily(**PLAIN, **BIASES, tied=True),
    "gpt_oss": ModelFamily(qkv_bias=True, out_bias=True, sinks=True, router_bias=True, expert_bias=True),
}  # fmt: skip
# model_type of a model that contains such a language model, or a newer name of the same code.
ALIASES = {
    "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2", "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe",
    "gemma3": "gemma3_text",
    "llama4": "llama4_text", "ernie4_5_moe_vl": "ernie4_5_moe", "ernie4_5_vl_moe": "ernie4_5_moe", "glm4v": "glm4",
    "glm4v_moe": "glm4_moe", "internvl_chat": "internlm2", "llava": "llama",
}  # fmt: skip


def resolve_family_name(text: Mapping[str, Any]) -> str:
    """Return the name of the family, without suffixes for text or vision."""
    name = str(text.get("model_type") or "").lower()
    bare = name.removesuffix("_text")
    return next((k for k in (name, ALIASES.get(name), bare, ALIASES.get(bare)) if k in FAMILIES), name)


def find_family(text: Mapping[str, Any]) -> ModelFamily:
    """Return the family of a configuration, a guess for an unknown type."""
    return FAMILIES.get(resolve_family_name(text)) or guess_family(text)


# Activations of ungated MLPs in transformers 5, except BitNet; gated ones use gelu_pytorch_tanh (Gemma) or silu.
UNGATED = ("relu", "relu2", "relu_squared", "xielu", "gelu", "gelu_new", "gelu_fast", "quick_gelu")


def guess_family(text: Mapping[str, Any]) -> ModelFamily:
    """Return a family for an unknown type: like Llama, with MLP and norm by the activation and the epsilon's name."""
    gated = str(text.get("hidden_act") or text.get("activation_function") or "silu") not in UNGATED
    layer_norm = any(key in text for key in ("layer_norm_eps", "layer_norm_epsilon")) and "rms_norm_eps" not in text
    return ModelFamily(gated=gated, norm="layernorm" if layer_norm else "rmsnorm")
