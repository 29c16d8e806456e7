"""Options that Megatron-LM and MindSpeed-LLM reject: each mistake alone, and the same script without it."""

from __future__ import annotations

import pytest

from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.lint import linter
from envcheck.scripts import source_file

HEAD = "#!/bin/bash\nNL=${NL:-27}\ntorchrun --nproc_per_node 8 pretrain_gpt.py --num-attention-heads 28 --bf16 "
SHAPE = "--num-layers 28 --hidden-size 3584 --pipeline-model-parallel-size 2 "
FAIL, WARN = Status.FAIL, Status.WARN


def lint_options(options: str, program: str = "pretrain_gpt.py") -> dict[str, Status]:
    """Return rules and severities of the remarks about values and degrees."""
    text = HEAD.replace("pretrain_gpt.py", program) + SHAPE + options + "\n"
    found = linter.lint_source(source_file.make_source("run.sh", text.encode()), TargetMachine(), others=False)
    return {each.rule: each.severity for each in found.remarks if each.rule in ("options.value", "training.shape")}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {}),
        ("--use-distributed-optimizer", {}),
        ("--use-distributed-optimizer False", {"options.value": FAIL}),
        ("--sequence-parallel=true", {"options.value": FAIL}),
        ("--recompute-granularity selective", {}),
        ("--recompute-granularity bogus", {"options.value": FAIL}),
        ("--recompute-granularity $KIND", {}),
        ("--hidden-size 3585", {"training.shape": FAIL}),
        ("--hidden-size 3585 --kv-channels 128", {}),
        ("--hidden-size 3585 $MORE", {}),
        ("--hidden-size 3585 --use-checkpoint-args", {}),
        ("--num-layers 27", {"training.shape": FAIL}),
        ("--num-layers $NL", {"training.shape": WARN}),
        ("--num-layers 27 --decoder-first-pipeline-num-layers 13", {}),
        ("--num-layers 27 --num-layer-list 14,13", {}),
        ("--num-layers-per-virtual-pipeline-stage 7", {}),
        ("--num-layers-per-virtual-pipeline-stage 5", {"training.shape": FAIL}),
    ],
)
def test_what_megatron_rejects(options: str, expected: dict[str, Status]) -> None:
    """A mistake that ends the program at once fails; options that settle it otherwise, or may, get no failure."""
    assert lint_options(options) == expected


@pytest.mark.parametrize("options", ["--hidden-size 3585", "--num-layers 27", "--use-distributed-optimizer False"])
def test_another_program(options: str) -> None:
    """A program that is not one of Megatron's may read the same options in another way."""
    assert FAIL not in lint_options(options, "my_train.py").values()
