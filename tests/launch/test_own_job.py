"""`envcheck train`, `doctor` and `plan` with a job of the user's own, on simulated machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from envcheck.cli import main
from envcheck.core.errors import EnvcheckError, UndeterminedError, UsageError
from envcheck.core.facts import Facts, MachineRequirements
from envcheck.job import own_recipe_builder
from envcheck.job.requirements import own_job
from envcheck.scripts.jobs.own_job_reader import read_file_job
from launch import own_job_facts, resume_run
from launch.runs import request_note
from tests.envcheck.scripts.test_own_job_reader import LLAMAFACTORY, PADDLENLP, SWIFT
from tests.launch.test_train import make_variables, read_record
from tests.simulated_machines import Enter, on_machine, run_on

__all__ = ("on_machine", "run_on")
Run = Callable[..., Result]
PROGRAM = Path(__file__).with_name("own_job_program.py")
HUGE = """\
torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-32B --stage sft --finetuning_type full \\
  --bf16 true --output_dir out --per_device_train_batch_size 1 --cutoff_len 4096 --gradient_accumulation_steps 1 \\
  --disable_gradient_checkpointing false --deepspeed {config}
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for the launchers in PATH, and a file for each framework in the working folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("llamafactory-cli", "torchrun"):
        (folder / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / name).chmod(0o755)
    (tmp_path / "my.yaml").write_text(LLAMAFACTORY.replace("deepspeed: ds_z2.json\n", ""))
    (tmp_path / "train.py").write_text("")
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return tmp_path


def read_gates(result: Result) -> dict[str, dict[str, Any]]:
    return {gate["name"].removeprefix("gate."): gate for gate in json.loads(result.stdout)["gates"]}


def test_gates_of_a_file(run_on: Run, programs: Path) -> None:
    """A YAML is judged on the machine's cards by its own values; the document has them with their places."""
    said = json.loads(run_on("atlas-800t-a2", "train", "my.yaml", "--gates", "--json").stdout)

    assert (said["state"], said["model"], said["method"], said["device"]) == ("ready", "qwen2.5-7b", "lora", "npu")
    values = said["own"]["values"]
    assert values["model"] == {
        "value": "Qwen/Qwen2.5-7B-Instruct", "state": "read", "where": "my.yaml:2", "option": "model_name_or_path",
    }  # fmt: skip
    assert (values["cards"]["value"], values["cards"]["state"]) == ("8", "assumed")
    gates = {gate["name"]: gate["status"] for gate in said["gates"]}
    assert (gates["gate.memory"], gates["gate.lint"], gates["gate.environment"]) == ("OK", "OK", "NOT_APPLICABLE")


def test_dry_run_shows_the_command_unchanged(run_on: Run, programs: Path) -> None:
    """--dry-run shows what was read and the user's command, without variables of ours."""
    text = run_on("atlas-800t-a2", "train", "my.yaml", "--dry-run", "--", "cutoff_len=2048").stdout

    assert "llamafactory-cli train my.yaml cutoff_len=2048" in text
    assert "my.yaml:2" in text and "would start" in text
    assert "environment:" not in text and "unset:" not in text


def test_same_job_in_every_command(run_on: Run, programs: Path) -> None:
    """doctor, plan and train describe one job."""
    documents = [
        json.loads(run_on("atlas-800t-a2", *words, "--json").stdout)
        for words in (("doctor", "my.yaml"), ("plan", "my.yaml"), ("train", "my.yaml", "--dry-run"))
    ]

    jobs = [document["job"] for document in documents]
    assert jobs[0] == jobs[1] == jobs[2]
    assert (jobs[0]["cards"], jobs[0]["own"]["source"]) == (8, "my.yaml")


def test_lint_closes_a_gate(run_on: Run, programs: Path) -> None:
    """A failure of the linter closes gate.lint with its line, and can be waived."""
    text = "torchrun --nproc_per_node 2 --nnodes 2 --node_rank 0 train.py --max_steps 1 --lr 1"
    (programs / "run.sh").write_text(text)
    words = ("train", "run.sh", "--gates", "--json")
    found = read_gates(run_on("atlas-800t-a2", *words))["lint"]
    waived = read_gates(run_on("atlas-800t-a2", *words, "--waive", "lint", "--because", "a test"))["lint"]

    assert found["status"] == "FAIL"
    assert "run.sh:1" in found["evidence"][0]
    assert waived["status"] == "WARN"


