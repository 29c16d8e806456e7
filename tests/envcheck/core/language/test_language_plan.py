"""envcheck plan in Chinese: what its code says stands in tables, and no screen of it keeps an English sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import commands, main
from envcheck.core import language
from envcheck.core.errors import UsageError
from envcheck.core.language import width
from launch import memory, planner
from launch.planner.output.terms import TERMS
from tests.envcheck.core.language import language_parts
from tests.envcheck.core.language.test_language import lacking
from tests.envcheck.core.language.test_language_reports import ENGLISH

PLANNER = Path(planner.__file__).parent
READ = (
    "advice",
    "resolve",
    "calibration",
    "cards",
    "layouts",
    "machines",
    "output/png",
    "speed",
    "sweep",
    "verdict",
    "words",
)
FILES = [
    *(PLANNER / f"{name}.py" for name in READ),
    *(Path(commands.__path__[0]) / f"{name}.py" for name in ("plan", "plan_job")),
]
LORA = ("--model", "21b", "--method", "lora", "--device", "npu", "--memory-gib", "64")
FULL = ("--model", "300b", "--method", "sft", "--device", "npu", "--memory-gib", "64")
SCREENS = {
    "cannot tell": (*LORA, "--cards", "1", "--explain"),
    "does not fit": (*FULL, "--cards", "16"),
    "fits": ("--model", "0.3b", "--method", "dpo", "--device", "nvidia", "--cards", "8", "--memory-gib", "80"),
    "swept": (*LORA, "--cards", "2", "--sweep", "micro-batch=1..4"),
    "searched": ("--model", "0.3b", "--method", "sft", "--device", "iluvatar", "--cards", "4", "--search"),
    "quantised": ("--model", "qwen-7b", "--method", "qlora", "--device", "nvidia", "--cards", "1"),
    "refused": (*FULL, "--cards", "16", "--tp", "3"),
    "wrong": (*LORA, "--cards", "1", "--sharding", "much"),
}
# Not ours to say: options as they are typed, a product, the sources of a framework's figures.
KEPT = re.compile(
    r"--[\w-]+(?: [\w+./-]+)*|\[[^\]]*\]|Hugging Face trainer|^  (?:loss|fused|adapter|gathered)  .*$", re.M
)


def screen(argv: tuple[str, ...]) -> str:
    """What the command prints; of a refusal its sentence and next step, as the command line says them."""
    done = CliRunner().invoke(main.main, ["plan", *argv])
    err = done.exception
    return f"{language.say(err.message)}\n{language.say(err.next_step)}" if isinstance(err, UsageError) else done.output


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_sentence_of_a_plan_has_its_chinese(file: Path) -> None:
    """What the planner says, assumes or refuses stands in a table, values aside."""
    assert lacking(text for text in language_parts.sentences(file) if "envcheck plan --" not in text) == []


def test_each_term_and_phase_has_its_chinese() -> None:
    """Names and formulas of the terms, and the names of the phases."""
    formulas = [term.formula for term in TERMS.values()]

    assert len(formulas) > 20
    assert lacking((*TERMS, *formulas, *memory.phases.PHASES)) == []


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_chinese(name: str, chinese: None) -> None:
    """No line of a plan, a sweep, a search or a refusal keeps two English words in a row that are ours."""
    text = screen(SCREENS[name])

    assert re.search("[一-鿿]", text)
    assert ENGLISH.findall(KEPT.sub("|", text)) == []


def test_english_stays_as_it_was() -> None:
    """Nobody's English changes: the labels stand in their columns."""
    text = screen(SCREENS["cannot tell"])

    assert "  job       ernie-4.5-21b-a3b (21.83e9 parameters), LoRA rank 32 on all-linear, 8192 tokens" in text
    assert "  tensors   weights 40.7   adapters 9.4" in text
    assert "assumed recompute: full, as fine-tuning recipes have it" in text


def test_bars_begin_in_one_column(chinese: None) -> None:
    """Where a Chinese character takes two columns, the bars of all phases still stand below each other."""
    lines = [line for line in screen(SCREENS["fits"]).splitlines() if line.count("|") == 2]

    assert len(lines) >= 5
    assert len({width.columns(line[: line.index("|")]) for line in lines}) == 1
