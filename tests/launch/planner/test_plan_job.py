"""envcheck plan of a recipe's job on this machine: same job and verdict as doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli import main
from envcheck.core.errors import UndeterminedError

LORA = ("--model", "21b", "--method", "lora")
MEGATRON = (
    "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --swiglu "
    "--ffn-hidden-size 11008 --seq-length 4096 --micro-batch-size 1 --vocab-size 32000 --bf16"
)


def find_finding(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(found for found in document["findings"] if found["name"] == name)


@pytest.mark.parametrize(
    ("machine", "model"), [("bi-v150x8", "21b"), ("h200x8", "21b"), ("atlas-800t-a2", "0.3b"), ("h200x8", "0.3b")]
)
def test_the_job_and_its_memory_are_doctors(run_on: Any, machine: str, model: str) -> None:
    """plan has the same job as doctor, and the verdict of its job.memory."""
    words = ("--model", model, "--method", "lora", "--json")

    planned, examined = (json.loads(run_on(machine, verb, *words).stdout) for verb in ("plan", "doctor"))

    assert planned["job"] == examined["job"]
    assert planned["layout"]["cards"] == planned["job"]["cards"]
    assert (planned["verdict"] == "fits") is (find_finding(examined, "job.memory")["status"] == "OK")
    assert planned["reason"] in find_finding(examined, "job.memory")["seen"]


@pytest.mark.parametrize(("model", "verdict"), [("300b", "does not fit"), ("21b", "fits")])
def test_what_blocks_the_job_comes_first(run_on: Any, model: str, verdict: str) -> None:
    """Failed requirements and exit code 1 come first, even if the memory suffices; the plan follows."""
    words = ("--model", model, "--method", "lora")
    done, examined = (run_on("atlas-800t-a2", verb, *words) for verb in ("plan", "doctor"))
    document = json.loads(run_on("atlas-800t-a2", "plan", *words, "--json").stdout)
    first, second, *_ = done.output.splitlines()

    assert first.startswith("blocked by: ") and "cards (" in first and "architecture (" in first
    assert second.startswith(verdict) and "8 x 64 GiB" in done.output
    assert (done.return_value, examined.return_value, document["exit_code"], document["error"]) == (1, 1, 1, first)
    assert document["next"] == f"envcheck doctor --model {document['job']['recipe']} --method lora"


def test_an_assumed_host_comes_first(run_on: Any) -> None:
    """Without such cards the job is resolved for the recipe's host."""
    done = run_on("cpu", "plan", "--model", "300b", "--method", "lora", "--device", "npu")

    assert done.output.startswith("resolved for the recipe's host (Atlas 200T A2 Box16, x86_64): this machine has no")


@pytest.mark.parametrize(
    ("device", "method", "nodes", "each"),
    [("p800", "lora", 2, 8), ("p800", "sft", 12, 8), ("npu", "lora", 1, 16), ("npu", "sft", 8, 16)],
)
def test_absent_devices_are_those_of_the_recipe(run_on: Any, device: str, method: str, nodes: int, each: int) -> None:
    """For a named device that is not here, the recipe's own nodes and cards are planned; this host blocks nothing."""
    words = ("--model", "300b", "--method", method, "--device", device)
    done, document = run_on("cpu", "plan", *words), json.loads(run_on("cpu", "plan", *words, "--json").stdout)
    options = next(line for line in done.output.splitlines() if "full options" in line).split()[2:]
    again = json.loads(run_on("cpu", "plan", *words, *options, "--json").stdout)

    assert f"assumed machine: {nodes} node" in done.output and f"with {each} x " in done.output
    assert "blocked by" not in done.output and "to fix" not in done.output and "changed to" not in done.output
    assert (document["verdict"], done.return_value, document["exit_code"]) == ("fits", 0, 0)
    assert document["job"]["nodes"] * document["job"]["cards"] == document["layout"]["cards"] == nodes * each
    assert again["layout"] == document["layout"] and again["need_bytes"] == document["need_bytes"]


def test_a_plan_for_absent_devices_is_that_of_the_recipes_machine(run_on: Any) -> None:
    """The same command prints the same need here and on the recipe's machine."""
    words = ("--model", "300b", "--method", "sft", "--device", "p800", "--json")
    here, there = (json.loads(run_on(machine, "plan", *words).stdout) for machine in ("cpu", "p800x8"))

    assert here["layout"] == there["layout"]
    assert here["need_bytes"] == there["need_bytes"]


def test_sizes_are_labelled(run_on: Any) -> None:
    """Computed sizes per node and the recipe's minimum differ, and are labelled, all in GiB."""
    done = run_on("cpu", "plan", "--model", "300b", "--method", "sft", "--device", "p800")

    assert "per node  computed: 324 GiB of host memory, 883 GiB of disk" in done.output
    assert "minimum of recipe ernie-300b-xpu per node: 838 GiB of host memory, 1220 GiB of disk" in done.output
    assert " GB of " not in done.output


@pytest.mark.parametrize("more", [("--cards", "8"), ("--memory-gib", "32"), ("--tp", "4", "--pp", "4")])
def test_described_cards_or_degrees_have_no_recipe_job(run_on: Any, more: tuple[str, ...]) -> None:
    """The document has no job if hardware or layout are described."""
    done = run_on("bi-v150x8", "plan", *LORA, *more, "--json")

    assert json.loads(done.stdout)["job"] is None


