"""envcheck init: three questions, one file, three commands; and the job of that file in other commands."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest
import tomli
from click.testing import Result

from envcheck.core.errors import UsageError
from envcheck.settings import envcheck_toml, load_settings
from envcheck.settings.site_config import JobDefaults
from tests.conftest import ROOT
from tests.simulated_machines import Enter

GIVEN = ("init", "--model", "tiny", "--method", "lora", "--device", "cpu")
RunOn = Callable[..., Result]


def test_options_answer_everything(run_on: RunOn, tmp_path: Path) -> None:
    """With all three options nothing is asked; the file has the job, and is valid."""
    result = run_on("atlas-800t-a2", "init", "--model", "21b", "--method", "lora", "--device", "ascend")

    assert result.exit_code == 0, result.output
    assert tomli.loads((tmp_path / "envcheck.toml").read_text()) == {
        "job": {"model": "ERNIE-4.5-21B-A3B", "method": "lora", "device": "npu"}
    }
    assert load_settings().job.device == "npu"
    assert ".md" not in (tmp_path / "envcheck.toml").read_text(), "a wheel has no pages"
    assert re.findall(r"^  (envcheck .*?)   ", result.stdout, re.M) == [
        "envcheck doctor", "envcheck provision --fetch-weights", "envcheck train",
    ]  # fmt: skip


def test_a_chat_is_no_training(run_on: RunOn) -> None:
    """For a method that chats, the last command is the one that chats, with the job."""
    made = run_on("atlas-800t-a2", "init", "--model", "qwen-7b", "--method", "chat", "--device", "npu", "--json")
    last = json.loads(made.stdout)["commands"][-1]
    shown = run_on("atlas-800t-a2", *last.split()[1:], "--dry-run")

    assert last.startswith("envcheck infer --recipe ") and last.endswith(" --method chat")
    assert shown.exit_code == 0, shown.output


@pytest.mark.parametrize(("machine", "device"), [("h200x8", "nvidia"), ("bi-v150x8", "iluvatar"), ("cpu", "cpu")])
def test_auto_is_this_machine(run_on: RunOn, machine: str, device: str) -> None:
    """`--device auto` writes the devices that are found, and a program gets a document."""
    result = run_on(machine, "init", "--model", "tiny", "--method", "lora", "--device", "auto", "--json")

    assert json.loads(result.stdout)["job"] == {"model": "tiny", "method": "lora", "device": device}


@pytest.mark.parametrize("missing", ["--model", "--method", "--device"])
def test_without_a_terminal_nothing_is_asked(run_on: RunOn, tmp_path: Path, missing: str) -> None:
    """The missing option is named, and no file is written."""
    words = [*GIVEN]
    del words[words.index(missing) : words.index(missing) + 2]
    result = run_on("cpu", *words)

    assert isinstance(result.exception, UsageError) and str(result.exception.message).endswith(f"needs {missing}")
    assert not (tmp_path / "envcheck.toml").exists()


def test_no_file_is_replaced_unasked(run_on: RunOn, tmp_path: Path) -> None:
    """An existing file stays without --force, before any question."""
    (tmp_path / "envcheck.toml").write_text("[thresholds]\n")
    refused = run_on("cpu", *GIVEN)
    kept = (tmp_path / "envcheck.toml").read_text()
    forced = run_on("cpu", *GIVEN, "--force")

    assert isinstance(refused.exception, UsageError) and kept == "[thresholds]\n"
    assert forced.exit_code == 0 and "[job]" in (tmp_path / "envcheck.toml").read_text()


def test_unknown_combinations_are_refused(run_on: RunOn, tmp_path: Path) -> None:
    """What no recipe has is refused with what there is."""
    result = run_on("cpu", "init", "--model", "21c", "--method", "lora", "--device", "npu")

    assert isinstance(result.exception, UsageError) and "21b" in str(result.exception.next_step)
    assert not (tmp_path / "envcheck.toml").exists()


@pytest.mark.slow
def test_three_questions(on_machine: Enter, tmp_path: Path) -> None:
    """The devices of the machine are the default; numbers and parts of names are answers; others are asked again."""
    on_machine("bi-v150x8")
    env, argv = {**os.environ, "COLUMNS": "100"}, ["-m", "envcheck", "init"]
    child = pexpect.spawn(sys.executable, argv, cwd=tmp_path, env=env, encoding="utf-8", timeout=60)
    child.expect(r"number or name \[iluvatar\]: ")
    child.sendline("")
    child.expect(r"(\d+)  ERNIE-4.5-21B-A3B.*number or name \[.*\]: ")
    child.sendline("99")
    child.expect(r"enter a number from 1 to \d+, or a name")
    child.sendline("21b")
    child.expect(r"number or name \[lora\]: ")
    child.sendline("sft")
    child.expect("envcheck train")
    child.expect(pexpect.EOF)

    job = tomli.loads((tmp_path / "envcheck.toml").read_text())["job"]
    assert job == {"model": "ERNIE-4.5-21B-A3B", "method": "sft", "device": "iluvatar"}


@pytest.mark.parametrize(
    ("words", "applies"),
    [
        (("plan", "--json"), True),
        (("provision", "--dry-run", "--json"), True),
        (("provision", "--device", "cpu", "--dry-run", "--json"), False),
        (("plan", "--model", "0.3b", "--method", "lora", "--device", "nvidia", "--json"), False),
    ],
)
def test_commands_use_the_job(run_on: RunOn, tmp_path: Path, words: tuple[str, ...], applies: bool) -> None:
    """The table counts as if it were typed, unless the command line names a job or devices."""
    (tmp_path / "envcheck.toml").write_text('[job]\nmodel = "21b"\nmethod = "sft"\ndevice = "nvidia"\n')
    result = run_on("h200x8", *words)
    job = json.loads(result.stdout)["job"]

    assert (job["recipe"] == "ernie-21b-nvidia" and job["method"] == "sft") is applies
    assert ("job of envcheck.toml: --model 21b --method sft --device nvidia" in result.stderr) is applies


@pytest.mark.parametrize(
    ("words", "line", "recipe", "method"),
    [
        (("plan", "--method", "lora"), "job of envcheck.toml: --model 21b --device nvidia", "ernie-21b-nvidia", "lora"),
        (("doctor", "--device", "nvidia"), "job of envcheck.toml: --model 21b --method sft", "ernie-21b-nvidia", "sft"),
        (("provision", "--device", "cpu", "--dry-run"), "job of envcheck.toml not used, because of --device", "", ""),
        (("doctor", "--device", "npu"), "job of envcheck.toml not used, because of --device", "", ""),
    ],
)
def test_a_part_of_the_job_on_the_command_line(
    run_on: RunOn, tmp_path: Path, words: tuple[str, ...], line: str, recipe: str, method: str
) -> None:
    """Options that do not conflict with the table complete each other; else a line tells that it is not used."""
    (tmp_path / "envcheck.toml").write_text('[job]\nmodel = "21b"\nmethod = "sft"\ndevice = "nvidia"\n')
    result = run_on("h200x8", *words, "--json")
    job = json.loads(result.stdout)["job"]

    assert result.stderr.startswith(line)
    assert not recipe or (job["recipe"], job["method"]) == (recipe, method)


def test_plan_takes_the_job_to_other_hardware(run_on: RunOn, tmp_path: Path) -> None:
    """With --device, plan answers for the job of the folder on that card; another model is another job."""
    (tmp_path / "envcheck.toml").write_text('[job]\nmodel = "21b"\nmethod = "lora"\ndevice = "npu"\n')
    moved, other = (run_on("h200x8", "plan", *words, "--json") for words in (("--device", "h20"), ("--model", "0.3b")))

    assert json.loads(moved.stdout)["device"] == "nvidia-h20"
    assert moved.stderr.startswith("job of envcheck.toml: --model 21b --method lora\n")
    assert other.stderr.startswith("job of envcheck.toml not used, because of --model\n")


def test_bundle_packs_the_job(run_on: RunOn, tmp_path: Path) -> None:
    """bundle takes the job of the folder; here its model has no recipe, so that nothing is packed."""
    (tmp_path / "envcheck.toml").write_text('[job]\nmodel = "nomodel"\n')
    result = run_on("cpu", "bundle", "-o", str(tmp_path / "job.tar"), "--dry-run")

    assert result.stderr.startswith("job of envcheck.toml: --model nomodel\n")
    assert "no recipe matches --model nomodel" in str(result.exception)


def test_other_commands_ignore_it(run_on: RunOn, tmp_path: Path) -> None:
    """A recorded machine, a list and another command are not about the job of this folder."""
    (tmp_path / "envcheck.toml").write_text('[job]\nmodel = "21b"\nmethod = "sft"\ndevice = "nvidia"\n')

    for words in (
        ("doctor", "--list-checks"),
        ("solve", "--device", "npu", "--library", "paddle"),
        ("plan", "--list-models"),
    ):
        assert "job of" not in run_on("h200x8", *words).stderr, words


def test_a_wrong_table_is_an_error(run_on: RunOn, tmp_path: Path) -> None:
    """Unknown devices and keys are refused with file and key."""
    for text, wrong in (('device = "gpu9"', "job.device"), ('modle = "21b"', "modle")):
        (tmp_path / "envcheck.toml").write_text(f"[job]\n{text}\n")
        result = run_on("cpu", "plan")

        assert isinstance(result.exception, UsageError) and wrong in str(result.exception.message)


def test_the_reference_has_all_keys() -> None:
    """docs/reference/files.md lists each table of envcheck.toml, each key of [job], and the options that replace it."""
    text = (ROOT / "docs/reference/files.md").read_text(encoding="utf-8").partition("## envcheck.toml")[2]
    tables, keys = dataclasses.fields(envcheck_toml._SettingsFile), dataclasses.fields(JobDefaults)

    assert [f.name for f in tables if not re.search(rf"\[{f.name}\]", text)] == []
    assert [f.name for f in keys if f"| `{f.name}` |" not in text] == []
