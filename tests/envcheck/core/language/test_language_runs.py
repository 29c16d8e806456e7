"""Runs in Chinese: progress, the end of a run, what ended it early, and what `envcheck runs` shows of a record."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck import explain
from envcheck.core import language
from envcheck.core.language import width
from envcheck.core.language.localized_findings import localize_findings
from launch.logs import training_step
from launch.logs.training_step import TrainingStep
from launch.run import diagnose_failure, record, run_text
from launch.run.first_failure import FirstFailure
from launch.run.launcher import TrainingEnd
from launch.run.states import LOST, ORPHANED, QUEUED
from launch.runs import run_pages
from launch.runs.run_state import Run
from launch.watching import stop_rules
from tests.envcheck.core.language.test_language_reports import ENGLISH
from tests.launch.watching.test_watch_rules import CASES, HEALTHY

STATES = (*run_text._HOW, "running", QUEUED, ORPHANED, LOST, "refused")

STEPS = tuple(TrainingStep(5 - n / 20, n, of=80, learning_rate=1e-4, tokens_per_s_card=812.5) for n in range(1, 41))
PEAKS = {"0": {"memory_mib": 2048, "power_w": 90.4}, "1": {"memory_mib": 1024, "power_w": 300.0}}
END = TrainingEnd("failed", 1, None, STEPS, 5 << 30, 61.0, ("launcher's own words",), cards={"peaks": PEAKS})
ENDS = {
    "succeeded": replace(END, how="succeeded"),
    "one step": replace(END, how="succeeded", steps=STEPS[:1]),
    "killed": replace(END, failed=FirstFailure(1, -9, ("Killed",))),
    "by another": replace(END, failed=FirstFailure(0, 1, ("Broken pipe",), follows=True)),
    "shared": replace(END, failed=FirstFailure(0, None, ("ValueError: x",), shared=True)),
    "the launcher": END,
    "unstarted": replace(END, how="unstarted", steps=()),
    "still there": replace(END, how="user", left=(77, 78)),
    "deadline": replace(END, how="deadline"),
}
PASTED = re.compile(
    r"`[^`]*`|^  \| .*$|\$ .*$|envcheck runs \w+ \S+|envcheck plan|expandable segments|set_env\.sh|tokens/s"
    r"|loss (?:nan|inf)",
    re.M,
)

STALLED = stop_rules.judge_moment(
    replace(HEALTHY, grew_at=0.0, stepped_at=1.0, now=9000.0), stop_rules.list_active_rules()
)
assert STALLED


pytestmark = pytest.mark.usefixtures("chinese")


def english(text: str) -> list[str]:
    return ENGLISH.findall(PASTED.sub("|", text))


@pytest.mark.parametrize(("name", "changed", "seen"), [case for case in CASES if case[2]])
def test_what_ends_a_run_early_is_chinese(name: str, changed: dict[str, object], seen: str) -> None:
    """Observation, evidence and remedy of every stop rule."""
    found = stop_rules.judge_moment(replace(HEALTHY, **changed), {name: stop_rules.list_active_rules()[name]})  # type: ignore[arg-type]
    assert found and found.name == f"watch.{name}"
    (told,) = localize_findings([found])
    words = told.remedy.words if told.remedy else ""

    assert re.search("[一-鿿]", told.seen) and "--no-stop" in words
    assert english("\n".join((told.seen, words, *map(language.translate, told.evidence)))) == []


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_run_is_chinese(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every way to end: loss, failed rank, meaning of the log's error, and the folder of the run."""
    told = explain.diagnose(["RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB"])
    run_text.print_end(tmp_path, replace(ENDS[name], stopped=STALLED), ("/ckpt",), 5, told)
    said = capsys.readouterr().err.replace(str(tmp_path), "RUN")

    assert "记录" in said and "检查点" in said
    assert english(said) == []
    assert not re.search(r"\bnext:|\bcause\b|\bloss curve", said)


@pytest.mark.parametrize("at", [*STATES, "slurm"])
def test_the_page_of_a_run_is_chinese(at: str, tmp_path: Path) -> None:
    """Every row of a record: state, job, loss, the first failed worker, its cause; columns begin below each other."""
    told = explain.diagnose(["RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB"])
    job = {
        "job": "12",
        "on": "node[01-02]",
        "parts": [{"state": "succeeded"}, {"state": "failed"}, {"state": "failed"}],
    }
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
        "diagnoses": diagnose_failure.list_diagnosis_values(told),
        "memory": {"predicted_bytes": 3 << 30, "measured_bytes": 2 << 30},
        "checkpoints": ["/c"],
        "waived": ["name"],
        "stopped": json.loads(json.dumps(record.list_findings([STALLED])[0])),
        **({"slurm": job} if at == "slurm" else {}),
    }
    lines = run_pages.as_page(
        Run(tmp_path, "failed" if at == "slurm" else at, None, said), STEPS and training_step.describe_step(STEPS[-1])
    ).splitlines()
    starts = {width.display_width(line[: re.match(r"\S+\s+", line).end()]) for line in lines}  # type: ignore[union-attr]

    assert len(lines) >= 14 and starts == {12}
    assert english("\n".join(lines).replace(str(tmp_path), "RUN")) == []


def test_the_list_of_runs_is_chinese(tmp_path: Path) -> None:
    """Heads and states, in columns that begin below each other on a wide and on a narrow terminal."""
    runs = [Run(tmp_path / f"2026-{n}", at, None, {"method": "lora", "seconds": 5}) for n, at in enumerate(STATES)]
    for wide in (60, 120):
        lines = run_pages.as_table(runs, wide).splitlines()
        assert {width.display_width(line[: line.index(cell)]) for line in lines if (cell := _cell(line))} != set()
        assert english("\n".join(lines)) == []
    assert "状态" in lines[0] and "2026-0" in lines[1]
    assert "尚无运行" in run_pages.as_table([], 80)


def test_the_record_stays_english() -> None:
    """Files for programs do not depend on the locale."""
    found = stop_rules.judge_moment(
        replace(HEALTHY, steps=(*HEALTHY.steps, *(TrainingStep(float("nan"), n) for n in (41, 42, 43)))),
        stop_rules.list_active_rules(),
    )
    said = record.build_end_values(replace(END, how="rule", stopped=found), 5)

    assert said["stopped"]["seen"] == "the loss diverged: NaN or infinite since step 41"
    assert said["state"] == "stopped"


def _cell(line: str) -> str:
    return line.split()[-1]
