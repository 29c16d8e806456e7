"""The model that Megatron's options describe, with the published sizes of the models that have these dimensions."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.core.lint.own_job import OwnJob
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.lint import linter
from envcheck.scripts import source_file
from envcheck.scripts.jobs.own_job_reader import read_file_job
from launch.catalogue.framework_options import list_framework_options
from launch.planner import machines, verdict
from launch.planner.option_words import SHARDING_NAMES
from launch.planner.reductions import list_single_changes
from launch.planner.resolve import build_planned_job, pick_model

TORCHRUN = "torchrun --nproc_per_node 8 pretrain_gpt.py --train-iters 9 --global-batch-size 8 --seq-length 4096 "
ROPE = "--position-embedding-type rope --normalization RMSNorm --disable-bias-linear "
LLAMA_3_8B = (
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --swiglu --untie-embeddings-and-output-weights --padded-vocab-size 128256 " + ROPE
)
QWEN3_30B_A3B = (
    "--num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144 --num-attention-heads 32 --kv-channels 128 "
    "--qk-layernorm --group-query-attention --num-query-groups 4 --swiglu --untie-embeddings-and-output-weights "
    "--vocab-size 151936 --num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768 " + ROPE
)
DEEPSEEK_V3 = (
    "--num-layers 64 --noop-layers 61,62,63 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 "
    "--swiglu --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim "
    "64 --v-head-dim 128 --num-experts 256 --moe-router-topk 8 --moe-intermediate-size 2048 --n-shared-experts 1 "
    "--first-k-dense-replace 3 --untie-embeddings-and-output-weights --padded-vocab-size 129280 " + ROPE
)
GPT_3_175B = (
    "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --max-position-embeddings 2048 --vocab-size 50257 "
)
QWEN25_7B = (
    "--num-layers 28 --hidden-size 3584 --ffn-hidden-size 18944 --num-attention-heads 28 --group-query-attention "
    "--num-query-groups 4 --swiglu --add-qkv-bias --untie-embeddings-and-output-weights "
    "--tokenizer-name-or-path ./from_hf/Qwen2.5-7B-Instruct/ " + ROPE
)


@pytest.mark.parametrize(
    ("options", "billions"),
    [
        (LLAMA_3_8B, 8.03),  # Llama 3 model card
        (QWEN3_30B_A3B, 30.53),  # weights of Qwen3-30B-A3B
        (DEEPSEEK_V3, 671.0),  # DeepSeek-V3, technical report
        (GPT_3_175B, 174.6),  # Brown et al. 2020, table 2.1: 175.0
        (QWEN25_7B, 7.62),  # weights of Qwen2.5-7B; the vocabulary is that of the tokenizer's model
    ],
    ids=["llama-3-8b", "qwen3-30b-a3b", "deepseek-v3", "gpt-3", "qwen2.5-7b"],
)
def test_the_model_of_the_options(options: str, billions: float, tmp_path: Path) -> None:
    """Without a name, the dimensions give the size of the model that they belong to."""
    (tmp_path / "run.sh").write_text(f"#!/bin/bash\n{TORCHRUN}{options}\n")

    job = read_file_job(str(tmp_path / "run.sh"), (), {})

    assert pick_model(job.model).params / 1e9 == pytest.approx(billions, rel=0.005)


def test_an_unknown_vocabulary_is_named(tmp_path: Path) -> None:
    """The size of the vocabulary may be known to the tokenizer alone: the option that settles it is named."""
    text = LLAMA_3_8B.replace("--padded-vocab-size 128256", "--tokenizer-model tokenizer.model")
    (tmp_path / "run.sh").write_text(f"#!/bin/bash\n{TORCHRUN}{text}\n")

    job = read_file_job(str(tmp_path / "run.sh"), (), {})

    assert job.model == ""
    assert [value.option for value in job.values if value.name == "model"] == ["padded_vocab_size"]


@pytest.mark.parametrize(("degree", "wrong"), [(8, False), (16, False), (3, True)])
def test_heads_of_the_options(degree: int, wrong: bool, tmp_path: Path) -> None:
    """Tensor parallel degrees are compared with the heads in the options."""
    text = f"#!/bin/bash\n{TORCHRUN}{LLAMA_3_8B} --tensor-model-parallel-size {degree}\n"

    result = linter.lint_source(source_file.make_source("run.sh", text.encode()), TargetMachine(folder=tmp_path))

    failed = [each.rule for each in result.remarks if each.severity is Status.FAIL]
    assert ("training.heads" in failed) is wrong


@pytest.mark.parametrize(
    ("options", "sharding"), [("", "none"), ("--use-distributed-optimizer", "stage1"), ("--tp-comm-overlap", "none")]
)
def test_the_distributed_optimizer(options: str, sharding: str, tmp_path: Path) -> None:
    """Megatron shards the optimizer's states only with its option."""
    (tmp_path / "run.sh").write_text(f"#!/bin/bash\n{TORCHRUN}{LLAMA_3_8B} {options}\n")

    assert read_file_job(str(tmp_path / "run.sh"), (), {}).plan["sharding"] == sharding


