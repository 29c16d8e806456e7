"""Real training steps of transformers' models, counted on the CPU, against the planner's terms: they do not depend on
the device.  tests/launch/memory/count_torch.py counts in an environment of its own; what is planned comes from
the config alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from launch.catalogue import configs
from launch.memory import activations, adapters
from launch.memory.job import Adapter, PlannedJob, Precision, Recompute
from launch.memory.parts import parts
from tests.launch.planner.planner_helpers import A100, GENERIC

PROGRAM = Path(__file__).parent / "count_torch.py"
TOKENS, BATCH = 256, 2
MARGIN = 0.005

DENSE = {
    "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32,
    "intermediate_size": 704, "vocab_size": 1024,
}  # fmt: skip
EXPERTS = {
    "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 192, "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}  # fmt: skip
LATENT = {
    "num_key_value_heads": 8, "head_dim": 16, "q_lora_rank": 96, "kv_lora_rank": 64,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 16,
    "v_head_dim": 32, "n_routed_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 128,
    "n_shared_experts": 2, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0,
}  # fmt: skip
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", DENSE),
    "llama with a key head for each query": ("llama", DENSE | {"num_key_value_heads": 8}),
    "qwen2, tied": ("qwen2", DENSE | {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "qwen3": ("qwen3", DENSE),
    "mistral": ("mistral", DENSE | {"num_key_value_heads": 2, "sliding_window": None}),
    "mixtral": ("mixtral", DENSE | {"num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 384}),
    "qwen3-moe": ("qwen3_moe", DENSE | EXPERTS),
    "qwen2-moe": ("qwen2_moe", DENSE | EXPERTS | {"shared_expert_intermediate_size": 384}),
    "deepseek-v3": ("deepseek_v3", DENSE | LATENT),
    "gemma2": ("gemma2", DENSE),
}
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
LATENT_ATTENTION = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
# PEFT's all-linear means something else for each family of experts (Mixtral's as one fused matrix of twice the rank,
# Qwen2-MoE's not at all): there adapters stand on attention.
TARGETS = {"mixtral": ATTENTION, "qwen3-moe": ATTENTION, "qwen2-moe": ATTENTION, "deepseek-v3": LATENT_ATTENTION}

WAYS: dict[str, dict[str, Any]] = {
    "full": {},
    "full, recomputed": {"recompute": True},
    "full, eager attention": {"attention": "eager"},
    "full, eager attention, recomputed": {"attention": "eager", "recompute": True},
    "lora": {"rank": 8},
    "lora on queries and values": {"rank": 8, "targets": ["q_proj", "v_proj"]},
    "lora, eager attention": {"rank": 8, "attention": "eager"},
    "lora, recomputed": {"rank": 8, "recompute": True},
    "lora, eager attention, recomputed": {"rank": 8, "attention": "eager", "recompute": True},
}
# transformers caps Gemma 2's scores in its eager attention alone, and offers it no other.
LEFT_OUT = {("deepseek-v3", "lora on queries and values")} | {
    ("gemma2", way) for way, asked in WAYS.items() if asked.get("attention") != "eager"
}
CASES = [(shape, way) for shape in SHAPES for way in WAYS if (shape, way) not in LEFT_OUT]


def case(shape: str, way: str) -> dict[str, Any]:
    """What count_torch.py is asked."""
    kind, config = SHAPES[shape]
    plain = {
        "type": kind, "config": config, "rank": 0, "targets": TARGETS.get(shape, "all-linear"), "attention": "sdpa",
        "recompute": False, "batch": BATCH, "tokens": TOKENS,
    }  # fmt: skip
    return {**plain, **WAYS[way]}


@pytest.fixture(scope="module")
def counts(torch_environment: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Every case's configuration, as transformers completes it, and bytes."""
    argv = [str(torch_environment / "bin" / "python"), str(PROGRAM)]
    asked = json.dumps([case(*one) for one in CASES])
    done = subprocess.run(argv, input=asked, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


def job(asked: dict[str, Any], config: dict[str, Any]) -> PlannedJob:
    """The planner's question for the same step: bf16 throughout, fp32 adapters."""
    targets = "all-linear" if asked["targets"] == "all-linear" else "qv" if len(asked["targets"]) == 2 else "attn"
    return PlannedJob(
        model=configs.parse(config, "counted", "config.json"), framework=GENERIC, device=A100, memory_gib=80,
        precision=Precision(2, 2, 0, 4), recompute=Recompute("full" if asked["recompute"] else "none"),
        seq_len=TOKENS, micro_batch=BATCH, method="lora" if asked["rank"] else "full",
        adapter=Adapter(asked["rank"], targets), flash=asked["attention"] == "sdpa",
    )  # fmt: skip


def correction_bias(asked: PlannedJob) -> int:
    """Parameters that the planner counts as the checkpoint's, and transformers keeps as a buffer."""
    moe = asked.model.moe
    return moe.experts * (asked.model.layers - moe.first_dense) if moe and moe.router_bias else 0


def planned(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, Any]]) -> tuple[PlannedJob, dict[str, int]]:
    found = counts[one]
    return job(case(*one), found["config"]), found["bytes"]


def kept(asked: PlannedJob) -> float:
    return sum(size for _, size in parts(asked, 0).kept)


def saved(asked: PlannedJob) -> float:
    """What goes through autograd's hooks: arguments that recompute calls a layer with again do not."""
    again = asked.recompute.kind == "full"
    return kept(asked) - (activations.masks(asked) + activations.positions(asked) if again else 0.0)


def backward(asked: PlannedJob) -> float:
    return kept(asked) + parts(asked, 0).working + parts(asked, 0).gradient


@pytest.mark.parametrize("one", CASES, ids=" ".join)
def test_states(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Weights, gradients and moments are the planner's to the byte, adapters to the parameter."""
    asked, bytes_of = planned(one, counts)
    states, bias = parts(asked, 0).states, correction_bias(asked)
    trained = 8 if asked.trains_all else 2

    assert states.total - trained * bias == bytes_of["weights"] + bytes_of["gradients"] + bytes_of["moments"]
    if asked.trains_all:
        assert states.weights - 2 * bias == bytes_of["weights"]
        assert states.gradients - 2 * bias == bytes_of["gradients"]
    else:
        assert sum(adapters.adapters(asked.model, asked.layout, asked.adapter, 0)) == bytes_of["learners"]


@pytest.mark.parametrize("one", CASES, ids=" ".join)
def test_saved_activations(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, Any]]) -> None:
    """What autograd keeps for the backward pass, or the checkpoints that are kept instead, within 0.5 %."""
    asked, bytes_of = planned(one, counts)

    assert saved(asked) == pytest.approx(bytes_of["activations"], rel=MARGIN)


@pytest.mark.parametrize("one", CASES, ids=" ".join)
def test_backward_peak(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, Any]]) -> None:
    """The most that lives at once in the backward pass beside states and loss: the recomputed layer's working set and
    the gradients of what is differentiated are among it, within 0.5 %."""
    asked, bytes_of = planned(one, counts)

    assert backward(asked) == pytest.approx(bytes_of["backward"], rel=MARGIN)


@pytest.mark.parametrize("one", CASES, ids=" ".join)
def test_loss(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Logits, log-softmax and their gradients: the most that lives at once of tensors as wide as the vocabulary, within
    0.5 %."""
    asked, bytes_of = planned(one, counts)

    assert parts(asked, 0).loss == pytest.approx(bytes_of["loss"], rel=MARGIN)
