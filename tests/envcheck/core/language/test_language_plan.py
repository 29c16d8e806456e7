"""envcheck plan in Chinese: no screen has an English sentence."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core import language
from envcheck.core.errors import UsageError
from envcheck.core.language import width
from tests.envcheck.core.language.test_language_reports import ENGLISH

LORA = ("--model", "21b", "--method", "lora", "--device", "npu", "--memory-gib", "64")
FULL = ("--model", "300b", "--method", "sft", "--device", "npu", "--memory-gib", "64")
SCREENS = {
    "not checked": (*LORA, "--cards", "1", "--explain"),
    "does not fit": (*FULL, "--cards", "16"),
    "fits": ("--model", "0.3b", "--method", "dpo", "--device", "nvidia", "--cards", "8", "--memory-gib", "80"),
    "swept": (*LORA, "--cards", "2", "--sweep", "micro-batch=1..4"),
    "searched": ("--model", "0.3b", "--method", "sft", "--device", "iluvatar", "--cards", "4", "--search"),
    "quantised": ("--model", "qwen-7b", "--method", "qlora", "--device", "nvidia", "--cards", "1"),
    "refused": (*FULL, "--cards", "16", "--tp", "3"),
    "wrong": (*LORA, "--cards", "1", "--sharding", "much"),
}
# Not translated: options, product names, sources of a framework's figures.
KEPT = re.compile(
    r"--[\w-]+(?: [\w+./-]+)*|\[[^\]]*\]|Hugging Face trainer|^  (?:loss|fused|adapter|gathered)  .*$", re.M
)


def screen(argv: tuple[str, ...]) -> str:
    """What the command prints; of a refusal its sentence and next step, as the command line says them."""
    done = CliRunner().invoke(main.main, ["plan", *argv])
    err = done.exception
    return (
        f"{language.translate(err.message)}\n{language.translate(err.next_step)}"
        if isinstance(err, UsageError)
        else done.output
    )


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_chinese(name: str, chinese: None) -> None:
    """No line of a plan, a sweep, a search or an error has two consecutive English words of envcheck's own."""
    text = screen(SCREENS[name])

    assert re.search("[一-鿿]", text)
    assert ENGLISH.findall(KEPT.sub("|", text)) == []


def test_english_stays_as_it_was() -> None:
    """Nobody's English changes: the labels stand in their columns."""
    text = screen(SCREENS["not checked"])

    assert "  job       ernie-4.5-21b-a3b (21.83e9 parameters), LoRA rank 32 on all-linear, 8192 tokens" in text
    assert "  tensors   weights 40.7   adapters 9.4" in text
    assert "assumed recompute: full, as in most fine-tuning recipes" in text


def test_bars_begin_in_one_column(chinese: None) -> None:
    """Where a Chinese character takes two columns, the bars of all phases still stand below each other."""
    lines = [line for line in screen(SCREENS["fits"]).splitlines() if line.count("|") == 2]

    assert len(lines) >= 5
    assert len({width.display_width(line[: line.index("|")]) for line in lines}) == 1
