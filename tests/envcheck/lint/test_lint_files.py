"""Several files and folders in one run: which are read, the result of each, and the exit code of all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from envcheck.cli import main
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.lint import files, linter
from envcheck.scripts import source_file
from tests.envcheck.report import sarif_schema

GOOD = "#!/bin/bash\necho\n"
BAD = "#!/bin/bash\na = 5\n"
KNOWN = "stage: sft\nfinetuning_type: lora\n"


def run_lint(*argv: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main.main, ["lint", "--no-shellcheck", *argv], input=text, standalone_mode=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project: a good and a bad script, a training, and files of other programs."""
    texts = {
        "good.sh": GOOD,
        "deep/bad.sh": BAD,
        "deep/train.yaml": KNOWN,
        "deep/other.yaml": "name: a\n",
        "package.json": "{}",
        "readme.txt": "words\n",
        "Dockerfile": "FROM ubuntu:22.04\n",
        ".git/hooks/x.sh": BAD,
        "node_modules/a/x.sh": BAD,
    }
    for name, text in texts.items():
        (tmp_path / "p" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / name).write_text(text)
    return tmp_path / "p"


def list_names(result: Result, folder: Path) -> list[str]:
    return [str(Path(each["file"]).relative_to(folder)) for each in json.loads(result.stdout)["files"]]


def test_a_folder(folder: Path) -> None:
    """Its scripts, Dockerfiles and configurations of known programs are linted; the others are counted."""
    result = run_lint(str(folder), "--json")

    assert list_names(result, folder) == ["Dockerfile", "good.sh", "deep/bad.sh", "deep/train.yaml"]
    assert json.loads(result.stdout)["skipped"] == 2
    assert result.return_value == json.loads(result.stdout)["exit_code"] == 1


def test_named_files_are_linted_whatever_they_are(folder: Path) -> None:
    """A file that is named, and its folder too, is linted once; of an unknown program it is undetermined."""
    other = str(folder / "deep/other.yaml")
    result = run_lint(str(folder / "deep"), other, other, "--json")

    assert sorted(list_names(result, folder)) == ["deep/bad.sh", "deep/other.yaml", "deep/train.yaml"]
    assert json.loads(result.stdout)["skipped"] == 0


CODES = (
    (("good.sh", "deep/train.yaml"), 0),
    (("good.sh", "deep/other.yaml"), 3),
    (("good.sh", "deep/other.yaml", "no-such-file"), 2),
    (("good.sh", "deep/bad.sh", "no-such-file"), 1),
)


@pytest.mark.parametrize(("names", "code"), CODES)
def test_the_worst_exit_code(names: tuple[str, ...], code: int, folder: Path) -> None:
    """A failure is worse than an unreadable file, and that worse than what is undetermined."""
    assert run_lint(*(str(folder / name) for name in names)).return_value == code


@pytest.mark.parametrize(
    "raw", [b"echo\n" * (1 << 18), b"echo \xff\n", b"echo \0\n"], ids=["large", "encoding", "binary"]
)
def test_an_unreadable_script_of_a_folder(raw: bytes, folder: Path) -> None:
    """It was not checked: the same exit code as when it is named, and not a file of an unknown program."""
    (folder / "deep/bad.sh").write_bytes(raw)
    document = json.loads((result := run_lint(str(folder), "--json")).stdout)

    assert [each["file"] for each in document["unreadable"]] == [str(folder / "deep/bad.sh")]
    assert (result.return_value, document["skipped"]) == (2, 2)
    assert run_lint(str(folder / "deep/bad.sh")).exception is not None


def test_a_data_set_of_a_folder_is_no_configuration(folder: Path) -> None:
    """Samples in JSON are larger than any configuration: they are counted, and are no error."""
    (folder / "deep/bad.sh").unlink()
    (folder / "deep/samples.json").write_bytes(b"[" + b"1," * (1 << 20) + b"1]")
    result = run_lint(str(folder), "--json")

    assert (result.return_value, json.loads(result.stdout)["skipped"]) == (0, 3)