@pytest.mark.parametrize("text", ("", "echo hello\n", "echo $hello\n"), ids=("empty", "other", "warned"))
def test_script_without_training_is_unknown(run_on: Run, programs: Path, text: str) -> None:
    """A script in which no training was found is no job that passes; plan gives the same reason."""
    (programs / "run.sh").write_text(text)
    gates = read_gates(run_on("h200x8", "train", "run.sh", "--gates", "--json"))
    planned = run_on("h200x8", "plan", "run.sh")

    assert (gates["lint"]["status"], gates["lint"]["seen"]) == ("UNKNOWN", "no training was found in run.sh")
    assert isinstance(planned.exception, UndeterminedError)
    assert "no training was found in run.sh" in str(planned.exception.message)


LAUNCH = "torchrun --nproc_per_node 8 train.py --max_steps 1 --lr 0.1"
SOURCED = {
    "direct": ("source ./part.sh", LAUNCH),
    "function": (". ./part.sh\nrun_train 2", f"run_train() {{\n  {LAUNCH} --micro_batch_size $1\n}}"),
    "nested": ("source ./other.sh", LAUNCH),
}


@pytest.mark.parametrize("kind", SOURCED)
def test_training_in_a_sourced_file_is_unknown(run_on: Run, programs: Path, kind: str) -> None:
    """A training that a sourced file starts is not judged: gates, plan and lint name the file."""
    script, part = SOURCED[kind]
    (programs / "run.sh").write_text(f"{script}\n")
    (programs / "part.sh").write_text(f"{part}\n")
    (programs / "other.sh").write_text("source ./part.sh\n")
    gate = read_gates(run_on("h200x8", "train", "run.sh", "--gates", "--json"))["lint"]
    planned = run_on("h200x8", "plan", "run.sh")
    linted = json.loads(run_on("h200x8", "lint", "run.sh", "--json").stdout)

    assert (gate["status"], "./part.sh" in gate["seen"]) == ("UNKNOWN", True)
    assert isinstance(planned.exception, UndeterminedError)
    assert "./part.sh" in str(planned.exception.message)
    assert any("./part.sh" in part for reading in linted["readings"] for part in reading["not_checked"])


def test_sourced_file_that_is_missing_is_named(run_on: Run, programs: Path) -> None:
    """The training may be in a sourced file that cannot be read."""
    (programs / "run.sh").write_text("source ./absent.sh\n")
    gate = read_gates(run_on("h200x8", "train", "run.sh", "--gates", "--json"))["lint"]

    assert (gate["status"], "./absent.sh" in gate["seen"]) == ("UNKNOWN", True)


@pytest.mark.parametrize("given", ('--config_file "my file.yaml"', "--config_file='my file.yaml'"))
def test_absent_file_of_the_launcher_is_named(run_on: Run, programs: Path, given: str) -> None:
    """A missing file with the launcher's own options is named with its line, and by the linter."""
    (programs / "run.sh").write_text(f"cd .\naccelerate launch {given} train.py --max_steps 1 --lr 0.1\n")
    said = json.loads(run_on("h200x8", "train", "run.sh", "--dry-run", "--json").stdout)
    linted = json.loads(run_on("h200x8", "lint", "run.sh", "--json").stdout)

    assert said["job"]["own"]["notes"] == ["run.sh:2: my file.yaml not found; its options are unknown"]
    assert any("my file.yaml" in each["seen"] for each in linted["findings"] if each["rule"] == "paths.missing")


def test_absent_deepspeed_file_is_named(run_on: Run, programs: Path) -> None:
    """A DeepSpeed file that a configuration names and that is missing is in the notes and among the required files."""
    text = "model_name_or_path: a/b\nstage: sft\nfinetuning_type: lora\ntemplate: qwen\ndataset: x\n"
    (programs / "my.yaml").write_text(f"{text}deepspeed: ds/absent.json\n")
    own = json.loads(run_on("h200x8", "train", "my.yaml", "--dry-run", "--json").stdout)["job"]["own"]

    assert own["notes"] == ["my.yaml:6: ds/absent.json not found; its options are unknown"]


def test_variables_of_an_absent_file_are_unknown(run_on: Run, programs: Path) -> None:
    """Every command names a sourced file that was not read, unless the script tests for it or makes it."""
    lines = ("[ -f ./tested.sh ] && . ./tested.sh", "echo A=1 > ./made.sh", ". ./made.sh", "source ./absent.sh", LAUNCH)
    (programs / "run.sh").write_text("\n".join(lines))
    said = json.loads(run_on("h200x8", "train", "run.sh", "--dry-run", "--json").stdout)

    note = "run.sh:4: ./absent.sh, which it sources, was not read: its variables are unknown"
    assert said["job"]["own"]["notes"] == [note]


