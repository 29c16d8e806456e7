"""Compare a real training step of the bundled program, measured in paddle, with the planner's terms."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from launch.catalogue import devices, frameworks
from launch.catalogue.architecture import Model, Moe
from launch.memory import adapters, parameter_shares, states
from launch.memory.planned_job import Adapter, ParallelLayout, PlannedJob, Precision
from launch.memory.stage_parts import build_stage_parts

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("count_tiny.py")
FP32 = Precision(weight=4, gradient=4, master=0, moments=8, compute=4)
# The program computes every expert for every token, so all are active.
TINY = Model("tiny", layers=3, hidden=96, heads=6, kv_heads=2, head_dim=16, ffn=192, vocab=256,
             moe=Moe(experts=4, active=4, ffn=64, shared_ffn=96, first_dense=1))  # fmt: skip
WIDER = Model("wider", layers=4, hidden=160, heads=5, kv_heads=1, head_dim=32, ffn=448, vocab=512,
              moe=Moe(experts=6, active=6, ffn=96, shared_ffn=128, first_dense=1))  # fmt: skip
CASES = [(model, method, tokens) for model, tokens in ((TINY, 64), (WIDER, 96)) for method in ("full", "lora")]
IDS = [f"{model.name}, {method}" for model, method, _ in CASES]

# Kernels of launch/programs/tiny_model.py in 16-bit units (it computes in fp32, which doubles them).  A norm
# keeps its input, the normalised copy and its result; the rotation the two halves of queries and keys; the softmax its
# result; a mixture the result of each expert (they share one input), and per expert the mask, the chosen weight, the
# normalised weight and its slice.
PADDLE = frameworks.load_frameworks()["paddle"]
WRITTEN = replace(
    PADDLE.kernels, norm_in=2.0, norm_copy=2.0, norm_out=2.0, rotated=2.0, score=2.0, expert_copies=2.0, choice=8.0
)


def make_case(model: Model, method: str, tokens: int) -> dict[str, object]:
    """Return the input of count_tiny.py, with the program's own names."""
    assert model.moe
    return {
        "method": method, "batch": 2, "tokens": tokens, "vocabulary": model.vocab, "hidden": model.hidden,
        "layers": model.layers, "heads": model.heads, "key_value_heads": model.kv_heads, "dense": model.ffn,
        "expert": model.moe.ffn, "shared": model.moe.shared_ffn, "experts": model.moe.experts,
    }  # fmt: skip


@pytest.fixture(scope="module")
def counts(paddle_environment: Path) -> list[dict[str, float]]:
    """Return the bytes of one step of each case, and its number of adapter parameters."""
    argv = [str(paddle_environment / "bin" / "python"), str(PROGRAM)]
    cases = json.dumps([make_case(*one) for one in CASES])
    path = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "launch" / "programs")))}
    done = subprocess.run(argv, input=cases, env=path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, float]] = json.loads(done.stdout)
    return found


def make_job(model: Model, method: str, tokens: int = 64) -> PlannedJob:
    """Return the planner's job; with adapters the program also trains embedding, head and norms."""
    return PlannedJob(
        model=model, framework=replace(PADDLE, kernels=WRITTEN, fused_adapters=False),
        device=devices.load_devices()[-1], memory_gib=8, precision=FP32, method=method,
        adapter=Adapter(8, saved=("embed", "head")), seq_len=tokens,
        micro_batch=2, flash=False,
    )  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)), ids=IDS)
def test_states(case: int, counts: list[dict[str, float]]) -> None:
    """Weights and moments of full training equal the planner's to the byte, gradients within 1 %.

    The number of adapter parameters on all linear layers, experts included, is equal.
    """
    model, method, _ = CASES[case]
    planned = states.full_training_states(
        make_job(model, "full"), parameter_shares.compute_parameter_share(model, ParallelLayout(), 0)
    )

    if method == "full":
        assert planned.weights == counts[case]["weights"]
        assert planned.moments == counts[case]["moments"]
        assert planned.gradients == pytest.approx(counts[case]["gradients"], rel=0.01)
    else:
        assert sum(adapters.count_adapter_params(model, ParallelLayout(), Adapter(8), 0)) == counts[case]["adapters"]


@pytest.mark.parametrize("case", range(len(CASES)), ids=IDS)
def test_saved_activations(case: int, counts: list[dict[str, float]]) -> None:
    """The allocator's bytes between forward and backward pass, without logits, are predicted within 1 %."""
    kept = sum(size for _, size in build_stage_parts(make_job(*CASES[case]), 0).kept)

    assert kept == pytest.approx(counts[case]["activations"], rel=0.01)


@pytest.mark.parametrize("case", range(len(CASES)), ids=IDS)
def test_two_meters(case: int, counts: list[dict[str, float]]) -> None:
    """Autograd's hooks record the same bytes as the allocator, within 1 %."""
    assert counts[case]["hooks"] == pytest.approx(counts[case]["activations"], rel=0.01)
