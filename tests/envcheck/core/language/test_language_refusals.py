"""Refusals in Chinese: wrong options, recipes, paths and jobs, and what to do instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import envcheck
import installers
import launch
from envcheck.cli import main
from envcheck.core import language
from envcheck.core.errors import EnvcheckError

ENVCHECK, INSTALLERS, LAUNCH = (Path(package.__path__[0]) for package in (envcheck, installers, launch))
REFUSED = [
    ("train", "--recipe", "nothing"),
    ("train", "--model", "999b"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--set", "x"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--data", "/tmp"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--rank", "99"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--set", "tensor_parallel_degree=3"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--set", "warmup_steps=1000"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--set", "max_seq_len=0"),
    ("train", "--model", "21b", "--method", "lora", "--device", "npu", "--method", "sft"),
    ("train", "--recipe", "tiny-cpu", "--gates", "--detach"),
    ("train", "--recipe", "tiny-cpu", "--no-stop", "nothing"),
    ("provision", "--recipe", "nothing"),
    ("provision", "--recipes", "/proc/nothing"),
    ("runs", "show", "/proc"),
    ("lint",),
]


pytestmark = pytest.mark.usefixtures("chinese")


@pytest.mark.parametrize("argv", REFUSED, ids=" ".join)
def test_a_refusal_is_chinese(argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a person meets it: the sentence and what to do, but for commands."""
    monkeypatch.chdir(tmp_path)
    err = CliRunner().invoke(main.main, argv).exception

    assert isinstance(err, EnvcheckError)
    said = [text for text in (err.message, err.next_step) if not re.match(r"(?:envcheck|ls) ", text)]
    assert [text for text in said if not re.search("[一-鿿]", language.translate(text))] == []