def test_training_beside_a_sourced_one_is_judged(run_on: Run, programs: Path) -> None:
    """The script's own training is judged, with a note on the other; a file without a training has none."""
    (programs / "run.sh").write_text(f"source ./part.sh\nsource ./names.sh\n{LAUNCH}\n")
    (programs / "part.sh").write_text(f"{LAUNCH}\n")
    (programs / "names.sh").write_text("A=1\nuse() {\n  echo $A\n}\n")
    said = json.loads(run_on("h200x8", "train", "run.sh", "--gates", "--json").stdout)

    assert said["own"]["notes"] == ["the training in ./part.sh, which it sources, is not judged"]
    assert said["own"]["values"]["cards"]["value"] == "8"


def test_assumed_values_do_not_refuse(run_on: Run, programs: Path) -> None:
    """What fails with every value read is a failure; with an assumed one it is unknown, and the option is named."""
    (programs / "none.json").write_text('{"zero_optimization": {"stage": 0}}')
    (programs / "run.sh").write_text(HUGE.format(config="none.json"))
    (programs / "unread.sh").write_text(HUGE.format(config="$CONFIG"))
    gates = {
        name: read_gates(run_on("atlas-800t-a2", "train", name, "--gates", "--json"))["memory"]
        for name in ("run.sh", "unread.sh")
    }

    assert gates["run.sh"]["status"] == "FAIL"
    assert gates["unread.sh"]["status"] == "UNKNOWN"
    assert "deepspeed" in gates["unread.sh"]["remedy"]["words"]


@pytest.mark.parametrize(("machine", "card"), (("h200x8", "h200"), ("atlas-800t-a2", "910b")))
def test_printed_plan_has_the_same_answer(run_on: Run, programs: Path, machine: str, card: str) -> None:
    """The command that gate.memory prints names card and framework: elsewhere it gives the same verdict and sum."""
    (programs / "none.json").write_text('{"zero_optimization": {"stage": 0}}')
    (programs / "run.sh").write_text(HUGE.format(config="none.json"))
    gate = read_gates(run_on(machine, "train", "run.sh", "--gates", "--json"))["memory"]
    (command,) = gate["remedy"]["commands"]
    told = json.loads(run_on("cpu", *command.split()[1:], "--json").stdout)
    whole = json.loads(run_on(machine, "plan", "run.sh", "--json").stdout)

    assert f"--device {card}" in command and "--framework llamafactory" in command
    assert (told["verdict"], told["device"], told["framework"]) == (whole["verdict"], whole["device"], "llamafactory")
    assert told["interval_bytes"] == whole["interval_bytes"]


def test_a_framework_without_figures_is_unknown(run_on: Run, programs: Path) -> None:
    """The memory of a framework that the planner does not know is unknown: it is not planned as another one."""
    (programs / "n.json").write_text(json.dumps({**PADDLENLP, "finetuning_type": "lora"}))
    words = ("python", "-m", "paddle.distributed.launch", "--gpus", "0,1", "run_finetune.py", "n.json")
    gates = read_gates(run_on("h200x8", "train", "--gates", "--json", "--", *words))

    assert (gates["memory"]["status"], gates["degrees"]["status"]) == ("UNKNOWN", "NOT_APPLICABLE")
    assert gates["memory"]["seen"] == "envcheck recognises PaddleNLP, but cannot plan its memory"


def test_unplanned_options_do_not_refuse(run_on: Run, programs: Path) -> None:
    """Options that save memory in a way that the planner does not know make its refusal an unknown."""
    (programs / "none.json").write_text('{"zero_optimization": {"stage": 0}}')
    (programs / "run.sh").write_text(HUGE.format(config="none.json").strip() + " --use_badam true")
    gates = read_gates(run_on("atlas-800t-a2", "train", "run.sh", "--gates", "--json"))

    assert gates["memory"]["status"] == "UNKNOWN"


def test_unknown_program_is_not_refused(run_on: Run, programs: Path) -> None:
    """A program that envcheck does not know starts: its memory is unknown, no gate is closed."""
    gates = read_gates(run_on("atlas-800t-a2", "train", "--gates", "--json", "--", "torchrun", "train.py"))

    assert gates["memory"]["status"] == "UNKNOWN"
    assert [name for name, gate in gates.items() if gate["status"] == "FAIL"] == []