def test_a_folder_that_cannot_be_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in it was not checked: it is unreadable, with the reason."""
    scan = os.scandir

    def refuse(path: Any = ".") -> Any:
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    document = json.loads((result := run_lint(str(folder), "--json")).stdout)

    assert [each["file"] for each in document["unreadable"]] == [str(folder / "deep")]
    assert "permission denied" in document["error"].lower()
    assert result.return_value == 2


def test_an_empty_folder_is_undetermined(tmp_path: Path) -> None:
    """Nothing was checked, which is no pass."""
    result = run_lint(str(tmp_path), "--json")

    assert (result.return_value, json.loads(result.stdout)["exit_code"]) == (3, 3)
    assert "no script or configuration found" in json.loads(result.stdout)["error"]


def test_text(folder: Path) -> None:
    """Findings carry the path, a file without any is one line, and the last line counts files."""
    shown = run_lint(str(folder / "good.sh"), str(folder / "deep/bad.sh"), str(folder / "none")).stdout
    words = " ".join(shown.split())

    assert f"FAIL {folder}/deep/bad.sh:2:1 shell.spaced_assignment" in words
    assert f"{folder}/good.sh: no issues found" in words
    assert f"{folder}/none: not checked:" in words
    assert "3 files checked, 1 file failed, 1 file cannot be read, 1 file without failures" in words


def test_standard_input_among_files(folder: Path) -> None:
    """- is read as one of the files."""
    result = run_lint("-", str(folder / "good.sh"), "--json", text="a = 5\n")

    assert [each["file"] for each in json.loads(result.stdout)["files"]] == ["-", str(folder / "good.sh")]
    assert result.return_value == 1


def test_one_sarif_log(folder: Path) -> None:
    """The findings of all files are in one log, and each file says what it was read as."""
    document = json.loads(run_lint(str(folder), "--sarif").stdout)
    (run,) = document["runs"]
    places = {each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]}

    assert sarif_schema.list_sarif_errors(document) == []
    assert f"{folder}/deep/bad.sh" in places
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 4


def test_a_corrected_copy_needs_one_file(folder: Path) -> None:
    """--write-fixed with several files, or a folder, is refused."""
    for names in ([folder], [folder / "good.sh", folder / "deep/bad.sh"]):
        assert isinstance(run_lint(*map(str, names), "--write-fixed").exception, UsageError)


def test_too_many_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with too many files is refused in a sentence."""
    monkeypatch.setattr(files, "MOST_FILES", 3)

    assert isinstance(run_lint(str(folder)).exception, UsageError)


def test_facts_are_collected_once(folder: Path) -> None:
    """The machine is asked once for all files, and not at all if no rule needs it."""
    asked = []

    def gather() -> Facts:
        asked.append(1)
        return Facts()

    texts = [folder / f"{number}.sh" for number in range(3)]
    for path in texts:
        path.write_text("#!/bin/bash\nexport NCCL_SOCKET_IFNAME=eth0\ntorchrun --nproc_per_node 8 train.py\n")
    files.lint_files(files.list_files(map(str, texts)), TargetMachine(gather, live=True), others=False)

    assert asked == [1]


@pytest.mark.parametrize("order", [("run.sh", "conf.yaml"), ("conf.yaml", "run.sh")])
def test_a_script_says_what_reads_a_configuration(tmp_path: Path, order: tuple[str, str]) -> None:
    """A configuration with keys of no known program is judged as the command reads it that another file has."""
    (tmp_path / "run.sh").write_text("#!/bin/bash\npaddleformers-cli train conf.yaml\n")
    (tmp_path / "conf.yaml").write_text("model_name_or_path: a/b\noutput_dir: o\nfine_tunning: lora\n")
    alone = run_lint(str(tmp_path / "conf.yaml"), "--json")
    found = json.loads(run_lint(*(str(tmp_path / name) for name in order), "--json").stdout)["files"]
    judged = found[order.index("conf.yaml")]

    assert json.loads(alone.stdout)["readings"][0]["program"] is None
    assert judged["readings"][0]["program"] == "PaddleFormers"
    assert [each["rule"] for each in judged["findings"]] == ["config.unknown"]


