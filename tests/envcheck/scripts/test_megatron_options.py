"""What Megatron's options mean beyond the model: precision, recomputation, chunks of a pipeline stage, and mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from envcheck.core.lint.own_job import OwnJob, ValueState
from envcheck.scripts.jobs.own_job_reader import read_file_job
from launch.memory.planned_job import PlannedJob
from launch.planner import machines, verdict
from launch.planner.resolve import build_planned_job

SCRIPT = """\
#!/bin/bash
torchrun --nproc_per_node 8 pretrain_gpt.py --train-iters 9 --global-batch-size 16 --micro-batch-size 1 \\
  --seq-length 4096 --num-layers 28 --hidden-size 3584 --ffn-hidden-size 18944 --num-attention-heads 28 \\
  --group-query-attention --num-query-groups 4 --swiglu --untie-embeddings-and-output-weights \\
  --padded-vocab-size 152064 --normalization RMSNorm --disable-bias-linear --tensor-model-parallel-size 4 \\
  --pipeline-model-parallel-size 2 --use-distributed-optimizer """
BF16 = SCRIPT + "--bf16 "
Read = Callable[[str], OwnJob]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return the job of a script with this text."""

    def read_text(text: str) -> OwnJob:
        (tmp_path / "run.sh").write_text(text + "\n")
        return read_file_job(str(tmp_path / "run.sh"), (), {})

    return read_text


def plan_own(own: OwnJob) -> PlannedJob:
    """Return the planned job on eight cards of 80 GiB."""
    machine = machines.build_described_machine("nvidia", 8, 80)
    return build_planned_job(machine, own.model, own.method, {**own.plan, "framework": own.framework})


def sum_term(job: PlannedJob, name: str) -> float:
    """Return the bytes of a term in the backward pass of the first stage."""
    return next(
        dict(p.terms).get(name, 0.0) for p in verdict.evaluate_job(job).phases if (p.name, p.stage) == ("backward", 0)
    )


def test_the_default_is_fp32(read: Read) -> None:
    """Without --bf16 and --fp16 the precision is Megatron's default: states of 4 + 4 + 8 bytes, activations twice."""
    own, usual = read(SCRIPT), plan_own(read(BF16))
    found, job = own.find_value("precision"), plan_own(own)

    assert found is not None
    assert (found.value, found.state, found.option) == ("fp32", ValueState.ASSUMED, "bf16")
    assert sum_term(job, "weights") == 2 * sum_term(usual, "weights")
    assert sum_term(job, "activations") == pytest.approx(2 * sum_term(usual, "activations"))
    assert sum_term(job, "gradients") == sum_term(usual, "gradients")
    assert (sum_term(job, "master weights"), sum_term(job, "moments")) == (0.0, sum_term(usual, "moments"))


def test_no_reading_is_in_fp32(read: Read) -> None:
    """The bounds of fp32 are wider than those of 16 bit, and include a score matrix: the kernel may not take fp32."""
    plans = [verdict.evaluate_job(plan_own(read(text))) for text in (SCRIPT, BF16)]
    widths = [plan.interval[1] / plan.interval[0] for plan in plans]
    plain = verdict.find_peak(plan_own(read(SCRIPT + "--fp16")))

    assert widths[0] > widths[1]
    assert plans[0].high > plans[0].deciding.total * 1.2 > plain
    assert [bool(plan.job.framework.flash_doubtful) for plan in plans] == [True, False]


def test_fp16_keeps_a_copy_of_the_gradient(read: Read) -> None:
    """Under fp16 Megatron has another 4 bytes for each parameter of the shard."""
    half, usual = plan_own(read(SCRIPT + "--fp16")), plan_own(read(BF16))

    assert sum_term(half, "master weights") == 2 * sum_term(usual, "master weights")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ("--recompute-activations", "selective"),
        ("--recompute-granularity full --recompute-method uniform", "full"),
        ("--recompute-granularity selective", "selective"),
        ("", "none"),
    ],
)
def test_kinds_of_recomputation(options: str, kind: str, read: Read) -> None:
    """--recompute-activations is another name of selective recomputation."""
    assert read(BF16 + options).plan["recompute"] == kind


@pytest.mark.parametrize(
    ("options", "chunks"),
    [
        ("--num-layers-per-virtual-pipeline-stage 7", 2),
        ("--num-layers-per-virtual-pipeline-stage 14", None),
        ("--num-virtual-stages-per-pipeline-rank 7", 7),
        ("--num-layers-per-virtual-pipeline-stage 7 --noop-layers 26,27", None),
        ("", None),
    ],
)
def test_chunks_of_a_stage(options: str, chunks: int | None, read: Read) -> None:
    """The layers of a chunk, or the number of chunks, give the planner's --vpp."""
    own = read(BF16 + options)

    assert own.plan.get("vpp") == chunks
    assert own.list_invalid() == ()


MISTAKES = (
    ("--recompute-granularity bogus", "recompute", "recompute_granularity bogus: expected full or selective"),
    ("--num-layers-per-virtual-pipeline-stage 5", "vpp", "stage 5 does not divide the 14 layers"),
    ("--hidden-size 3585", "model", "hidden_size 3585 is not divisible by num_attention_heads 28"),
)


@pytest.mark.parametrize(("options", "name", "words"), MISTAKES)
def test_values_that_megatron_rejects(options: str, name: str, words: str, read: Read) -> None:
    """A value that Megatron's own checks reject is invalid, with its place, and no job is planned with it."""
    own = read(f"{BF16}\\\n  {options}")
    named = own.find_value(name)

    assert named is not None and named.is_invalid
    assert words in named.where and "run.sh:7: " in named.where
    assert [value.name for value in own.values].count(name) == 1


@pytest.mark.parametrize("options", ["--hidden-size 3585 --kv-channels 128", "--hidden-size 3585 $MORE"])
def test_a_given_width_of_heads(options: str, read: Read) -> None:
    """With a width of heads, or with options that are unknown, the hidden size need not be a multiple."""
    assert read(BF16 + options).list_invalid() == ()