def test_published_jobs_on_as_many_cards_come_first(run_on: Any) -> None:
    """Of each method the recipe's job on as many cards is named, before those on other numbers of cards."""
    words = ("--model", "300b", "--method", "sft", "--cards", "128", "--device", "npu")
    named = json.loads(run_on("cpu", "plan", *words, "--json").stdout)["published"]
    (line,) = [line for line in run_on("cpu", "plan", *words).output.splitlines() if line.startswith("published ")]

    assert line.startswith("published for this model and 128 such cards: ") and line.count("8 nodes with 16 cards") == 2
    assert "full fine-tuning" in line and "DPO" in line and len(named) == len(set(named)) > 2
    assert all(one.removeprefix("ernie-300b-npu: ") in " ".join(named[:2]) for one in named if "8 nodes" in one)


def test_a_plan_that_cannot_be_made_is_a_document(run_on: Any) -> None:
    """For a model that the planner does not know, the document has the job, the reason and the next step."""
    done = run_on("h200x8", "plan", "--model", "tiny", "--method", "lora", "--json")

    assert isinstance(done.exception, UndeterminedError)
    document = done.exception.document
    assert (document["verdict"], document["job"]["recipe"]) == ("unknown", "tiny-nvidia")
    assert "does not support tiny" in document["reason"] and done.exception.next_step


def test_an_own_job_without_cards_is_shown(run_on: Any, tmp_path: Path) -> None:
    """On a machine without accelerators the screen has what was read of the job, before the error."""
    job = tmp_path / "my.yaml"
    job.write_text("model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\nfinetuning_type: lora\ndataset: alpaca\n")
    result = run_on("cpu", "plan", str(job))

    assert isinstance(result.exception, UndeterminedError)
    assert result.stdout.startswith("job: ") and "Qwen/Qwen2.5-7B-Instruct" in result.stdout


UNKNOWN_JOB = "#!/bin/bash\naccelerate launch --num_processes 8 train.py --max_length 1024\n"
LORA_JOB = "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\nfinetuning_type: lora\ndataset: alpaca\n"


def test_options_fill_what_an_own_job_does_not_state(run_on: Any, tmp_path: Path) -> None:
    """The error of a job without a model and a method names the options that plan it."""
    job = tmp_path / "acc.sh"
    job.write_text(UNKNOWN_JOB)
    words = ("plan", str(job), "--device", "a100", "--cards", "8", "--json")
    refused = run_on("cpu", *words).exception
    found = json.loads(run_on("cpu", *words, "--model", "qwen2.5-7b", "--method", "lora").stdout)

    assert refused.next_step == "add --model NAME --method NAME"
    assert (found["verdict"], found["model"]) == ("fits", "qwen2.5-7b")


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        (("--method", "sft-lora", "--model", "Qwen/Qwen2.5-7B"), ""),
        (("--method", "dpo"), "--method dpo: the job sets lora"),
        (("--model", "llama-3-8b"), "--model llama-3-8b: the job sets qwen2.5-7b"),
    ],
)
def test_an_own_job_keeps_what_it_states(run_on: Any, tmp_path: Path, given: tuple[str, ...], refusal: str) -> None:
    job = tmp_path / "my.yaml"
    job.write_text(LORA_JOB)
    result = run_on("cpu", "plan", str(job), "--device", "a100", "--cards", "8", *given)

    assert (result.exception.message if refusal else "") == refusal
    assert bool(refusal) or result.exit_code == 0


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (("--tp", "4"), "--no-sequence-parallel"),
        (("--tp", "4", "--sequence-parallel"), ""),
        (("--sweep", "tp=4"), "--no-sequence-parallel"),
    ],
)
def test_a_tensor_degree_for_an_own_job(run_on: Any, tmp_path: Path, given: tuple[str, ...], same: str) -> None:
    """A degree that is typed leaves the sequence as Megatron-LM does without its option, unless that is typed, too."""
    job = tmp_path / "run.sh"
    job.write_text(f"#!/bin/bash\n{MEGATRON}\n")
    words = ("plan", str(job), "--device", "nvidia", "--cards", "8", "--json")
    splitting, whole = (
        json.loads(run_on("cpu", *words, "--tp", "4", option).stdout)["need_bytes"]["expected"]
        for option in ("--sequence-parallel", "--no-sequence-parallel")
    )

    found = json.loads(run_on("cpu", *words, *given).stdout)

    need = found["points"][0]["need_bytes"] if "--sweep" in given else found["need_bytes"]["expected"]
    assert splitting < whole
    assert need == (whole if same else splitting)


def test_an_undetermined_start(on_machine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """With truncated tool output the dry run cannot determine whether the training would start."""
    on_machine("atlas-200t-a2-box16", "truncated")
    words = ["train", "--model", "300b", "--method", "lora", "--dry-run"]
    ends = []
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as left:
            main.entry([*words, *more])
        ends.append((left.value.code, capsys.readouterr().out))
    document = json.loads(ends[1][1])

    assert [code for code, _ in ends] == [3, 3] and document["exit_code"] == 3
    assert ends[0][1].startswith("`envcheck train` would start the training here, with these checks unknown")
    assert document["error"]