def test_full_card_is_refused(on_machine: Enter, programs: Path) -> None:
    """Nothing trains on a card without free memory, even if nobody knows how much the job needs."""
    on_machine("atlas-800t-a2", "memory-held=62222")
    words = ["train", "--gates", "--json", "--", "torchrun", "train.py"]
    memory = read_gates(CliRunner().invoke(main.main, words, standalone_mode=False))["memory"]

    assert memory["status"] == "FAIL"
    assert "device 0" in memory["seen"]


def test_cards_are_those_of_the_command(on_machine: Enter, run_on: Run, programs: Path) -> None:
    """--devices sets the visible devices; the job's own list is obeyed, and cannot be changed."""
    named = ("--dry-run", "--", "torchrun", "train.py")
    chosen = run_on("atlas-800t-a2", "train", "--devices", "4", *named).stdout
    listed = "ASCEND_RT_VISIBLE_DEVICES=5 torchrun --nproc_per_node 1 train.py --lr 1 --max_steps 1"
    (programs / "run.sh").write_text(listed)
    said = json.loads(run_on("atlas-800t-a2", "train", "run.sh", "--dry-run", "--json").stdout)
    refused = run_on("atlas-800t-a2", "train", "run.sh", "--devices", "4", "--dry-run")

    assert "ASCEND_RT_VISIBLE_DEVICES=4" in chosen
    assert (said["job"]["devices"], said["environment"]) == ([5], {})
    assert "selects the devices 5 itself" in str(refused.exception)


def test_absent_program(run_on: Run, programs: Path) -> None:
    """A program that PATH does not have closes gate.command."""
    gates = read_gates(run_on("atlas-800t-a2", "train", "--gates", "--json", "--", "no-such-launcher", "train.py"))

    assert gates["command"]["status"] == "FAIL"
    assert "no-such-launcher" in gates["command"]["seen"]


PROGRAMS = (
    ("llamafactory-cli train my.yaml", "OK", ""),
    ("swift sft --model a/b --dataset x.jsonl", "FAIL", "run.sh:2: swift is not in PATH"),
    ("nohup swift sft --model a/b > log 2>&1", "FAIL", "run.sh:2: swift is not in PATH"),
    ("export PATH=/none:$PATH\nswift sft --model a/b", "FAIL", "run.sh:3: swift is not in PATH"),
    ("./swift sft --model a/b", "FAIL", "run.sh:2: ./swift is missing or not executable"),
    ("source /none/activate\nswift sft --model a/b", "UNKNOWN", "whether the script puts swift into PATH"),
    ("conda activate x\nswift sft --model a/b", "UNKNOWN", "whether the script puts swift into PATH"),
    ("export PATH=$ROOT/bin:$PATH\nswift sft --model a/b", "UNKNOWN", "whether the script puts swift into PATH"),
    ("if [ -n $X ]; then swift sft --model a/b; fi", "UNKNOWN", "whether the script puts swift into PATH"),
    ("swift() { true; }\nswift sft --model a/b", "OK", ""),
    ("docker run image swift sft --model a/b", "FAIL", "docker is not in PATH"),
)


@pytest.mark.parametrize(("text", "status", "seen"), PROGRAMS, ids=[text for text, _status, _seen in PROGRAMS])
def test_programs_of_a_script(
    programs: Path, monkeypatch: pytest.MonkeyPatch, text: str, status: str, seen: str
) -> None:
    """The programs that a script starts are looked for in the PATH that it has there, if that can be read."""
    for name in ("bash", "nohup"):
        (programs / "bin" / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(programs / "bin"))
    monkeypatch.chdir(programs)
    (programs / "run.sh").write_text(f"#!/bin/bash\n{text}\n")
    script = own_job_facts.judge_script(read_file_job("run.sh", environment=os.environ), Facts())
    (found,) = own_job.check_programs(Facts(wanted=MachineRequirements("run", "lora", "npu", script=script)))

    assert (found.status.name, seen in found.seen) == (status, True), found.seen


