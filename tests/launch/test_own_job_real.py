"""Jobs of a user's own on CPUs by accelerate, DeepSpeed, paddle.distributed.launch, LLaMA-Factory, ms-swift."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.installers.paddle_parts import CACHE
from tests.launch.test_train import list_remaining_processes, make_variables

pytestmark = pytest.mark.extended

HERE = Path(__file__).parent
LLAMAFACTORY = "llamafactory==0.9.5"
CONFIGURATION = """\
### model
model_name_or_path: model

### method
stage: sft
do_train: true
finetuning_type: lora
lora_rank: 8
lora_target: all

### dataset
dataset: tiny
template: default
cutoff_len: 64
overwrite_cache: true
preprocessing_num_workers: 1

### output
output_dir: saves/tiny
logging_steps: 1
save_steps: 4
report_to: none

### train
per_device_train_batch_size: 1
gradient_accumulation_steps: 1
learning_rate: 1.0e-4
max_steps: 4
lr_scheduler_type: cosine
use_cpu: true
"""
SWIFT = "ms-swift==4.6.0"
SWIFT_CONFIGURATION = """\
# model
model: model
model_type: llama
template: dummy
torch_dtype: float32
attn_impl: eager

tuner_type: lora
lora_rank: 8
lora_alpha: 32
target_modules: all-linear

# dataset
dataset:
  - 'data.jsonl'
split_dataset_ratio: 0.0
max_length: 64

# training
max_steps: 4
per_device_train_batch_size: 1
learning_rate: 1e-4
gradient_accumulation_steps: 1
save_steps: 4
logging_steps: 1
output_dir: output
dataloader_num_workers: 0
dataset_num_proc: 1
use_cpu: true
"""


@pytest.fixture(scope="module")
def llamafactory(torch_environment: Path) -> Path:
    """A virtual environment with LLaMA-Factory and a torch of its own, kept; many minutes the first time."""
    return make_environment(torch_environment.with_name("llamafactory"), LLAMAFACTORY)


@pytest.fixture(scope="module")
def ms_swift() -> Path:
    """A virtual environment with ms-swift and a torch of its own, kept; many minutes the first time."""
    return make_environment(CACHE / "ms-swift", SWIFT)


def make_environment(place: Path, package: str) -> Path:
    """Install the package with all that it requires, unless an earlier test run did."""
    if not (place / "complete.txt").exists():
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", "--no-compile", package]
        done = subprocess.run(pip, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stderr
        (place / "complete.txt").touch()
    return place


def train_own(folder: Path, *words: str, **variables: str) -> dict[str, Any]:
    """Run the words as a user's own job; return the record."""
    done = subprocess.run(
        [sys.executable, "-m", "envcheck", "train", "--device", "cpu", "--json", *words],
        cwd=folder,
        env=make_variables(folder / "home", OMP_NUM_THREADS="1", **variables),
        capture_output=True,
        text=True,
        timeout=600,
    )

    logs = "\n".join(log.read_text() for log in folder.glob("runs/*/log/launcher.log"))
    assert done.returncode == 0, done.stderr + logs
    assert list_remaining_processes(folder) == []
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_accelerate_launch(torch_environment: Path, tmp_path: Path) -> None:
    """accelerate starts two processes as typed; each step is read once."""
    command = [str(torch_environment / "bin" / "accelerate"), "launch", "--multi_gpu", "--num_processes", "2"]
    command += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    command += [str(HERE / "torch_program.py"), "--steps", "5", "--output", "out"]
    said = train_own(tmp_path, "--", *command)

    assert (said["state"], said["command"], said["plan"]["processes"]) == ("succeeded", command, 2)
    assert [step for step, _loss in said["loss"]] == [1, 2, 3, 4, 5]


def test_deepspeed(deepspeed: Path, tmp_path: Path) -> None:
    """DeepSpeed's launcher starts two processes as typed; each step is read once."""
    command = [str(deepspeed / "bin" / "deepspeed"), "--no_local_rank", "--num_gpus", "2"]
    command += [str(HERE / "torch_program.py"), "--steps", "5", "--output", "out"]
    said = train_own(tmp_path, "--", *command, PYTHONPATH=str(deepspeed), DS_ACCELERATOR="cpu")

    assert (said["state"], said["command"], said["plan"]["processes"]) == ("succeeded", command, 2)
    assert [step for step, _loss in said["loss"]] == [1, 2, 3, 4, 5]