@pytest.mark.parametrize(
    ("before", "found"), [("", ["WARN"]), ("USE_MCA=0 ", ["FAIL"]), ("USE_MCA=1 ", []), ('USE_MCA="$1" ', [])]
)
def test_keys_of_another_reader_need_its_variable(before: str, found: list[str], tmp_path: Path) -> None:
    """It may be set outside of the script, unless the script sets it itself."""
    (tmp_path / "run.sh").write_text(f"#!/bin/bash\n{before}llamafactory-cli train a.yaml\n")
    (tmp_path / "a.yaml").write_text(f"{KNOWN}tensor_model_parallel_size: 2\n")
    listed = files.list_files([str(tmp_path / "run.sh"), str(tmp_path / "a.yaml")])

    results = files.lint_files(listed, TargetMachine(folder=tmp_path), "nvidia", others=False).results
    remarks = results[1].result.remarks if results[1].result else ()
    assert [each.severity.name for each in remarks if "USE_MCA=1" in each.seen] == found


BATCH = {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}


@pytest.mark.parametrize(
    ("options", "changes", "found"),
    [
        ("--num_gpus 8", {}, ["FAIL"]),
        ("--num_gpus 4", {}, []),
        ("", {}, []),
        ("--num_gpus ${N:-8}", {}, ["WARN"]),
        ("--num_gpus 8", {"gradient_accumulation_steps": "auto"}, []),
        ("--num_gpus 3", {"train_micro_batch_size_per_gpu": None}, ["FAIL"]),
    ],
)
def test_the_batch_size_of_deepspeed_fits_the_processes(
    options: str, changes: dict[str, Any], found: list[str], tmp_path: Path
) -> None:
    """The whole batch is the product of the micro batch, the accumulation steps and the processes."""
    (tmp_path / "ds.json").write_text(json.dumps({k: v for k, v in {**BATCH, **changes}.items() if v is not None}))
    text = f"#!/bin/bash\ndeepspeed {options} train.py --deepspeed_config ds.json\n"

    result = linter.lint_source(
        source_file.make_source("run.sh", text.encode()), TargetMachine(folder=tmp_path), "nvidia", others=False
    )
    assert [each.severity.name for each in result.remarks if each.rule == "config.deepspeed"] == found


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({}, "not a multiple of 8 processes"),
        ({"train_micro_batch_size_per_gpu": 4}, "not a multiple of train_micro_batch_size_per_gpu 4 x 8 processes"),
        (
            {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2},
            "gradient_accumulation_steps 2 x 8 processes = 64",
        ),
    ],
)
def test_a_wrong_batch_size_names_what_the_file_has(others: dict[str, int], words: str, tmp_path: Path) -> None:
    """The remark names the factors in the file, and no others."""
    (tmp_path / "ds.json").write_text(json.dumps({"train_batch_size": 60, **others}))
    (tmp_path / "run.sh").write_text("#!/bin/bash\ndeepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n")

    found = json.loads(run_lint(str(tmp_path / "run.sh"), "--json").stdout)["findings"]
    seen = [each["seen"] for each in found if each["rule"] == "config.deepspeed"]
    assert len(seen) == 1
    assert seen[0].endswith(f"{words}: DeepSpeed exits")


COMPOSE_PART = "services:\n  a:\n    image: b:1\n    volumes: ['cache:/c']\n    depends_on: [database]\n"