def test_doctor_and_train_agree(run_on: Run, programs: Path) -> None:
    """What closes gate.lint or gate.command of a script fails in doctor, in the same words, and is named by plan."""
    (programs / "run.sh").write_text(
        "absent/torchrun --nproc_per_node 2 --nnodes 2 --node_rank 0 train.py --stage sft --max_steps 1"
        " --model_name_or_path Qwen/Qwen2.5-7B-Instruct --finetuning_type lora"
    )
    result = run_on("atlas-800t-a2", "doctor", "run.sh", "--only", "job.script", "--only", "job.programs", "--json")
    document = json.loads(result.stdout)
    doctor = {check["name"]: check for check in document["findings"]}
    gates = read_gates(run_on("atlas-800t-a2", "train", "run.sh", "--gates", "--json"))
    plan = json.loads(run_on("atlas-800t-a2", "plan", "run.sh", "--json").stdout)

    assert document["exit_code"] == 1
    assert {check["status"] for check in doctor.values()} == {"FAIL"}
    for check, gate in (("job.programs", "command"), ("job.script", "lint")):
        assert (gates[gate]["status"], gates[gate]["seen"]) == ("FAIL", doctor[check]["seen"])
    assert {"script", "programs"} <= set(plan["job"]["blocked_by"])


def test_template_closes_the_gate(run_on: Run, programs: Path) -> None:
    """A placeholder that bash cannot parse is a warning of lint, but a script that is to run fails by it."""
    text = "#!/bin/bash\nexport TOKEN=<your token>\ntorchrun --nproc_per_node 2 train.py --max_steps 1\n"
    (programs / "run.sh").write_text(text)
    gate = read_gates(run_on("atlas-800t-a2", "train", "run.sh", "--gates", "--json"))["lint"]
    (check,) = json.loads(run_on("atlas-800t-a2", "doctor", "run.sh", "--only", "job.script", "--json").stdout)[
        "findings"
    ]
    remarks = own_job_facts.lint_own_job(read_file_job("run.sh", environment=os.environ), Facts()).remarks

    assert (gate["status"], check["status"]) == ("FAIL", "FAIL")
    assert "bash syntax error" in gate["evidence"][0]
    assert {remark.severity.name for remark in remarks if remark.rule == own_job_facts.SYNTAX} == {"WARN"}


def test_programs_of_another_host_are_unknown(run_on: Run, programs: Path) -> None:
    """Of a recorded machine nobody knows whether it has the program."""
    snapshot = run_on("atlas-800t-a2", "snapshot", "-o", "machine.json")
    result = run_on(
        "atlas-800t-a2", "doctor", "my.yaml", "--replay", "machine.json", "--only", "job.programs", "--json"
    )

    assert snapshot.exception is None
    (check,) = json.loads(result.stdout)["findings"]
    assert check["status"] == "UNKNOWN"


INVALID = (
    ("cutoff_len: 9999999999", "my.yaml:{line}: cutoff_len 9999999999: expected an integer from 1 to 100000000"),
    ("lora_rank: 0", "my.yaml:{line}: lora_rank 0: expected an integer from 1 to 1000000"),
    ("per_device_train_batch_size: -1", "my.yaml:{line}: per_device_train_batch_size -1: expected an integer"),
    ("cutoff_len: 1.5", "my.yaml:{line}: cutoff_len 1.5: expected an integer"),
)


@pytest.mark.parametrize(("entry", "message"), INVALID, ids=[entry for entry, _message in INVALID])
def test_values_out_of_range(run_on: Run, programs: Path, entry: str, message: str) -> None:
    """A number that no training takes is named with its place, and its memory is never planned with a default."""
    key = entry.partition(":")[0]
    lines = [line for line in LLAMAFACTORY.splitlines() if not line.startswith((key, "deepspeed"))]
    (programs / "my.yaml").write_text("\n".join([*lines, entry, ""]))
    seen = message.format(line=len(lines) + 1)
    plan = run_on("atlas-800t-a2", "plan", "my.yaml")
    memory = read_gates(run_on("atlas-800t-a2", "train", "my.yaml", "--gates", "--json"))["memory"]
    created = run_on("atlas-800t-a2", "recipes", "create", "my.yaml")

    assert isinstance(plan.exception, EnvcheckError) and isinstance(created.exception, EnvcheckError)
    assert (plan.exception.code, created.exception.code) == (3, 2)
    assert seen in str(plan.exception.message) and seen in str(created.exception.message)
    assert memory["status"] == "UNKNOWN" and seen in memory["seen"]


def test_options_replace_values_out_of_range(run_on: Run, programs: Path) -> None:
    """plan works with the number of its own option, and shows where it has it from."""
    text = (programs / "my.yaml").read_text()
    (programs / "my.yaml").write_text(f"{text}cutoff_len: -1\n")
    result = run_on("atlas-800t-a2", "plan", "my.yaml", "--seq-len", "1024")

    assert result.exception is None
    assert "1024 tokens" in result.stdout
    assert any(line.split()[-2:] == ["1024", "--seq-len"] for line in result.stdout.splitlines())


