"""Runs in Chinese: progress, the end of a run, what ended it early, and what `envcheck runs` shows of a record."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck import explain
from envcheck.core import language
from envcheck.core.language import width
from envcheck.core.language.findings import localised
from launch.logs import step
from launch.logs.step import TrainingStep
from launch.run import record, run_text
from launch.run.first_failure import FirstFailure
from launch.run.launcher import Ending
from launch.runs import follow, known, shown
from launch.runs.run_state import LOST, ORPHANED, QUEUED, Run
from launch.watching import page, rules
from tests.envcheck.core.language import language_parts
from tests.envcheck.core.language.test_language import TABLES, lacking
from tests.envcheck.core.language.test_language_reports import ENGLISH
from tests.launch.watching.test_watch_rules import CASES, HEALTHY
from tests.launch.watching.test_watch_screen import SHOWN

STEPS = tuple(TrainingStep(5 - n / 20, n, of=80, learning_rate=1e-4, tokens_per_s_card=812.5) for n in range(1, 41))
FILES = [Path(module.__file__) for module in (run_text, shown, known, follow, step, page)]
SAYERS = {**language_parts.SAYERS, "say": (0,)}
STATES = (*run_text._HOW, "running", QUEUED, ORPHANED, LOST, "refused")
LABELS = (
    *(
        "run",
        "starts",
        "detached",
        "state",
        "method",
        "for",
        "trains",
        "talks with",
        "on",
        "job",
        "started",
        "now",
        "loss",
        "step",
    ),
    *("why", "memory", "worker", "cause", "seen", "also", "checkpoint", "waived", "record", "loss curve", "logs"),
    *("cards", "node", "nodes", "of", "starting"),
)
PEAKS = {"0": {"memory_mib": 2048, "power_w": 90.4}, "1": {"memory_mib": 1024, "power_w": 300.0}}
END = Ending("failed", 1, None, STEPS, 5 << 30, 61.0, ("launcher's own words",), cards={"peaks": PEAKS})
ENDS = {
    "finished": replace(END, how="finished"),
    "one step": replace(END, how="finished", steps=STEPS[:1]),
    "killed": replace(END, failed=FirstFailure(1, -9, ("Killed",))),
    "by another": replace(END, failed=FirstFailure(0, 1, ("Broken pipe",), follows=True)),
    "shared": replace(END, failed=FirstFailure(0, None, ("ValueError: x",), shared=True)),
    "the launcher": END,
    "unstarted": replace(END, how="unstarted", steps=()),
    "still there": replace(END, how="interrupted", left=(77, 78)),
    "deadline": replace(END, how="deadline"),
}
# Of the gates, whose own test has each of their sentences; and a signal's name.
GATES = {"envcheck: {} {} closed; nothing was started", "gate is", "gates are", "signal {}", "note:"}
PASTED = re.compile(r"`[^`]*`|^  \| .*$|\$ .*$|envcheck runs \w+ \S+|set_env\.sh|tokens/s", re.M)


pytestmark = pytest.mark.usefixtures("chinese")


def english(text: str) -> list[str]:
    return ENGLISH.findall(PASTED.sub("|", text))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_sentence_has_its_chinese(file: Path) -> None:
    """What the code says or refuses stands in a table, values aside."""
    alone = {text.strip() for text in TABLES}

    assert [text for text in lacking(language_parts.sentences(file, SAYERS)) if text not in {*alone, *GATES}] == []


def test_each_label_and_state_has_its_chinese() -> None:
    """Heads of lines and columns, and every state of a run."""
    assert [word for word in (*LABELS, *shown.MEMORY, *STATES) if language.label(word) == word] == []


def test_a_word_of_a_column_stays_a_word_elsewhere() -> None:
    """Labels stand by themselves: in a sentence, or as a tool's answer, the same word is left as it is."""
    words = ["why", "state", "seen", "queued"]

    assert [language.say(word) for word in words] == words


