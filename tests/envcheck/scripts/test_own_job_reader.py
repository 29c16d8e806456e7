"""The job of a file or a command, in the formats that the frameworks' documentation describes; texts of our own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from envcheck.core.errors import UsageError
from envcheck.core.lint.own_job import OwnJob
from envcheck.scripts.jobs.option_names import KITS, NAMES
from envcheck.scripts.jobs.own_job_reader import read_command_job, read_file_job
from envcheck.scripts.jobs.training_values import find_planner_model
from launch.planner.own_fit import explain_unknown_job

LLAMAFACTORY = """\
### model
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
### method
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: all
deepspeed: ds_z2.json
### data
dataset: identity,alpaca_en_demo
template: qwen
cutoff_len: 1024
### output
output_dir: saves/qwen
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
"""
ZERO_2 = {
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
}
SWIFT = """\
model: Qwen/Qwen2.5-7B-Instruct
train_type: lora
torch_dtype: bfloat16
dataset: [swift/self-cognition#500]
max_length: 2048
lora_rank: 16
target_modules: all-linear
deepspeed: zero3
output_dir: output
"""
ERNIEKIT = """\
model_name_or_path: baidu/ERNIE-4.5-0.3B-Paddle
stage: SFT
fine_tuning: LoRA
train_dataset_path: ./data/sft-train.jsonl
train_dataset_type: erniekit
max_seq_len: 8192
batch_size: 1
gradient_accumulation_steps: 8
tensor_parallel_degree: 2
sharding: stage1
recompute: true
compute_type: bf16
output_dir: ./out
max_steps: 100
"""
AXOLOTL = """\
base_model: meta-llama/Llama-3.1-8B
load_in_4bit: true
adapter: qlora
datasets:
  - path: tatsu-lab/alpaca
    type: alpaca
sequence_len: 4096
micro_batch_size: 2
gradient_accumulation_steps: 4
gradient_checkpointing: true
lora_r: 32
bf16: auto
output_dir: ./outputs/qlora
"""
TORCHTUNE = """\
model:
  _component_: torchtune.models.llama3_1.lora_llama3_1_8b
  lora_rank: 64
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: 2048
checkpointer:
  checkpoint_dir: /tmp/Meta-Llama-3.1-8B-Instruct
batch_size: 2
gradient_accumulation_steps: 8
enable_activation_checkpointing: true
dtype: bf16
output_dir: /tmp/torchtune
"""
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file into the working folder."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write_file


def list_values(job: OwnJob) -> dict[str, str]:
    """Return each value as "value (state)"."""
    return {v.name: f"{v.value} ({v.state.value})".strip() for v in job.values}


def find_place(job: OwnJob, name: str) -> str:
    value = job.find_value(name)
    assert value is not None, name
    return str(value.where)


def test_llamafactory_file(write: Write) -> None:
    """A YAML is read with its DeepSpeed file; each value has its line, or the default that is assumed."""
    write("my.yaml", LLAMAFACTORY)
    write("ds_z2.json", json.dumps(ZERO_2, indent=1))
    job = read_file_job("my.yaml", environment={})

    assert job.argv == ("llamafactory-cli", "train", "my.yaml")
    assert (job.model, job.method, job.framework, job.cards) == ("qwen2.5-7b", "lora", "llamafactory", None)
    assert job.plan == {
        "micro_batch": 1, "grad_accum": 8, "seq_len": 1024, "recompute": "full", "lora_rank": 8, "lora_targets": "all",
        "sharding": "stage2", "offload": "optimizer",
    }  # fmt: skip
    assert list_values(job)["recompute"] == "full (assumed)"
    assert find_place(job, "model") == "my.yaml:2"
    assert find_place(job, "sharding") == "ds_z2.json:4"
    assert job.lean == {"recompute": "full"}


def test_later_words_win(write: Write) -> None:
    """key=value after the file overrides it, and is passed on."""
    write("my.yaml", LLAMAFACTORY)
    job = read_file_job("my.yaml", ("cutoff_len=4096", "per_device_train_batch_size=2"), environment={})

    assert job.argv[-2:] == ("cutoff_len=4096", "per_device_train_batch_size=2")
    assert (job.plan["seq_len"], job.plan["micro_batch"]) == (4096, 2)
    assert find_place(job, "seq_len") == "command line"


@pytest.mark.parametrize(
    ("text", "argv", "expected"),
    (
        (SWIFT, ("swift", "sft"), ("qwen2.5-7b", "lora", "swift", {"sharding": "stage3", "lora_rank": 16})),
        (ERNIEKIT, ("erniekit", "train"), ("ernie-4.5-0.3b", "lora", "erniekit", {"tp": 2, "seq_len": 8192})),
        (AXOLOTL, ("axolotl", "train"), ("llama-3.1-8b", "qlora", "axolotl", {"micro_batch": 2, "recompute": "full"})),
    ),
    ids=("swift", "erniekit", "axolotl"),
)
def test_files_of_other_frameworks(
    write: Write, text: str, argv: tuple[str, ...], expected: tuple[str, str, str, dict[str, object]]
) -> None:
    """The framework is found by its keys; its own command starts the file."""
    write("my.yaml", text)
    job = read_file_job("my.yaml", environment={})

    assert job.argv == (*argv, "my.yaml")
    assert (job.model, job.method, job.framework) == expected[:3]
    assert job.plan.items() >= expected[3].items()


def test_paddle_file_with_formers_keys(write: Write) -> None:
    """Newer names of the degrees tell PaddleFormers from ERNIEKit."""
    write("my.yaml", ERNIEKIT.replace("tensor_parallel_degree", "tensor_model_parallel_size"))

    assert read_file_job("my.yaml", environment={}).argv == ("paddleformers-cli", "train", "my.yaml")


def test_torchtune_command(write: Write) -> None:
    """`tune run` names recipe and configuration; nested keys and their overrides are read."""
    write("my.yaml", TORCHTUNE)
    argv = ["tune", "run", "--nproc_per_node", "2", "lora_finetune_distributed", "--config", "my.yaml", "batch_size=4"]
    job = read_command_job([*argv, "tokenizer.max_seq_len=512"], environment={})

    assert job.argv == (*argv, "tokenizer.max_seq_len=512")
    assert (job.method, job.framework, job.cards) == ("lora", "torchtune", 2)
    assert job.plan.items() >= {"micro_batch": 4, "seq_len": 512, "lora_rank": 64, "grad_accum": 8}.items()
    assert find_place(job, "lora_rank") == "my.yaml:3"
    with pytest.raises(UsageError, match="recipe of torchtune"):
        read_file_job("my.yaml", environment={})


EXPORT = "model_name_or_path: a/b\nadapter_name_or_path: x\ntemplate: qwen\nfinetuning_type: lora\nexport_dir: y\n"
ACCELERATE = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
mixed_precision: bf16
num_machines: 1
num_processes: 8
deepspeed_config:
  zero_stage: 3
  offload_param_device: cpu
"""
SCRIPT = """\
#!/bin/bash
export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3
NPROC=4
LEN=${LEN:-2048}
nohup torchrun --nproc_per_node $NPROC --nnodes 2 --node_rank $RANK src/train.py \\
  --model_name_or_path Qwen/Qwen1.5-7B --stage dpo --finetuning_type full --deepspeed z3.json \\
  --cutoff_len $LEN --output_dir $OUT > log.txt 2>&1
"""


def test_shell_script(write: Write) -> None:
    """Variables and defaults of a script are followed; what is not known is unknown, not wrong."""
    write("run.sh", SCRIPT)
    job = read_file_job("run.sh", environment={})
    said = list_values(job)

    assert job.argv == ("bash", "run.sh")
    assert (job.device, job.nodes, job.cards, job.model, job.method) == ("npu", 2, 4, "qwen1.5-7b", "dpo")
    assert (said["seq_len"], said["sharding"], said["output"]) == ("2048 (read)", "stage3 (read)", "(unknown)")
    assert find_place(job, "cards") == "run.sh:5"
    assert job.listed == "0,1,2,3"


@pytest.mark.parametrize("argv", (("bash", "-x", "run.sh", "a"), ("timeout", "9", "bash", "run.sh"), ("./run.sh",)))
def test_shell_as_command(write: Write, argv: tuple[str, ...]) -> None:
    """A shell that runs a script is read like the script, and runs as it was typed."""
    write("run.sh", SCRIPT)
    job = read_command_job(argv, environment={})

    assert job.argv == argv
    assert (job.nodes, job.cards, job.model) == (2, 4, "qwen1.5-7b")


COMMANDS = {
    "torchrun --nproc_per_node 8 --nnodes 2 train.py": (2, 8),
    "torchrun train.py --lr 1e-4 --max_steps 5": (1, 1),
    "torchrun --nproc-per-node=auto train.py": (1, None),
    "python -m torch.distributed.run --nproc_per_node=4 train.py": (1, 4),
    "python -m paddle.distributed.launch --npus 4,5 train.py": (1, 2),
    "python -m paddle.distributed.launch train.py": (1, None),
    "accelerate launch --num_processes 16 --num_machines 2 train.py": (2, 8),
    "deepspeed --include localhost:0,1,3 train.py": (1, 3),
    "deepspeed --num_gpus 4 train.py": (1, 4),
    "deepspeed --hostfile hosts train.py": (2, 8),
    "msrun --worker_num 16 --local_worker_num 8 train.py": (2, 8),
    "env NPROC_PER_NODE=2 swift sft --model Qwen/Qwen2.5-7B": (1, 2),
    "swift sft --model Qwen/Qwen2.5-7B": (1, 1),
    "llamafactory-cli train --model_name_or_path x --stage sft": (1, None),
    "timeout 60 env A=1 nohup torchrun --nproc_per_node 2 train.py": (1, 2),
    "python finetune.py --learning_rate 1e-4 --max_steps 3": (1, 1),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_launchers(write: Write, command: str) -> None:
    """Nodes and devices of each node, by the launcher; None: all devices of the machine."""
    write("hosts", "worker-1 slots=8\nworker-2 slots=8\n")
    job = read_command_job(command.split(), environment={})

    assert (job.nodes, job.cards) == COMMANDS[command]
    assert job.argv == tuple(command.split())


def test_accelerate_file(write: Write) -> None:
    """The launcher's file gives processes, precision and ZeRO stage; its command line wins."""
    write("acc.yaml", ACCELERATE)
    command = "accelerate launch --config_file acc.yaml --num_processes 4 train.py --model_name_or_path x"
    job = read_command_job(command.split(), environment={})
    said = list_values(job)

    assert job.cards == 4
    assert (said["precision"], said["sharding"], said["offload"]) == ("bf16 (read)", "stage3 (read)", "params (read)")


def test_visible_list_of_the_user(write: Write) -> None:
    """A launcher that uses all devices uses those that the user made visible."""
    write("my.yaml", LLAMAFACTORY)

    assert read_file_job("my.yaml", environment={"CUDA_VISIBLE_DEVICES": "4,5"}).cards == 2


def test_unknown_program(write: Write) -> None:
    """A program that nobody knows is no error: its values are unknown, and nothing can be planned."""
    job = read_command_job(["my-trainer", "--fast"], environment={})

    assert (job.model, job.method, job.argv) == ("", "", ("my-trainer", "--fast"))
    assert {value.state.value for value in job.values} <= {"unknown", "assumed"}


def test_several_trainings(write: Write) -> None:
    """The first training of a script is judged, and a note says so."""
    write("run.sh", "torchrun --nproc_per_node 2 train.py --max_steps 1 --lr 1\ntorchrun --nproc_per_node 4 train.py\n")
    job = read_file_job("run.sh", environment={})

    assert (job.cards, len(job.notes)) == (2, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("LLM-Research/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("/models/ERNIE-4.5-21B-A3B-Paddle/", "ernie-4.5-21b-a3b"),
        ("torchtune.models.llama3_1.lora_llama3_1_8b", "llama-3.1-8b"),
        ("Qwen/Qwen2.5-Coder-7B", "qwen2.5-7b"),
        ("somebody/something", ""),
    ),
)
def test_names_of_models(text: str, expected: str) -> None:
    """A hub id, a folder or a builder of torchtune names a model of the planner; a doubtful name does not."""
    assert find_planner_model(text) == expected


@pytest.mark.parametrize("text", ("services: {}\n", "a: 1\n", EXPORT, "[1, 2]\n", "a: [\n"))
def test_other_yaml(write: Write, text: str) -> None:
    """A YAML that no framework trains from is refused with what helps."""
    write("my.yaml", text)
    with pytest.raises(UsageError) as caught:
        read_file_job("my.yaml", environment={})

    assert "my.yaml" in str(caught.value.message)


@pytest.mark.parametrize("count", ("0", "-4", "8x", "99999", ""))
def test_impossible_process_counts(count: str) -> None:
    """A count that no launcher takes is invalid, with its place and the range, and not a number of devices."""
    job = read_command_job(("torchrun", f"--nproc_per_node={count}", "train.py"), {})
    cards = job.find_value("cards")

    assert cards is not None and cards.is_invalid and job.cards is None
    assert "expected an integer from 1 to" in cards.where


@pytest.mark.parametrize("count", ("gpu", "auto", "8"))
def test_possible_process_counts(count: str) -> None:
    """The launcher's own words are no mistakes."""
    assert read_command_job(("torchrun", f"--nproc_per_node={count}", "train.py"), {}).list_invalid() == ()


@pytest.mark.parametrize("count", ("0", "-2", "1000000", "9" * 300))
def test_impossible_node_counts(count: str) -> None:
    """A number of nodes that no cluster has is invalid, with its place and the range, and not one node."""
    nodes = read_command_job(("torchrun", f"--nnodes={count}", "--nproc_per_node=8", "train.py"), {}).find_value(
        "nodes"
    )

    assert nodes is not None and nodes.is_invalid
    assert "command line: number of nodes" in nodes.where and "from 1 to" in nodes.where


@pytest.mark.parametrize("count", ("1", "2:4", "1024"))
def test_possible_node_counts(count: str) -> None:
    """Numbers of nodes, and torchrun's range of them, are no mistakes."""
    job = read_command_job(("torchrun", f"--nnodes={count}", "--nproc_per_node=8", "train.py"), {})

    assert (job.list_invalid(), job.nodes) == ((), int(count.partition(":")[0]))


SWIFT_FILES = "swift sft --model ./m --dataset ./a.jsonl /d/b.jsonl org/set#5 --train_type lora"
SCRIPT_INPUTS = (
    (SWIFT_FILES, ("./a.jsonl", "/d/b.jsonl", "org/set"), ("m/config.json",)),
    (f"export A=1\nmkdir -p out\n{SWIFT_FILES}", ("./a.jsonl", "/d/b.jsonl", "org/set"), ("m/config.json",)),
    (f"cd /w\n{SWIFT_FILES}", ("/w/a.jsonl", "/d/b.jsonl", "org/set"), ("/w/m/config.json",)),
    (f"cd $X\n{SWIFT_FILES}", ("/d/b.jsonl", "org/set"), ()),
    (f"cat head > ./a.jsonl\nhf download org/m --local-dir ./m\n{SWIFT_FILES}", (), ()),
    (f"cat head > ./a.jsonl\n{SWIFT_FILES}", ("/d/b.jsonl", "org/set"), ("m/config.json",)),
    (f"python prepare.py\n{SWIFT_FILES}", (), ()),
    (f"if [ -n $X ]; then {SWIFT_FILES}; fi", (), ()),
    ("swift sft --model Qwen/Qwen2.5-7B --dataset org/set ./*.jsonl", ("org/set",), ()),
    ("swift sft --model ../Qwen2.5-7B --dataset a.json", ("a.json",), ("../Qwen2.5-7B/config.json",)),
    (
        "erniekit train --train_dataset_path ./a.jsonl --eval_dataset_path ./e.jsonl --model_name_or_path /m",
        ("./a.jsonl", "./e.jsonl"), ("/m/config.json",),
    ),
    ("torchrun train.py --model ./m --dataset ./a.jsonl", (), ()),
    ("torchrun pretrain_gpt.py --train_iters 9 --seq_length 8 --data_path ./a_text --load ./ckpt", (), ()),
)  # fmt: skip


@pytest.mark.parametrize(("text", "data", "requires"), SCRIPT_INPUTS, ids=[text for text, _d, _r in SCRIPT_INPUTS])
def test_inputs_of_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, data: tuple[str, ...], requires: tuple[str, ...]
) -> None:
    """The files that a script's training reads, unless the script may create them or its program is not known."""
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text(f"#!/bin/bash\n{text}\n")
    job = read_file_job("run.sh", environment={})

    assert (job.data, job.requires) == (data, requires)


PADDLENLP = {
    "model_name_or_path": "Qwen/Qwen2.5-7B-Instruct", "dataset_name_or_path": "./data", "src_length": 1024,
    "zero_padding": False, "max_length": 2048, "per_device_train_batch_size": 4, "output_dir": "./out",
    "tensor_parallel_degree": 2, "lora": True,
}  # fmt: skip


def test_a_configuration_of_paddlenlp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PaddleNLP is recognised by its file, and is neither transformers nor a framework of the planner."""
    monkeypatch.chdir(tmp_path)
    Path("n.json").write_text(json.dumps(PADDLENLP))
    with pytest.raises(UsageError, match="is a configuration of PaddleNLP, which envcheck recognises"):
        read_file_job("n.json", environment={})
    words = ("python", "-m", "paddle.distributed.launch", "--gpus", "0,1", "run_finetune.py", "n.json")
    job = read_command_job(words, environment={})

    assert (job.framework, job.unplanned_framework) == ("", "PaddleNLP")
    assert str(explain_unknown_job(job)) == "envcheck recognises PaddleNLP, but cannot plan its memory"


HINTS = [
    pytest.param(value, option, id=f"{kit or 'none'}-{value}")
    for kit, defaults in KITS.items()
    for value, option in defaults.options.items()
    if value in ("model", "micro_batch", "seq_len", "lora_rank", "data", "output")
]


@pytest.mark.parametrize(("value", "option"), HINTS)
def test_each_advised_option_is_read(value: str, option: str) -> None:
    """The option that a screen advises for an unknown value is one from which the value is read."""
    assert option in NAMES[value]