@pytest.mark.parametrize("command", ("train", "doctor", "plan"))
def test_broken_configuration(run_on: Run, programs: Path, command: str) -> None:
    """A file that is not valid YAML is refused with the line and the parser's words."""
    (programs / "my.yaml").write_text("stage: sft\nlora_target: [q_proj, v_proj\ncutoff_len: 3\n")
    error = run_on("atlas-800t-a2", command, "my.yaml").exception

    assert isinstance(error, EnvcheckError) and error.code == 2
    assert str(error.message) == "my.yaml:3: cannot parse the configuration: expected ',' or ']', but got ':'"


REFUSED = (
    (("my.yaml", "--model", "21b"), "--model cannot be combined with my.yaml"),
    (("my.yaml", "--recipe", "tiny-cpu"), "--recipe cannot be combined"),
    (("my.yaml", "--set", "lora_rank=8"), "--set cannot be combined"),
    (("my.yaml", "train.py"), "takes one file, got 2"),
    (("bin",), "bin is a directory"),
    (("none.yaml",), "none.yaml does not exist"),
    (("-",), "needs a file, not standard input"),
    (("train.py",), "train.py is a program"),
    (("my.yaml", "--hosts", "a,b"), "runs on this machine only, not with --hosts"),
    (("my.yaml", "--on", "slurm"), "runs on this machine only, not with --on"),
    (("--", "--bf16", "true"), "no model or recipe specified"),
)


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_refused_command_lines(run_on: Run, programs: Path, words: tuple[str, ...], message: str) -> None:
    """What cannot be a job is one sentence, exit code 2."""
    result = run_on("atlas-800t-a2", "train", *words)

    assert isinstance(result.exception, EnvcheckError)
    assert result.exception.code == 2
    assert message in str(result.exception.message)
    assert result.exception.next_step


@pytest.mark.parametrize(
    ("words", "is_recipe"), ((("--hosts", "a,b"), False), (("--on", "slurm"), True)), ids=("hosts", "slurm")
)
def test_next_step_of_a_job_of_one_machine(
    run_on: Run, programs: Path, words: tuple[str, ...], is_recipe: bool
) -> None:
    """A recipe of a job of one node runs on a scheduler, and not on two hosts: the next step names what is possible."""
    error = run_on("atlas-800t-a2", "train", "my.yaml", *words).exception

    assert isinstance(error, EnvcheckError)
    assert ("recipes create" in str(error.next_step)) is is_recipe


def run_own(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "train", "--json", "--", sys.executable, str(PROGRAM)]
    return subprocess.run(
        [*argv, "--output_dir", "out", "--max_steps", "30", *words],
        cwd=folder,
        env=make_variables(folder / "home", MY_TOKEN="mine", RANK="3"),
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.slow
def test_own_command_is_supervised(tmp_path: Path) -> None:
    """The command runs in the user's folder and environment, and ends in a record with loss curve and checkpoint."""
    (tmp_path / "out" / "checkpoint-1").mkdir(parents=True)  # of an earlier training
    (tmp_path / "out" / "checkpoint-1" / "model.safetensors").write_bytes(b"old")
    for path in (tmp_path / "out" / "checkpoint-1" / "model.safetensors", tmp_path / "out" / "checkpoint-1"):
        subprocess.run(["touch", "-d", "2020-01-01", str(path)], check=True)
    done = run_own(tmp_path)

    assert done.returncode == 0, done.stderr
    said = read_record(tmp_path)
    assert said == json.loads(done.stdout)
    assert (said["state"], said["own"]["source"], len(said["loss"])) == ("succeeded", "command", 30)
    assert [Path(path).name for path in said["checkpoints"]] == ["checkpoint-9"]
    (log,) = tmp_path.glob("runs/*/log/launcher.log")
    assert log.read_text().splitlines()[0] == f"token mine rank 3 folder {tmp_path}"
    assert list(tmp_path.glob("runs/*/loss.svg"))


@pytest.mark.extended
def test_own_command_is_resumed(tmp_path: Path) -> None:
    """--resume adds the framework's option to the same command; the checkpoint is that of the run."""
    words = ("--model_name_or_path", "a/b", "--per_device_train_batch_size", "1", "--num_train_epochs", "1")
    failed = run_own(tmp_path, *words, "--exit", "7")
    argv = [sys.executable, "-m", "envcheck", "train", "--resume", "latest", "--json"]
    done = subprocess.run(
        argv, cwd=tmp_path, env=make_variables(tmp_path / "home"), capture_output=True, text=True, timeout=240
    )

    assert "envcheck train --resume" in failed.stderr
    said = json.loads(done.stdout)
    assert said["command"][-2] == "--resume_from_checkpoint"
    assert said["command"][-1].endswith("/output/checkpoint-9")
    assert said["resumed_from"]["checkpoint"] == said["command"][-1]


WORDS = (
    (("--runs", "./runs", "--", "python3", "t.py"), "--runs ./runs -- python3 t.py"),
    (("--resume", "latest", "--device=cpu", "--", "python3", "t.py", "--resume", "x"),
     "--device=cpu -- python3 t.py --resume x"),
    (("--recipe", "mine", "--resume=latest"), "--recipe mine --"),
)  # fmt: skip


@pytest.mark.parametrize(("words", "start"), WORDS, ids=("new", "resumed", "recipe"))
def test_unknown_resume_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], start: str
) -> None:
    """For a program without a known resume option the next step is a command that starts it from the checkpoint."""
    monkeypatch.setattr(request_note, "_notes_path", lambda: tmp_path / "notes.jsonl")
    monkeypatch.setenv("HOME", str(tmp_path))
    request_note.save_note(tmp_path / "run", request_note.RequestNote(words=words, typed_in=tmp_path))

    command = resume_run.write_own_resumption(tmp_path / "run")

    assert command == f"envcheck train {start} --resume_from_checkpoint DIR"


