"""Files that envcheck writes for programs, and for people with another language than the one who wrote them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import main

CONFIGURATION = "model_name_or_path: Qwen/Qwen2-7B\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: x\n"
COMMANDS = {
    "batch script": ("train", "--recipe", "ernie-300b-npu", "--method", "sft", "--on", "slurm", "--dry-run"),
    "manifests": ("train", "--recipe", "qwen-7b-npu-swift", "--method", "lora", "--on", "k8s", "--storage", "c",
                  "--dry-run"),
    "recipe": ("recipes", "create", "my.yaml"),
    "plan": ("provision", "--recipe", "tiny-cpu", "--as-script"),
    "job": ("train", "--recipe", "tiny-cpu", "--method", "lora", "--write", "job"),
    "settings": ("init", "--model", "tiny", "--method", "lora", "--device", "cpu"),
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("chinese")


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_files_are_english(words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same request writes the same file in every language: comments, titles and notes too."""
    (tmp_path / "my.yaml").write_text(CONFIGURATION)
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.rglob("*"))

    done = CliRunner().invoke(main.main, [*words], standalone_mode=False)

    written = [path.read_text() for path in set(tmp_path.rglob("*")) - before if path.is_file()]
    texts = written or [done.stdout]
    assert any(len(text.splitlines()) > 5 for text in texts), done.output
    assert [line for text in texts for line in text.splitlines() if re.search("[一-鿿]", line)] == []
