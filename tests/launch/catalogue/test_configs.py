"""Models from config.json: parameter counts of published models from their configurations."""

from __future__ import annotations

from typing import Any

import pytest

from launch.catalogue import model_config, models

LLAMA = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
         "intermediate_size": 11008, "vocab_size": 32000, "max_position_embeddings": 4096}  # fmt: skip
CASES: list[tuple[str, dict[str, Any]]] = [
    ("llama-2-7b", LLAMA),
    ("mistral-7b-v0.1", LLAMA | {"model_type": "mistral", "num_key_value_heads": 8, "intermediate_size": 14336,
                                 "sliding_window": 4096}),
    ("qwen2.5-0.5b", {"model_type": "qwen2", "num_hidden_layers": 24, "hidden_size": 896, "num_attention_heads": 14,
                      "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936,
                      "tie_word_embeddings": True}),
    ("qwen3-8b", {"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
                  "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936}),
    ("mixtral-8x7b", LLAMA | {"model_type": "mixtral", "num_key_value_heads": 8, "intermediate_size": 14336,
                              "num_local_experts": 8, "num_experts_per_tok": 2}),
    ("deepseek-v3", {"model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168,
                     "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
                     "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
                     "num_experts_per_tok": 8, "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512,
                     "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
                     "num_nextn_predict_layers": 1}),
    ("deepseek-v3.2", {"model_type": "deepseek_v32", "num_hidden_layers": 61, "hidden_size": 7168,
                       "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
                       "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
                       "num_experts_per_tok": 8, "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512,
                       "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
                       "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048}),
    ("ernie-4.5-0.3b", {"model_type": "ernie4_5", "num_hidden_layers": 18, "hidden_size": 1024,
                        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128,
                        "intermediate_size": 3072, "vocab_size": 103424, "tie_word_embeddings": True}),
    ("ernie-4.5-21b-a3b", {"model_type": "ernie4_5_moe", "num_hidden_layers": 28, "hidden_size": 2560,
                           "num_attention_heads": 20, "num_key_value_heads": 4, "intermediate_size": 12288,
                           "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536,
                           "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "vocab_size": 103424,
                           "tie_word_embeddings": True}),
    ("gemma-2-9b", {"model_type": "gemma2", "num_hidden_layers": 42, "hidden_size": 3584, "num_attention_heads": 16,
                    "num_key_value_heads": 8, "head_dim": 256, "intermediate_size": 14336, "vocab_size": 256000}),
    ("gpt2-medium", {"model_type": "gpt2", "n_layer": 24, "n_embd": 1024, "n_head": 16, "vocab_size": 50304,
                     "n_positions": 1024}),
    ("gpt-oss-20b", {"model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64,
                     "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088,
                     "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128,
                     "attention_bias": True}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data"), CASES, ids=[name for name, _ in CASES])
def test_counts_from_a_configuration(name: str, data: dict[str, Any]) -> None:
    """A config.json has the same parameter count as the model in the catalogue."""
    assert model_config.parse_model(data, name, "config.json").params == models.load_model(name).params


def test_text_tower_of_a_vision_model() -> None:
    """The language model inside a vision configuration is read, and the parameters of the tower are counted."""
    data = {"model_type": "some_vl", "text_config": LLAMA, "vision_config": {"depth": 32, "embed_dim": 1280}}
    model = model_config.parse_model(data, "vl", "config.json")

    assert model.layers == 32
    assert model.vision_params == 32 * (12 * 1280**2 + 13 * 1280)


def test_multi_token_prediction_is_read_and_not_counted() -> None:
    """The published count excludes these layers; training needs them."""
    model = model_config.parse_model(dict(CASES)["deepseek-v3"], "v3", "config.json")

    assert model.mtp_layers == 1
    assert model.params == 671_026_419_200


def test_unknown_types_are_assumptions() -> None:
    """An unknown type is planned like Llama, and that is listed."""
    assert model_config.list_assumptions({"model_type": "frob"})
    assert not model_config.list_assumptions({"model_type": "llama"})