@pytest.mark.parametrize(
    ("text", "end"),
    ((LLAMAFACTORY, ("resume_from_checkpoint=c",)), (SWIFT, ("--resume_from_checkpoint", "c"))),
    ids=("llamafactory", "swift"),
)
def test_added_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, end: tuple[str, ...]) -> None:
    """What is added to a command has the form that its framework takes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.yaml").write_text(text)
    own = own_recipe_builder.add_settings(
        read_file_job("my.yaml", environment=os.environ), ("resume_from_checkpoint=c",)
    )

    assert own.argv[-len(end) :] == end


def test_nothing_is_added_to_a_script(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script's command cannot be extended: one sentence, with what helps."""
    monkeypatch.chdir(programs)
    (programs / "run.sh").write_text("torchrun train.py --max_steps 1 --lr 1\n")

    with pytest.raises(UsageError, match="is a script"):
        own_recipe_builder.add_settings(read_file_job("run.sh", environment=os.environ), ("resume_from_checkpoint=c",))


@pytest.mark.slow
def test_own_command_that_fails(tmp_path: Path) -> None:
    """Its failure is exit code 5, with its last lines in the record."""
    done = run_own(tmp_path, "--exit", "7")

    assert done.returncode == 5, done.stderr
    assert read_record(tmp_path)["exit"] == {"code": 5, "status": 7}


RESTARTS = (
    ("torchrun --nnodes 2 --node_rank 0 --master_addr node1 train.py --max_steps 1 --lr 0.1", 2),
    ("torchrun --nnodes 1:2 --rdzv_endpoint node1:29500 train.py --max_steps 1 --lr 0.1", 0),
)


@pytest.mark.parametrize(("text", "code"), RESTARTS, ids=("fixed", "elastic"))
def test_restart_of_several_nodes(run_on: Run, programs: Path, text: str, code: int) -> None:
    """--restart is refused where a faulty node cannot be left out; an elastic launcher leaves it out itself."""
    (programs / "run.sh").write_text(text)
    result = run_on("atlas-800t-a2", "train", "run.sh", "--restart", "1", "--dry-run")

    if code:
        assert isinstance(result.exception, UsageError)
        assert "cannot restart the other nodes: the job has 2 nodes" in str(result.exception.message)
    else:
        assert not isinstance(result.exception, UsageError)


def test_restart_by_a_scheduler(run_on: Run, programs: Path) -> None:
    """A scheduler requeues jobs itself: the script has its option, and the nodes do not get ours."""
    words = ("--recipe", "ernie-300b-npu", "--method", "sft", "--on", "slurm", "--restart", "1", "--as-script")
    text = run_on("atlas-800t-a2", "train", *words).stdout

    assert "#SBATCH --requeue" in text
    assert "--restart" not in text