def test_trainer_in_a_script(torch_environment: Path, tmp_path: Path) -> None:
    """A script with torchrun and the Trainer of transformers: its values are read, and its steps are numbered."""
    (tmp_path / "run.sh").write_text(
        f"{torch_environment}/bin/torchrun --standalone --nproc_per_node 2 {HERE}/trainer_program.py --output_dir out"
        " --max_steps 4 --logging_steps 1 --save_strategy no --use_cpu true --report_to none"
        " --per_device_train_batch_size 1\n"
    )
    said = train_own(tmp_path, "run.sh")

    assert (said["state"], said["own"]["values"]["cards"]["value"]) == ("succeeded", "2")
    assert [step for step, _loss in said["loss"]] == [1, 2, 3, 4]


def test_paddle_launch(paddle_environment: Path, paddle_home: Path, tmp_path: Path) -> None:
    """paddle.distributed.launch starts two processes of the tiny model as typed; their logs are its own."""
    shown = subprocess.run(
        [sys.executable, "-m", "envcheck", "train", "--recipe", "tiny-cpu", "--method", "lora", "--dry-run", "--json"],
        cwd=tmp_path,
        env=make_variables(paddle_home),
        capture_output=True,
        text=True,
        timeout=120,
    )
    words = [
        word.replace("{output}", "out").replace("{log_dir}", "logs") for word in json.loads(shown.stdout)["command"]
    ]
    said = train_own(tmp_path, "--", str(paddle_environment / "bin" / "python"), *words[1:])

    assert (said["state"], said["plan"]["processes"]) == ("succeeded", 2)
    assert "paddle.distributed.launch" in said["command"]


def test_llamafactory(llamafactory: Path, tmp_path: Path) -> None:
    """A configuration in the form of LLaMA-Factory's examples trains a tiny random model, and is read completely."""
    python = str(llamafactory / "bin" / "python")
    subprocess.run([python, str(HERE / "tiny_llama.py"), "model"], cwd=tmp_path, check=True, timeout=300)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dataset_info.json").write_text('{"tiny": {"file_name": "tiny.json"}}')
    rows = [{"instruction": f"Say {number}.", "input": "", "output": f"{number}"} for number in range(32)]
    (tmp_path / "data" / "tiny.json").write_text(json.dumps(rows))
    (tmp_path / "my.yaml").write_text(CONFIGURATION)
    path = f"{llamafactory / 'bin'}:{os.environ['PATH']}"
    said = train_own(tmp_path, "my.yaml", PATH=path, HF_HUB_OFFLINE="1", DISABLE_VERSION_CHECK="1")

    values = {name: value["value"] for name, value in said["own"]["values"].items()}
    assert (values["framework"], values["method"], values["seq_len"]) == ("LLaMA-Factory", "lora", "64")
    assert (said["state"], [step for step, _loss in said["loss"]]) == ("succeeded", [1, 2, 3, 4])
    assert [Path(folder).name for folder in said["checkpoints"]] == ["checkpoint-4"]


@pytest.fixture(scope="module")
def swift_folder(ms_swift: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny random model, 32 conversations, and a configuration in the form of ms-swift's examples."""
    folder = tmp_path_factory.mktemp("swift")
    python = str(ms_swift / "bin" / "python")
    subprocess.run([python, str(HERE / "tiny_llama.py"), "model"], cwd=folder, check=True, timeout=300)
    talks = [({"role": "user", "content": f"Say {n}."}, {"role": "assistant", "content": f"{n}"}) for n in range(32)]
    (folder / "data.jsonl").write_text("".join(f"{json.dumps({'messages': talk})}\n" for talk in talks))
    (folder / "my.yaml").write_text(SWIFT_CONFIGURATION)
    return folder


@pytest.mark.parametrize(
    "words",
    (("my.yaml",), ("--", "swift", "sft", "my.yaml", "--max_steps", "3", "--save_steps", "3")),
    ids=("file", "command"),
)
def test_ms_swift(ms_swift: Path, swift_folder: Path, words: tuple[str, ...]) -> None:
    """ms-swift trains the tiny model, started by envcheck with a file and by a command of the user's; both are read."""
    path = f"{ms_swift / 'bin'}:{os.environ['PATH']}"
    said = train_own(swift_folder, *words, PATH=path, HF_HUB_OFFLINE="1")

    steps = 4 if words == ("my.yaml",) else 3
    values = {name: value["value"] for name, value in said["own"]["values"].items()}
    assert said["command"][:3] == ["swift", "sft", "my.yaml"]
    assert (values["framework"], values["method"], values["seq_len"]) == ("ms-swift", "lora", "64")
    assert (said["state"], [step for step, _loss in said["loss"]]) == ("succeeded", list(range(1, steps + 1)))
    assert [Path(folder).name for folder in said["checkpoints"]] == [f"checkpoint-{steps}"]
