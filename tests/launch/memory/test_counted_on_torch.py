"""Compare real training steps of transformers' models, measured on the CPU, with the planner's terms.

They do not depend on the device.  count_torch.py measures in a separate environment; the plan uses only the config.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launch.catalogue import model_config
from launch.memory import activations, adapters
from launch.memory.planned_job import Adapter, PlannedJob, Precision, Recompute
from launch.memory.stage_parts import build_stage_parts
from tests.launch.planner.planner_helpers import A100, GENERIC
from tests.tiers import thin_out

ON_CPU = replace(GENERIC, kernels=replace(GENERIC.kernels, score_product=0.0))
ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parent / "count_torch.py"
TOKENS, BATCH = 256, 2
MARGIN = 0.005
# At the peak of the backward pass: the temporaries of a fused matrix's adapter, and of two branches, are not modelled.
WIDER = {"gpt-neox": 0.07, "phi": 0.03}

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
# A width of the MLP that is not the vocabulary's: tensors as wide as that are the loss's.
PARALLEL = {
    "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 1152, "vocab_size": 1000,
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
    "gpt-neox": ("gpt_neox", PARALLEL),
    "phi": ("phi", PARALLEL | {"num_key_value_heads": 8}),
}
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
LATENT_ATTENTION = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
# PEFT's all-linear differs between families of experts (Mixtral: one fused matrix of twice the rank, Qwen2-MoE: none):
# for these, adapters are on attention only.
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
# transformers caps Gemma 2's scores in its eager attention only, and supports no other for it.
# GPT-NeoX has no such matrices; the first MLP of Phi's parallel blocks then needs no gradient, which is not modelled.
LEFT_OUT = {(shape, "lora on queries and values") for shape in ("deepseek-v3", "gpt-neox", "phi")} | {
    ("gemma2", way) for way, asked in WAYS.items() if asked.get("attention") != "eager"
}
CASES = [(shape, way) for shape in SHAPES for way in WAYS if (shape, way) not in LEFT_OUT]
# Each shape and each way is among those of the gate.
each_case = pytest.mark.parametrize("one", thin_out(20, (pytest.param(one, id=" ".join(one)) for one in CASES)))


def make_case(shape: str, way: str) -> dict[str, Any]:
    """Return the input of count_torch.py."""
    kind, config = SHAPES[shape]
    plain = {
        "type": kind, "config": config, "rank": 0, "targets": TARGETS.get(shape, "all-linear"), "attention": "sdpa",
        "recompute": False, "batch": BATCH, "tokens": TOKENS,
    }  # fmt: skip
    return {**plain, **WAYS[way]}


@pytest.fixture(scope="module")
def counts(torch_environment: Path, request: pytest.FixtureRequest) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the bytes of every case that is tested, and its configuration as completed by transformers."""
    argv = [str(torch_environment / "bin" / "python"), str(PROGRAM)]
    mine = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    tested = {item.callspec.params["one"] for item in mine}
    cases = [one for one in CASES if one in tested]
    asked = json.dumps([make_case(*one) for one in cases])
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, input=asked, env=env, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return dict(zip(cases, json.loads(done.stdout), strict=True))


def make_job(asked: dict[str, Any], config: dict[str, Any]) -> PlannedJob:
    """Return the planner's job for the same step: bf16, fp32 adapters; a CPU makes no product of scores."""
    targets = "all-linear" if asked["targets"] == "all-linear" else "qv" if len(asked["targets"]) == 2 else "attn"
    return PlannedJob(
        model=model_config.parse_model(config, "counted", "config.json"), framework=ON_CPU, device=A100, memory_gib=80,
        precision=Precision(2, 2, 0, 4), recompute=Recompute("full" if asked["recompute"] else "none"),
        seq_len=TOKENS, micro_batch=BATCH, method="lora" if asked["rank"] else "full",
        adapter=Adapter(asked["rank"], targets), flash=asked["attention"] == "sdpa",
    )  # fmt: skip


def count_correction_bias(asked: PlannedJob) -> int:
    """Return the parameters of the checkpoint that transformers keeps as a buffer."""
    moe = asked.model.moe
    return moe.experts * (asked.model.layers - moe.first_dense) if moe and moe.router_bias else 0


def find_planned(
    one: tuple[str, str], counts: dict[tuple[str, str], dict[str, Any]]
) -> tuple[PlannedJob, dict[str, int]]:
    found = counts[one]
    return make_job(make_case(*one), found["config"]), found["bytes"]


def sum_kept(asked: PlannedJob) -> float:
    return sum(size for _, size in build_stage_parts(asked, 0).kept)


def sum_saved(asked: PlannedJob) -> float:
    """Return the bytes that go through autograd's hooks: not the arguments with which recompute calls a layer again."""
    again = asked.recompute.kind == "full"
    return sum_kept(asked) - (
        activations.causal_mask_bytes(asked) + activations.rotary_table_bytes(asked) if again else 0.0
    )


def sum_backward(asked: PlannedJob) -> float:
    return sum_kept(asked) + build_stage_parts(asked, 0).working + build_stage_parts(asked, 0).gradient


@each_case
def test_states(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Weights, gradients and moments equal the planner's to the byte, adapters to the parameter."""
    asked, bytes_of = find_planned(one, counts)
    states, bias = build_stage_parts(asked, 0).states, count_correction_bias(asked)
    trained = 8 if asked.trains_all else 2

    assert states.total - trained * bias == bytes_of["weights"] + bytes_of["gradients"] + bytes_of["moments"]
    if asked.trains_all:
        assert states.weights - 2 * bias == bytes_of["weights"]
        assert states.gradients - 2 * bias == bytes_of["gradients"]
    else:
        fused = adapters.has_fused_adapters(asked)
        counted = adapters.count_adapter_params(asked.model, asked.layout, asked.adapter, 0, fused)
        assert sum(counted) == bytes_of["learners"]


@each_case
def test_saved_activations(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Activations that autograd keeps, or the checkpoints of recompute, are predicted within 0.5 %."""
    asked, bytes_of = find_planned(one, counts)

    assert sum_saved(asked) == pytest.approx(bytes_of["activations"], rel=MARGIN)


@each_case
def test_backward_peak(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, Any]]) -> None:
    """The peak of the backward pass without states and loss is predicted within 0.5 %, of parallel blocks within 7 %.

    It includes the recomputed layer and the gradients of activations.
    """
    asked, bytes_of = find_planned(one, counts)

    assert sum_backward(asked) == pytest.approx(bytes_of["backward"], rel=WIDER.get(one[0], MARGIN))


@each_case
def test_loss(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, Any]]) -> None:
    """The peak of tensors as wide as the vocabulary (logits, log-softmax, gradients) is predicted within 0.5 %."""
    asked, bytes_of = find_planned(one, counts)

    assert build_stage_parts(asked, 0).loss == pytest.approx(bytes_of["loss"], rel=MARGIN)
