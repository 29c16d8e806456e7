"""Compare real training steps of decoders of paddle's layers, measured on the CPU, with the planner's terms for Paddle.

count_paddle.py measures in the environment of tiny-cpu, paddle_models.py has the models.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launch.catalogue import frameworks
from launch.catalogue.architecture import Model
from launch.memory import activations, adapters
from launch.memory.planned_job import Adapter, ParallelLayout, PlannedJob, Precision, Recompute
from launch.memory.stage_parts import build_stage_parts
from tests.launch.planner.planner_helpers import A100

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parent / "count_paddle.py"
MARGIN = 0.005

SHAPES: dict[str, dict[str, Any]] = {
    "qwen2's": {"layers": 4, "hidden": 128, "heads": 8, "kv_heads": 2, "head_dim": 16, "ffn": 352, "vocab": 512,
                "tied": True, "bias": True, "batch": 2, "tokens": 128},
    "llama's": {"layers": 3, "hidden": 192, "heads": 6, "kv_heads": 6, "head_dim": 32, "ffn": 512, "vocab": 1024,
                "tied": False, "bias": False, "batch": 1, "tokens": 192},
    "ernie-4.5's": {"layers": 2, "hidden": 160, "heads": 10, "kv_heads": 2, "head_dim": 32, "ffn": 448, "vocab": 768,
                    "tied": True, "bias": False, "batch": 4, "tokens": 96},
}  # fmt: skip
WAYS: dict[str, dict[str, Any]] = {
    "full": {},
    "full, recomputed": {"recompute": True},
    "full, fused swiglu": {"swiglu": True},
    "lora": {"rank": 8},
    "lora, recomputed": {"rank": 8, "recompute": True},
    "lora, fused swiglu": {"rank": 8, "swiglu": True},
}
CASES = [(shape, way) for shape in SHAPES for way in WAYS]


def make_case(shape: str, way: str) -> dict[str, Any]:
    """Return the input of count_paddle.py."""
    return {"rank": 0, "recompute": False, "swiglu": False, **SHAPES[shape], **WAYS[way]}


@pytest.fixture(scope="module")
def counts(paddle_environment: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Return the bytes of every case."""
    argv = [str(paddle_environment / "bin" / "python"), str(PROGRAM)]
    asked = json.dumps([make_case(*one) for one in CASES])
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, input=asked, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


def make_job(one: tuple[str, str]) -> PlannedJob:
    """Return the planner's job for the same step: bf16, unfused except as in the case."""
    asked = make_case(*one)
    names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "tied")
    plain = frameworks.load_frameworks()["paddle-plain"]
    fused = replace(plain, kernels=replace(plain.kernels, mlp_keep=4.0))  # gate and up only
    return PlannedJob(
        model=Model("counted", **{name: asked[name] for name in names}, qkv_bias=asked["bias"]),
        framework=fused if asked["swiglu"] else plain, device=A100, memory_gib=80, precision=Precision(2, 2, 0, 4),
        recompute=Recompute("full" if asked["recompute"] else "none"), seq_len=asked["tokens"],
        micro_batch=asked["batch"], method="lora" if asked["rank"] else "full", adapter=Adapter(asked["rank"]),
        flash=False,
    )  # fmt: skip


@pytest.mark.parametrize("one", CASES, ids=" ".join)
def test_states(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, float]]) -> None:
    """Weights, gradients and moments equal the planner's to the byte, adapters to the parameter."""
    asked, bytes_of = make_job(one), counts[one]
    states = build_stage_parts(asked, 0).states
    learners = sum(adapters.count_adapter_params(asked.model, ParallelLayout(), asked.adapter, 0, fused=True))

    if asked.trains_all:
        assert (states.weights, states.gradients, states.moments) == (
            bytes_of["weights"],
            bytes_of["gradients"],
            bytes_of["moments"],
        )
    else:
        assert learners == bytes_of["learners"] == bytes_of["gradients"] / 2 == bytes_of["moments"] / 4
        assert states.weights == bytes_of["weights"] - 2 * learners


@pytest.mark.parametrize("one", CASES, ids=" ".join)
def test_saved_activations(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, float]]) -> None:
    """The allocator's bytes after the forward pass, or the checkpoints of recompute, are predicted within 0.5 %."""
    asked = make_job(one)
    kept = sum(size for _, size in build_stage_parts(asked, 0).kept)

    assert kept == pytest.approx(counts[one]["activations"], rel=MARGIN)


@pytest.mark.parametrize("one", CASES, ids=" ".join)
def test_two_meters(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, float]]) -> None:
    """The allocator holds exactly what autograd's hooks record, and the output."""
    asked = make_job(one)
    output = 2 * asked.model.hidden * asked.tokens

    assert counts[one]["hooks"] + output == pytest.approx(counts[one]["activations"], rel=MARGIN)


@pytest.mark.parametrize("one", CASES, ids=" ".join)
def test_loss(one: tuple[str, str], counts: dict[tuple[str, str], dict[str, float]]) -> None:
    """The peak of head and loss (logits, their wide copy and the softmax) is predicted within 0.5 %."""
    asked = make_job(one)

    assert build_stage_parts(asked, 0).loss == pytest.approx(counts[one]["loss"], rel=MARGIN)


@pytest.mark.parametrize("shape", SHAPES)
def test_frozen_products_keep_their_inputs(shape: str, counts: dict[tuple[str, str], dict[str, float]]) -> None:
    """Paddle keeps the inputs of frozen products; without that term the prediction would be off by over 5 %."""
    asked = make_job((shape, "lora"))
    forgetful = replace(asked.framework, kernels=replace(asked.kernels, frozen_inputs=False))
    kept = sum(size for _, size in build_stage_parts(replace(asked, framework=forgetful), 0).kept)

    assert activations.keeps_inputs(asked)
    assert kept < 0.95 * counts[shape, "lora"]["activations"]