@pytest.mark.parametrize(("options", "is_split"), [("", False), ("--sequence-parallel", True)])
def test_sequence_parallelism(options: str, is_split: bool, tmp_path: Path) -> None:
    """Without the option, tensor parallel ranks keep whole norms: it is then one of the changes, and saves memory."""
    text = f"#!/bin/bash\n{TORCHRUN}{LLAMA_3_8B} --tensor-model-parallel-size 2 {options}\n"
    (tmp_path / "run.sh").write_text(text)
    own = read_file_job(str(tmp_path / "run.sh"), (), {})
    machine = machines.build_described_machine("nvidia", 8, 80)

    job = build_planned_job(machine, own.model, own.method, {**own.plan, "framework": own.framework})

    changed = [other for _, added, other in list_single_changes(job) if "--sequence-parallel" in added]
    assert job.sequence_parallel is is_split
    assert len(changed) == (0 if is_split else 1)
    assert all(verdict.find_peak(other) < verdict.find_peak(job) for other in changed)


def test_a_tensor_degree_brings_sequence_parallelism_as_an_option(tmp_path: Path) -> None:
    """Megatron splits the sequence only with its option: a change that reckons with it has it among its options."""
    (tmp_path / "run.sh").write_text(f"#!/bin/bash\n{TORCHRUN}{LLAMA_3_8B}\n")
    own = read_file_job(str(tmp_path / "run.sh"), (), {})
    machine = machines.build_described_machine("nvidia", 8, 80)
    job = build_planned_job(machine, own.model, own.method, {**own.plan, "framework": own.framework})

    changes = {
        added["--tp"]: (list_framework_options(job.framework.name, added, 8, job.sharding), other)
        for _, added, other in list_single_changes(job)
        if "--tp" in added
    }

    options, changed = changes["4"]
    assert options == ["--tensor-model-parallel-size 4", "--sequence-parallel"]
    (tmp_path / "run.sh").write_text(f"#!/bin/bash\n{TORCHRUN}{LLAMA_3_8B} {' '.join(options)}\n")
    followed = read_file_job(str(tmp_path / "run.sh"), (), {})
    again = build_planned_job(machine, followed.model, followed.method, {**followed.plan, "framework": own.framework})
    assert verdict.find_peak(again) == verdict.find_peak(changed)


@pytest.mark.parametrize(
    ("command", "options", "is_split"),
    [
        ("megatron sft", "--tensor_model_parallel_size 2", False),
        ("megatron sft", "--tensor_model_parallel_size 2 --sequence_parallel false", False),
        ("megatron sft", "--tensor_model_parallel_size 2 --sequence_parallel true", True),
        ("erniekit train", "--tensor_parallel_degree 4 --sequence_parallel False", False),
        ("erniekit train", "--tensor_parallel_degree 4 --sequence_parallel True", True),
        ("paddleformers-cli train", "--tensor_model_parallel_size 4", False),
    ],
)
def test_sequence_parallelism_of_other_frameworks(command: str, options: str, is_split: bool, tmp_path: Path) -> None:
    """Every framework with the option has it read; without the option none splits the sequence."""
    text = f"#!/bin/bash\n{command} --model Qwen/Qwen2.5-7B-Instruct {options}\n"
    (tmp_path / "run.sh").write_text(text)

    assert bool(read_file_job(str(tmp_path / "run.sh"), (), {}).plan["sequence_parallel"]) is is_split


def read_model_job(options: str, folder: Path) -> OwnJob:
    """Return the job of a script with these options."""
    (folder / "run.sh").write_text(f"#!/bin/bash\n{TORCHRUN}{options}\n")
    return read_file_job(str(folder / "run.sh"), (), {})


