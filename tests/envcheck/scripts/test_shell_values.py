"""Values that a script computes: variables of sourced files and of the environment, arrays, sums, written files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.version import Version

from envcheck.core.lint.own_job import InstalledFrameworks, OwnJob
from envcheck.core.lint.script_model import SourceFile
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.lint.linter import lint_source
from envcheck.scripts.jobs.own_job_reader import list_readable_variables, read_command_job, read_file_job
from envcheck.scripts.trim_value import trim_value
from tests.function_calls import count_calls

SCRIPT = """\
#!/bin/bash
export SIZES=(1024 2048)
GPUS=(0 1 2 3)
TP=${TP:-2}
source ./env.sh
torchrun --nproc_per_node ${#GPUS[@]} train.py --model_name_or_path $MODEL --max_length ${SIZES[1]} \\
  --per_device_train_batch_size $MBS --gradient_accumulation_steps $((TP*MBS/2)) --learning_rate $LR \\
  --tensor_model_parallel_size $TP --output_dir $OUT --dataset_name $DATA
"""
SOURCED = "export MBS=4\nMODEL=Qwen/Qwen2.5-7B\nif [ -d /none ]; then OUT=a; else OUT=b; fi\n"
BROKEN = "model_name_or_path: x\n  stage: sft\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a script and the file that it sources."""
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text(SCRIPT)
    Path("env.sh").write_text(SOURCED)
    return tmp_path


def read_script(environment: Mapping[str, str] | None = None) -> OwnJob:
    return read_file_job("run.sh", environment=environment or {})


def show_value(job: OwnJob, name: str) -> str:
    """Return VALUE (STATE) PLACE."""
    value = job.find_value(name)
    assert value is not None, name
    return f"{value.value} ({value.state.value}) {value.where}".strip()


def test_sizes_of_a_script(folder: Path) -> None:
    """Items of arrays, sums, defaults and variables of a sourced file are values like any other."""
    job = read_script()

    assert (job.model, job.cards, job.steps) == ("qwen2.5-7b", 4, {})
    assert job.plan.items() >= {"seq_len": 2048, "micro_batch": 4, "grad_accum": 4, "tp": 2}.items()


def test_variables_of_the_environment(folder: Path) -> None:
    """A default gives way to the variable that the job starts with, as in the shell."""
    assert read_script({"TP": "4"}).plan.items() >= {"tp": 4, "grad_accum": 8}.items()


def test_unknown_variables_are_named(folder: Path) -> None:
    """A value that nothing sets is unknown, with the name of its variable; so is one that depends on a branch."""
    job = read_script()

    assert show_value(job, "data") == "(unknown) run.sh:8: value of $DATA is unknown"
    assert show_value(job, "output") == "(unknown) run.sh:8: value of $OUT is unknown"
    assert show_value(read_script({"DATA": "mine"}), "data") == "mine (read) run.sh:8"


def test_unknown_devices_are_named(folder: Path) -> None:
    """A device list or a process count in a variable is unknown, not that of the machine."""
    Path("run.sh").write_text("CUDA_VISIBLE_DEVICES=$LIST llamafactory-cli train --stage sft --template x\n")
    listed = show_value(read_script(), "cards")
    Path("run.sh").write_text("torchrun --nproc_per_node $(nvidia-smi -L | wc -l) train.py\n")

    assert listed == "(unknown) run.sh:1: value of $LIST is unknown"
    assert show_value(read_script(), "cards") == "(unknown) run.sh:1: set by the output of a command"


@pytest.mark.parametrize("text", ("source ../none.sh", "source $WHERE/env.sh", "source loop.sh", "MODEL=; . /etc/none"))
def test_sourced_file_that_cannot_be_read(folder: Path, text: str) -> None:
    """A file that is not there, or sources itself without end, leaves the values unknown."""
    Path("loop.sh").write_text("source loop.sh\n")
    Path("run.sh").write_text(f"{text}\nswift sft --model $MODEL\n")

    assert read_script().model == ""


def test_places_in_sourced_files(folder: Path) -> None:
    """A remark about a value of a sourced file is at a place of the script that has it."""
    Path("env.sh").write_text(f"{'#' * 4000}\nTP=3\n")
    found = lint_source(SourceFile("run.sh", SCRIPT.encode()), TargetMachine(folder=folder), others=False)

    assert [r.rule for r in found.remarks if r.end > len(SCRIPT)] == []
    assert "shell.unset_variable" in {r.rule for r in found.remarks}


def test_written_configuration(folder: Path) -> None:
    """A file that the script writes has the values of its variables; an unknown one is no mistake of type."""
    body = "model_name_or_path: $M\nstage: sft\nfinetuning_type: lora\nlora_rank: ${RANK:-16}\ncutoff_len: $((512*4))\n"
    text = f"M=Qwen/Qwen2.5-7B\ncat > cfg.yaml <<EOF\n{body}max_steps: $STEPS\ndataset: $DATA\nEOF\n"
    Path("run.sh").write_text(f"{text}llamafactory-cli train cfg.yaml\n")
    job = read_script()
    found = lint_source(SourceFile("run.sh", Path("run.sh").read_bytes()), TargetMachine(), others=False)

    assert (job.model, job.plan["seq_len"], job.plan["lora_rank"]) == ("qwen2.5-7b", 2048, 16)
    assert show_value(job, "data") == "(unknown) run.sh:9: value of $DATA is unknown"
    assert [remark.rule for remark in found.remarks if remark.rule == "config.kind"] == []


def test_secrets_are_no_values() -> None:
    """A variable that is named or shaped like a secret is not filled in."""
    given = {"HF_TOKEN": "x", "MODEL": "y", "URL": "https://user:word@host/"}

    assert list_readable_variables(given) == {"MODEL": "y"}


@pytest.mark.parametrize(
    "command", ("llamafactory-cli train cfg.yaml", "accelerate launch --config_file cfg.yaml a.py")
)
def test_broken_configuration_of_a_script(folder: Path, command: str) -> None:
    """A file that a script names and that cannot be parsed is named with its line, by the reader and the linter."""
    Path("cfg.yaml").write_text(BROKEN)
    Path("run.sh").write_text(f"\n{command}\n")
    (note,) = read_script().notes
    source = SourceFile("run.sh", Path("run.sh").read_bytes())
    found = lint_source(source, TargetMachine(folder=folder), others=False).remarks

    assert str(note).startswith("run.sh:2: cfg.yaml:2: cannot parse the configuration: mapping values")
    (remark,) = (remark for remark in found if remark.rule == "config.syntax")
    assert source.find_position(remark.start)[0] == 2
    assert str(remark.seen).startswith("cfg.yaml:2: cannot parse")


def test_missing_configuration(folder: Path) -> None:
    """A file that is not there is named; a command needs it, a script may create it."""
    Path("run.sh").write_text("llamafactory-cli train none.yaml\n")
    job = read_command_job(["llamafactory-cli", "train", "none.yaml"], environment={})

    assert [str(note) for note in read_script().notes] == ["run.sh:1: none.yaml not found; its options are unknown"]
    assert (job.requires, read_script().requires) == (("none.yaml",), ())


def test_json_with_tabs(folder: Path) -> None:
    """JSON may be indented with tabs, which YAML may not."""
    text = '{\n\t"zero_optimization": {\n\t\t"stage": 2\n\t}\n}\n'
    found = lint_source(SourceFile("ds.json", text.encode()), TargetMachine(), others=False)

    assert [remark.rule for remark in found.remarks] == []


@pytest.mark.parametrize(
    ("version", "words"),
    (
        ("4.0.4", ("--config",)),
        ("4.1.0", ()),
        ("4.6.0", ()),
        ("4.10.0", ()),
        ("4.1.0.dev0", ()),
        ("10.0", ()),
        ("", ()),
    ),
)
def test_command_of_ms_swift(folder: Path, version: str, words: tuple[str, ...]) -> None:
    """The command of a file is what the installed release takes: with --config until 4.0, without from 4.1 on."""
    Path("my.yaml").write_text("model: a/b\ntuner_type: lora\ndataset: x\nENV:\n  NPROC_PER_NODE: 2\n")
    job = read_file_job("my.yaml", installed=InstalledFrameworks(swift=Version(version) if version else None))

    assert job.argv == ("swift", "sft", *words, "my.yaml")
    assert job.cards == 2
    assert read_file_job("my.yaml", environment={"NPROC_PER_NODE": "4"}).cards == 4


FOLDER_WORDS = (
    '"$(dirname "$0")"',
    '"${0%/*}"',
    '$(dirname $(realpath "$0"))',
    '"$(cd "$(dirname "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"',
    "$(cd -- $(dirname -- $BASH_SOURCE); pwd -P)",
    '"$(cd -P "$(dirname "$0")" 2>/dev/null && pwd)"',
    '$(cd -P -- "${0%/*}" && pwd 2>/dev/null)',
)


@pytest.mark.parametrize("words", FOLDER_WORDS)
def test_files_next_to_a_script(folder: Path, words: str) -> None:
    """A script is followed into the file next to it, and that one into its own neighbours, from any folder."""
    (folder / "jobs").mkdir()
    Path("jobs/settings.sh").write_text('export STEPS=7\n. "$(dirname "${BASH_SOURCE[0]}")/more.sh"\n')
    Path("jobs/more.sh").write_text("export MODEL=a/b\n")
    text = f"HERE={words}\nsource $HERE/settings.sh\ncd $HERE/..\n"
    Path("jobs/run.sh").write_text(f"{text}torchrun train.py --model_name_or_path $MODEL --output_dir $PWD/out\n")
    job = read_file_job("jobs/run.sh", environment={"PWD": "/elsewhere"})

    found = {value.name: value.value for value in job.values}
    assert found["model"] == "a/b"
    assert Path(found["output"]).resolve() == folder.resolve() / "out"


@pytest.mark.parametrize("words", ('"$(dirname $1)"', "$(dirname $0 | tail -1)", "$(find_folder)", "$(pwd)"))
def test_folder_that_is_not_known(folder: Path, words: str) -> None:
    """A folder that depends on more than the script's own path is unknown."""
    Path("run.sh").write_text(f"HERE={words}\ntorchrun train.py --model_name_or_path a/b --output_dir $HERE/out\n")
    job = read_file_job("run.sh", environment={})

    (output,) = (value for value in job.values if value.name == "output")
    assert output.value == ""


CALLER_WORDS = ("${BASH_SOURCE[1]}", "${BASH_SOURCE[-1]}", "${LIST[1]}", "${LIST[-2]}")


@pytest.mark.parametrize("words", CALLER_WORDS)
def test_items_after_an_unknown_number(folder: Path, words: str) -> None:
    """Only the items on the near side of the unknown ones are known: the file that is read, not those that called it.

    That is the same in a function, which has the file that calls it as a second item.
    """
    start = "LIST=(first $NONE last)\ntorchrun train.py --model_name_or_path a/b --output_dir"
    Path("run.sh").write_text(f'{start} "{words}"\n')
    Path("ends.sh").write_text(f"{start} ${{LIST[0]}}-${{LIST[-1]}}-${{BASH_SOURCE[0]##*/}}\n")
    found = [read_file_job(name, environment={}).find_value("output") for name in ("run.sh", "ends.sh")]

    assert [value.value for value in found if value is not None] == ["", "first-last-ends.sh"]


PRINTED_PATHS = {
    "basename /a/run.sh": "run.sh",
    "basename /a/run.sh .sh": "run",
    "basename .sh .sh": ".sh",
    "basename /": "/",
    "basename -s .sh /a/b/run.sh": None,
    "basename -a /a /b": None,
    "dirname /": "/",
    "dirname /a": "/",
    "dirname //a//b/": "//a",
    "dirname a": ".",
    'dirname ""': ".",
    "dirname /a /b": None,
    "dirname -z /a/b": None,
    "dirname -- -a/b": "-a",
    "dirname /a/b > log": None,
    "dirname /a/b 2> log": "/a",
    "realpath -em /a/../b": "/b",
    "realpath /a -m": "/a",
    "realpath //a": "/a",
    "realpath --relative-to=/a /a/b/c": None,
    "realpath --relative-to /a /a/b/c": None,
    'realpath ""': None,
    "readlink -f /a/b/": "/a/b",
    "readlink /a/b": None,
    "readlink -- /a/b": None,
    "readlink -n /a/b": None,
    "readlink": None,
    "cd -P /a; pwd -P": "/a",
    "cd /a && pwd > log": None,
    "cd /a && pwd 2> log": "/a",
    "cd /a > log && pwd": "/a",
    "cd -x /a; pwd": None,
    "cd /a; pwd --help": None,
    "cd /a; cd; pwd": None,
    "for i in 1 2; do dirname /a/b; done 2> log": None,
}


@pytest.mark.parametrize(("command", "printed"), PRINTED_PATHS.items())
def test_paths_that_a_command_prints(folder: Path, command: str, printed: str | None) -> None:
    """The output of dirname and similar is that of the shell; with any option that may change it, it is unknown."""
    Path("run.sh").write_text(f'torchrun train.py --model_name_or_path a/b --output_dir "$({command})"\n')
    output = read_file_job("run.sh", environment={}).find_value("output")

    assert output is not None
    assert (output.value or None) == printed


def test_parameters_without_an_end(folder: Path) -> None:
    """${name%pattern} and similar are read; a pattern with a variable is not."""
    words = "${MODEL##*/} ${MODEL#*/} ${MODEL%%/*} ${MODEL%/*} ${MODEL%.x}"
    start = "MODEL=a/b/c\ntorchrun train.py --model_name_or_path d/e --output_dir out --dataset"
    Path("run.sh").write_text(f"{start} {words}\n")
    Path("open.sh").write_text(f"{start} ${{MODEL%$END}}\n")
    found = [read_file_job(name, environment={}).find_value("data") for name in ("run.sh", "open.sh")]

    assert [value.value for value in found if value is not None] == ["c b/c a a/b a/b/c", ""]


@pytest.mark.parametrize("operator", ("%", "%%", "#", "##"))
@pytest.mark.parametrize("length", (1, 100, 256, 4000, 60_000))
def test_work_of_a_trimmed_value(operator: str, length: int) -> None:
    """A pattern is tried at a limited number of places; a value that has more of them is unknown after the trim."""
    calls = count_calls(trim_value, "x" * length, f"{operator}*a*a*b")

    assert calls < 2000
    assert (trim_value("x" * length, f"{operator}*a*a*b") is None) == (length > 256)