UNSURE = "source ./env.sh\ntorchrun --nproc_per_node 1 train.py --max_steps 1 --lr 0.1 --model_name_or_path a/b\n"


@pytest.mark.slow
def test_unknown_checks(tmp_path: Path) -> None:
    """A check that is unknown does not prevent the start, which is printed with the option that changes it."""
    (tmp_path / "run.sh").write_text(UNSURE)
    (tmp_path / "env.sh").write_text(f"PATH={tmp_path}/there:$PATH\n")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "torchrun").write_text("#!/bin/sh\n")
    (tmp_path / "there" / "torchrun").chmod(0o755)
    ends = {more: run_train(tmp_path, "run.sh", *more) for more in ((), ("--fail-on-unknown",), ("--dry-run",))}
    started, refused, shown = ends.values()

    assert "unknown: gate.command: run.sh:2: cannot determine whether the script puts torchrun" in started.stderr
    assert "unknown preflight checks do not prevent the start; --fail-on-unknown changes that" in started.stderr
    assert len(list((tmp_path / "runs").glob("*/run.json"))) == 1
    assert (refused.returncode, shown.returncode) == (3, 3)
    assert "preflight check is unknown; the training was not started" in refused.stderr
    assert "`envcheck train` would start the training here, with these checks unknown" in shown.stdout


def run_train(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = ":".join(part for part in os.environ["PATH"].split(":") if not Path(part, "torchrun").exists())
    return subprocess.run(
        [sys.executable, "-m", "envcheck", "train", "--device", "cpu", *words],
        cwd=folder, env={**make_variables(folder / "home"), "PATH": path}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def test_degrees_of_an_own_job_do_not_name_options_of_recipes(run_on: Run, programs: Path) -> None:
    """Degrees that do not divide the processes are corrected in the job: --cards-per-node does not apply to it."""
    settings = {**PADDLENLP, "finetuning_type": "lora", "tensor_parallel_degree": 3, "dataset_name_or_path": "./data"}
    (programs / "n.json").write_text(json.dumps(settings))
    words = ("python", "-m", "paddle.distributed.launch", "--gpus", "0,1", "run_finetune.py", "n.json")
    gates = read_gates(run_on("h200x8", "train", "--gates", "--json", "--", *words))

    assert gates["world"]["status"] == "FAIL"
    assert "--cards-per-node" not in gates["world"]["remedy"]["words"]
    assert "PaddleNLP" in gates["memory"]["seen"] and "or framework" in gates["degrees"]["seen"]


def test_no_device_list_is_advised_on_the_cpu(run_on: Run, programs: Path) -> None:
    """A job that runs on the CPU is not told to set a list of visible cards."""
    said = json.loads(run_on("cpu", "train", "my.yaml", "--device", "cpu", "--dry-run", "--json").stdout)

    cards = said["job"]["own"]["values"]["cards"]
    assert (cards["value"], cards["state"]) == ("1", "assumed")
    assert "VISIBLE_DEVICES" not in json.dumps(cards)


MEGATRON_SCRIPT = """#!/bin/bash
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 40 --hidden-size 5120 --num-attention-heads 40 \\
  --ffn-hidden-size 13824 --swiglu --normalization RMSNorm --padded-vocab-size 32000 --seq-length 4096 \\
  --train-iters 9 --micro-batch-size 1 --global-batch-size 8 --load checkpoints --bf16
"""


def test_a_model_without_a_name(run_on: Run, programs: Path) -> None:
    """Documents show the size of a model that options describe, not the text that the planner reads."""
    (programs / "pretrain_gpt.py").write_text("")
    (programs / "meg.sh").write_text(MEGATRON_SCRIPT)

    said = json.loads(run_on("atlas-800t-a2", "train", "meg.sh", "--dry-run", "--json").stdout)
    created = run_on("atlas-800t-a2", "recipes", "create", "meg.sh", "--output", "mine.toml")

    assert (said["model"], said["job"]["model"]) == ("40x5120", "40x5120")
    assert said["job"]["own"]["values"]["model"]["option"] == "num_layers"
    assert created.exit_code == 0, created.output
    text = (programs / "mine.toml").read_text()
    assert 'models = ["40x5120"]' in text
    assert 'dimensions = "num_layers=40,hidden_size=5120,' in text
    planned = [
        json.loads(run_on("atlas-800t-a2", "plan", *words, "--json").stdout)
        for words in (("meg.sh",), ("--recipe", "mine", "--recipes", "."))
    ]
    assert planned[0]["need_bytes"] == planned[1]["need_bytes"]