@pytest.mark.parametrize(("name", "changed", "seen"), [case for case in CASES if case[2]])
def test_what_ends_a_run_early_is_chinese(name: str, changed: dict[str, object], seen: str) -> None:
    """What was seen, its evidence and what to do, of every rule."""
    found = rules.judge(replace(HEALTHY, **changed), {name: rules.in_force()[name]})  # type: ignore[arg-type]
    assert found and found.name == f"watch.{name}"
    (told,) = localised([found])
    words = told.remedy.words if told.remedy else ""

    assert re.search("[一-鿿]", told.seen) and "--no-stop" in words
    assert english("\n".join((told.seen, words, *map(language.say, told.evidence)))) == []


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_run_is_chinese(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However it ended: its loss, whose fault it was, what the log's words mean, and where the record lies."""
    told = explain.diagnose(["RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB"])
    stopped = rules.judge(replace(HEALTHY, grew_at=0.0, stepped_at=1.0, now=9000.0), rules.in_force())
    run_text.end(tmp_path, replace(ENDS[name], stopped=stopped), ("/ckpt",), 5, told)
    said = capsys.readouterr().err.replace(str(tmp_path), "RUN")

    assert "记录" in said and "检查点" in said
    assert english(said) == []
    assert not re.search(r"\bnext:|\bcause\b|\bloss (?!curve)", said)


@pytest.mark.parametrize("at", [*STATES, "slurm"])
def test_the_page_of_a_run_is_chinese(at: str, tmp_path: Path) -> None:
    """Every row of a record: state, job, loss, the first failed worker, its cause; columns begin below each other."""
    told = explain.diagnose(["RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB"])
    job = {"job": "12", "on": "node[01-02]", "parts": [{"state": "finished"}, {"state": "failed"}, {"state": "failed"}]}
    said = {
        "model": "21b",
        "method": "lora",
        "recipe": "x-npu",
        "device": "npu",
        "container": "box",
        "started": "2026-11-21T14:00:00+00:00",
        "seconds": 61.0,
        "exit": {"code": 5},
        "loss": [[1, 5.0], [2, 4.0]],
        "first_failed_worker": {"rank": 1, "code": -9},
        "diagnoses": [{"kind": told[0].kind, "says": told[0].says}],
        "memory": {"predicted_bytes": 3 << 30, "measured_bytes": 2 << 30},
        "checkpoints": ["/c"],
        "waived": ["name"],
        "stopped": {"name": "watch.stalled", "seen": "no progress: no step for 9 min, and a step took 2 s before"},
        **({"slurm": job} if at == "slurm" else {}),
    }
    lines = shown.as_page(
        Run(tmp_path, "failed" if at == "slurm" else at, None, said), STEPS and step.words(STEPS[-1])
    ).splitlines()
    starts = {width.columns(line[: re.match(r"\S+\s+", line).end()]) for line in lines}  # type: ignore[union-attr]

    assert len(lines) >= 14 and starts == {12}
    assert english("\n".join(lines).replace(str(tmp_path), "RUN")) == []


def test_the_list_of_runs_is_chinese(tmp_path: Path) -> None:
    """Heads and states, in columns that begin below each other on a wide and on a narrow terminal."""
    runs = [Run(tmp_path / f"2026-{n}", at, None, {"method": "lora", "seconds": 5}) for n, at in enumerate(STATES)]
    for wide in (60, 120):
        lines = shown.as_table(runs, wide).splitlines()
        assert {width.columns(line[: line.index(cell)]) for line in lines if (cell := _cell(line))} != set()
        assert english("\n".join(lines)) == []
    assert "状态" in lines[0] and "2026-0" in lines[1]
    assert "还没有运行" in shown.as_table([], 80)


def test_progress_is_chinese() -> None:
    """The line of a step, and the whole screen of train --watch."""
    line = step.words(STEPS[-1], left_s=300)
    screen = "\n".join(page.page(replace(SHOWN, lines=()), 100, 40))

    assert line.startswith("第 40 步，共 80 步，损失 3.0000") and line.endswith("剩余 5 min")
    assert english(line) == english(screen.replace("tiny-npu", "")) == []
    assert "卡 3" in screen


def test_the_record_stays_english() -> None:
    """What is written down for programs does not follow the locale."""
    found = rules.judge(
        replace(HEALTHY, steps=(*HEALTHY.steps, *(TrainingStep(float("nan"), n) for n in (41, 42, 43)))),
        rules.in_force(),
    )
    said = record.ending(replace(END, how="stopped", stopped=found), 5)

    assert said["stopped"]["seen"] == "the loss is lost: it is no number since step 41"
    assert said["state"] == "stopped"


def _cell(line: str) -> str:
    return line.split()[-1]