@pytest.mark.parametrize(
    ("frequency", "first"),
    [("'([0]*3+[1]*57)'", 3), ("[0]*3+[1]*57", 3), ("'3*[0] + [1]*57'", 3), ("'([0,1]*30)'", 30), ("2", 30), ("1", 0)],
)
def test_mixture_layers_as_a_list(frequency: str, first: int, tmp_path: Path) -> None:
    """Megatron evaluates the frequency as an expression of lists, a mixture for each 1."""
    text = QWEN3_30B_A3B.replace("--num-layers 48", "--num-layers 60")
    job = read_model_job(f"{text} --moe-layer-freq {frequency}", tmp_path)

    moe = pick_model(job.model).moe
    assert moe is not None
    assert moe.first_dense == first


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (QWEN3_30B_A3B + " --moe-layer-freq '[1]*9'", "moe_layer_freq"),
        (QWEN3_30B_A3B + " --moe-layer-freq '[2]*48'", "moe_layer_freq"),
        (QWEN3_30B_A3B + f" --moe-layer-freq '{'+'.join(['[1]*9999'] * 999)}'", "moe_layer_freq"),
        (QWEN3_30B_A3B + " --moe-layer-freq \"$(cat freq)\"", "moe_layer_freq"),
        (LLAMA_3_8B.replace("--num-query-groups 8", "--num-query-groups $GROUPS_OF_QUERIES"), "num_query_groups"),
        (LLAMA_3_8B.replace("--ffn-hidden-size 14336", "--ffn-hidden-size 14k"), "ffn_hidden_size"),
        (LLAMA_3_8B.replace("--padded-vocab-size 128256", "--vocab-size $SIZE --tokenizer-model llama-3-8b"),
         "vocab_size"),
        (LLAMA_3_8B + " --noop-layers $NOOP", "noop_layers"),
        (LLAMA_3_8B.replace("--num-layers 32", "--num-layers 999999999"), "num_layers"),
    ],
)  # fmt: skip
def test_a_given_but_unknown_dimension(options: str, name: str, tmp_path: Path) -> None:
    """No default replaces a value that is given: the model is unknown, and the option named."""
    job = read_model_job(options, tmp_path)

    assert job.model == ""
    assert [(value.option, name in str(value.where)) for value in job.values if value.name == "model"] == [(name, True)]


def test_grouped_queries_without_a_number(tmp_path: Path) -> None:
    """Megatron's default is one group."""
    job = read_model_job(LLAMA_3_8B.replace("--num-query-groups 8", ""), tmp_path)

    assert pick_model(job.model).kv_heads == 1


@pytest.mark.parametrize(
    ("layers", "option"),
    [("--num-layers 4 --noop-layers 0,1,2,3", "noop_layers"), ("--num-layers 0", "num_layers")],
)
def test_options_that_leave_no_layer(layers: str, option: str, tmp_path: Path) -> None:
    """The job is invalid, with the line of the option."""
    job = read_model_job(LLAMA_3_8B.replace("--num-layers 32", layers), tmp_path)

    assert job.model == ""
    (invalid,) = job.list_invalid()
    assert invalid.option == option
    assert str(invalid.where) == f"{tmp_path / 'run.sh'}:2: {option} leaves no layer"


def test_layers_without_effect_beyond_the_last_do_not_count(tmp_path: Path) -> None:
    """Only those of the model are taken away."""
    job = read_model_job(LLAMA_3_8B + " --noop-layers 31,32,31", tmp_path)

    assert pick_model(job.model).layers == 31


def test_impossible_sizes(tmp_path: Path) -> None:
    """Options that no model can have are invalid, at the line of the script."""
    job = read_model_job(LLAMA_3_8B.replace("--num-query-groups 8", "--num-query-groups 64"), tmp_path)

    (invalid,) = job.list_invalid()
    assert job.model == ""
    assert str(invalid.where) == f"{tmp_path / 'run.sh'}:2: num_key_value_heads is 64"


@pytest.mark.parametrize(
    ("prefix", "options", "shown"),
    [
        ("NPROC_PER_NODE=4", "", ("stage1", "assumed")),
        ("NPROC_PER_NODE=4", "--tensor_model_parallel_size 4", ("none", "read")),
        ("NPROC_PER_NODE=4", "--use_distributed_optimizer true", ("stage1", "read")),
    ],
)
def test_sharding_that_the_planner_assumes(prefix: str, options: str, shown: tuple[str, str], tmp_path: Path) -> None:
    """What is read of a job does not contradict its plan: an open stage is shown as the planner assumes it."""
    (tmp_path / "run.sh").write_text(
        f"#!/bin/bash\n{prefix} megatron sft --model Qwen/Qwen2.5-7B-Instruct --max_length 2048 {options}\n"
    )
    own = read_file_job(str(tmp_path / "run.sh"), (), {})
    machine = machines.build_described_machine("nvidia", 4, 80)
    job = build_planned_job(machine, own.model, own.method, {**own.plan, "framework": own.framework})
    value = own.find_value("sharding")

    assert value is not None
    assert (value.value, value.state.value) == shown
    assert SHARDING_NAMES[job.sharding] == shown[0]