@pytest.mark.parametrize(
    ("name", "others", "count"),
    [
        ("compose.yaml", ("run.sh",), 2),
        ("compose.yaml", ("compose.gpu.yaml",), 0),
        ("docker-compose.gpu.yml", ("docker-compose.yml",), 0),
        ("docker-compose.override.yml", (), 0),
    ],
)
def test_a_compose_file_among_others_is_a_part(name: str, others: tuple[str, ...], count: int, tmp_path: Path) -> None:
    """Its services and volumes may be in the others, so that none is missing."""
    for each in (name, *others):
        (tmp_path / each).write_text(COMPOSE_PART)

    found = json.loads(run_lint(str(tmp_path / name), "--json").stdout)["findings"]
    assert len([each for each in found if each["rule"] == "config.rejected"]) == count


def test_a_kind_of_the_core_group_gets_its_version() -> None:
    """The remedy of a pod in another group is the version itself."""
    text = "apiVersion: apps/v1\nkind: Pod\nspec:\n  containers:\n    - {name: a, image: b}\n"
    result = linter.lint_source(source_file.make_source("pod.yaml", text.encode()), others=False)

    assert [str(each.remedy) for each in result.remarks if each.rule == "config.rejected"] == ["Write apiVersion: v1."]


def test_a_script_says_in_which_mode_a_configuration_is_read(tmp_path: Path) -> None:
    """A variable of the script decides which options the program has; the first line says what is not checked."""
    (tmp_path / "run.sh").write_text("#!/bin/bash\nexport USE_MCA=1\nllamafactory-cli train conf.yaml\n")
    (tmp_path / "conf.yaml").write_text("stage: sft\nfinetuning_type: full\ntensor_model_parallel_size: 2\n")
    found = json.loads(run_lint(str(tmp_path), "--json").stdout)["files"]
    judged = next(each for each in found if each["file"].endswith("conf.yaml"))

    assert judged["readings"][0]["program"] == "LLaMA-Factory with mcore_adapter"
    assert judged["findings"] == []


def test_a_checkout_declares_its_options(tmp_path: Path) -> None:
    """Keys and values that the sources around a file name are those of a fork; others stay unknown."""
    sources = tmp_path / "src" / "llamafactory" / "hparams"
    sources.mkdir(parents=True)
    (sources / "args.py").write_text("stage: Literal['sft', 'vote']\nvote_weight: float = 0.1\n")
    (tmp_path / "conf.yaml").write_text("stage: vote\nfinetuning_type: lora\nvote_weight: 1.0\nballot_box: 1\n")
    found = json.loads(run_lint(str(tmp_path / "conf.yaml"), "--json").stdout)["findings"]

    assert [(each["rule"], each["severity"], each["line"]) for each in found] == [("config.unknown", "UNKNOWN", 4)]


PRINTED = """[INFO|2026-05-01 12:00:00] parser:401 >> Process rank: 0
Loading the shards: 100%|####| 4/4 [00:03<00:00,  1.2it/s]
{'loss': 1.25, 'epoch': 0.1}
Traceback (most recent call last):
  File "/work/train.py", line 3, in <module>
"""


@pytest.mark.parametrize("name", ["run.log", "out.txt", "slurm-12.out", "log", "-"])
def test_output_of_a_training_is_named(name: str) -> None:
    """A log is no script: lint says so, and names the command that reads it."""
    source = source_file.make_source(name, PRINTED.encode())

    with pytest.raises(UsageError, match="is the output of a program") as raised:
        source_file.detect_kind(source)
    assert "envcheck explain" in str(raised.value.next_step)


@pytest.mark.parametrize(
    ("name", "text"), [("run.log", GOOD), ("run", "torchrun train.py\n"), ("a.sh", PRINTED), ("a.md", PRINTED)]
)
def test_scripts_are_no_output(name: str, text: str) -> None:
    """A script with the name of a log is read as a script, and a file with a script's name as one."""
    assert source_file.detect_kind(source_file.make_source(name, text.encode())) in ("bash", "document")
