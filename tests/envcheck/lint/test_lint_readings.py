"""The first lines of a result: what a file was read as, and what was not checked; no failure where that is a guess."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core.model import Status
from envcheck.lint import linter
from envcheck.lint.linter import LintResult
from envcheck.lint.render_remarks import describe_reading
from envcheck.scripts import source_file
from tests.envcheck.report import sarif_schema


def lint_text(text: str, name: str = "run.sh") -> LintResult:
    head = "#!/bin/bash\n" if name.endswith(".sh") else ""
    return linter.lint_source(source_file.make_source(name, f"{head}{text}\n".encode()), others=False)


def describe(result: LintResult) -> tuple[list[str], list[str]]:
    """What was read as what, and what was not checked."""
    return (
        [describe_reading(each) for each in result.readings],
        [part for each in result.readings for part in each.unchecked],
    )


# The line of a script → (program, parser, what is not checked).
STARTED = {
    "llamafactory-cli train --stage sft": ("LLaMA-Factory", "OmegaConf, HfArgumentParser", []),
    "llamafactory-cli train a.yaml lr=1": (
        "LLaMA-Factory",
        "OmegaConf, HfArgumentParser",
        ["overrides KEY=VALUE of LLaMA-Factory"],
    ),
    "USE_V1=1 llamafactory-cli sft a.yaml": (
        "LLaMA-Factory v1",
        "OmegaConf, HfArgumentParser",
        ["keys of LLaMA-Factory v1"],
    ),
    "export USE_MCA=true\nllamafactory-cli train a.yaml": (
        "LLaMA-Factory with mcore_adapter",
        "OmegaConf, HfArgumentParser",
        ["keys of LLaMA-Factory with mcore_adapter"],
    ),
    "swift sft --model a/b": ("ms-swift", "PyYAML, HfArgumentParser", []),
    "megatron sft --load a": ("Megatron-SWIFT", "HfArgumentParser", ["options of Megatron-SWIFT"]),
    "erniekit train a.yaml": ("ERNIEKit", "YAML, PdArgumentParser", []),
    "python3 -m verl.trainer.main_ppo data.train_files=a": ("verl", "Hydra", ["Hydra overrides of verl"]),
    "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --x 1": ("OpenRLHF", "argparse", ["options of OpenRLHF"]),
    "deepspeed --module openrlhf.cli.train_sft --max_len 3": ("OpenRLHF", "argparse", ["options of OpenRLHF"]),
    "axolotl train a.yaml": ("axolotl", "PyYAML, pydantic", ["keys of axolotl"]),
    "tune run --nproc_per_node 2 lora_finetune --config a": ("torchtune", "OmegaConf", ["keys of torchtune"]),
    "xtuner train internlm_7b_qlora": ("xtuner", "argparse, mmengine", ["options of xtuner"]),
    "trl sft --config a.yaml": ("trl", "PyYAML, HfArgumentParser", ["options of trl"]),
    "torchrun --nproc_per_node 8 pretrain_gpt.py --lr 1": (
        "Megatron-LM or MindSpeed-LLM",
        "argparse",
        ["options of Megatron-LM or MindSpeed-LLM"],
    ),
    "torchrun --nproc_per_node 8 posttrain_gpt.py --lr 1": ("MindSpeed-LLM", "argparse", ["options of MindSpeed-LLM"]),
    "torchrun --nproc_per_node 8 mine.py --learning_rate 1 --max_steps 3": (
        "mine.py",
        "transformers' TrainingArguments",
        ["options of mine.py"],
    ),
    "torchrun --nproc_per_node 8 mine.py --learning_rate 1": ("mine.py", "", ["options of mine.py"]),
}


@pytest.mark.parametrize("text", STARTED)
def test_what_a_script_starts(text: str) -> None:
    """The trainer, the parser of its options, and what no rule covers."""
    (reading,) = (each for each in lint_text(text).readings if each.program)

    assert (reading.program, reading.parser, list(reading.unchecked)) == STARTED[text]


CONFIGURATIONS = {
    "stage: sft\nfinetuning_type: lora\ntemplate: qwen": ("LLaMA-Factory", []),
    "model_class: llm\ntrain_dataset: a\ndist_config: {name: fsdp2}": (
        "LLaMA-Factory v1",
        ["keys of LLaMA-Factory v1"],
    ),
    "base_model: a/b\nadapter: lora\nsequence_len: 3": ("axolotl", ["keys of axolotl"]),
    "actor_rollout_ref: {model: {path: a}}": ("verl", ["keys of verl"]),
    "compute_environment: LOCAL_MACHINE\nnum_processes: 2": ("accelerate", ["keys of accelerate"]),
    "services: {a: {image: b}}": ("Docker Compose", []),
    "template: |\n  Changes\ncategories: [a]": ("", ["keys, because no known program reads them"]),
}


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_what_a_configuration_is_read_as(text: str) -> None:
    """The trainer by the keys; a key that other programs have as well is no sign."""
    (reading,) = lint_text(text, "a.yaml").readings

    assert (reading.program, list(reading.unchecked)) == CONFIGURATIONS[text]


def test_a_script_without_training() -> None:
    """It was read as a shell script, and nothing of it was left out."""
    assert describe(lint_text("echo")) == (["shell script"], [])


def test_modes_with_other_options() -> None:
    """Options of the usual mode are no measure for a program in another one, or in one that is unknown."""
    plain = lint_text("llamafactory-cli train --stage sft --model_class llm")
    others = [
        lint_text(f"{switch} llamafactory-cli train --stage nothing --model_class llm")
        for switch in ("USE_V1=1", "USE_MCA=1", "USE_V1=$V1")
    ]

    assert "options.unknown" in {remark.rule for remark in plain.remarks}
    assert [{remark.rule for remark in each.remarks} & {"options.unknown", "options.value"} for each in others] == [
        set(),
        set(),
        set(),
    ]


def test_no_failure_by_guess() -> None:
    """The options of an unknown program fail only if they are those of a common parser, and else are UNKNOWN."""
    found = [
        [(remark.severity, remark.fix) for remark in lint_text(text).remarks if remark.rule == "training.rate"]
        for text in ("python train.py --lr -1", "python train.py --lr -1 --max_steps 5 --save_steps 5")
    ]

    assert found == [[(Status.UNKNOWN, None)], [(Status.FAIL, None)]]


SWIFT = "model: a/b\ntuner_type: lora\n"


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("learning_rate: 1e-4\nmax_length: 2048\n", []),
        ("learning_rte: 1e-4\n", [(Status.WARN, "ms-swift does not list a key learning_rte")]),
        (
            "strange: 1\n",
            [(Status.UNKNOWN, "ms-swift >=4 and >=3,<4 does not list strange, and exits on unknown options")],
        ),
        ("rlhf_type: dpo\nbeta: 0.1\n", []),
        ("rlhf_type: dpo\nloss_typ: a\n", [(Status.WARN, "swift rlhf does not list a key loss_typ")]),
        ("infer_backend: vllm\n", []),  # of another command that reads such a file
        ("ENV:\n  HCCL_IF_BASE_PORT: 1\n", []),  # variables, which the command line sets
        ("external_plugins: own.py\nstrange: 1\n", []),  # the plugin may add it
        ("tensor_model_parallel_size: 2\nstrange: 1\n", []),  # Megatron-SWIFT, of which there is no list
    ],
)
def test_keys_of_swift(keys: str, found: list[tuple[Status, str]]) -> None:
    """The command line makes options of the keys, and rejects unknown ones; the file does not say for which command."""
    result = lint_text(SWIFT + keys, "sft.yaml")

    assert [(each.severity, each.seen) for each in result.remarks if each.rule == "config.unknown"] == found
    assert describe(result)[1] == (["options of ms-swift"] if "tensor_model" in keys else [])


FOREIGN = "train_type: lora\nper_device_train_batch_size: 1\nmicro_batch_size: 1\nlearning_rte: 1e-4\n"


def test_one_key_of_another_program_is_a_finding() -> None:
    """A Megatron key among those of the Trainer hides no mistake, and is unknown itself."""
    result = lint_text("model: a/b\n" + FOREIGN, "sft.yaml")
    found = [each.seen for each in result.remarks if each.rule == "config.unknown"]

    assert any("learning_rte" in each for each in found) and any("micro_batch_size" in each for each in found)
    assert describe(result)[1] == []


@pytest.mark.parametrize("keys", [FOREIGN, "micro_batch_size: 1\nglobal_batch_size: 8\nlearning_rte: 1e-4\n"])
@pytest.mark.parametrize("command", ["swift sft", "megatron sft"])
def test_the_command_decides_about_a_file(command: str, keys: str) -> None:
    """A file that a script writes has the options of the command that reads it, whatever its keys."""
    text = (
        f"#!/bin/bash\ncat > sft.yaml <<'END'\nmodel: a/b\ntuner_type: lora\n{keys}END\n{command} --config sft.yaml\n"
    )
    found = [each.seen for each in lint_text(text, "run.sh").remarks if each.rule == "config.unknown"]

    assert any("learning_rte" in each for each in found) == (command == "swift sft")


def test_first_lines(tmp_path: Path) -> None:
    """Text, JSON and SARIF all begin with what was read, and what was not checked."""
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/bash\npython3 -m verl.trainer.main_ppo data.train_files=a\n")
    text, document, sarif = (
        CliRunner().invoke(main.main, ["lint", str(script), "--no-shellcheck", *form], standalone_mode=False).stdout
        for form in ([], ["--json"], ["--sarif"])
    )
    (run,) = json.loads(sarif)["runs"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]

    assert text.splitlines()[:2] == [
        "run.sh read as: script that starts verl (Hydra)",
        "not checked: Hydra overrides of verl",
    ]
    assert json.loads(document)["readings"] == [
        {
            "kind": "bash",
            "program": "verl",
            "versions": None,
            "parser": "Hydra",
            "not_checked": ["Hydra overrides of verl"],
        }
    ]
    assert (note["level"], note["properties"]["notChecked"]) == ("note", ["Hydra overrides of verl"])
    assert sarif_schema.list_sarif_errors(json.loads(sarif)) == []
