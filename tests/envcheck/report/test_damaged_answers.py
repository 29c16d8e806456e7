"""Answers of a machine, damaged at random: the doctor judges them, and every report format has whole documents."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from envcheck import checks
from envcheck.collect import answer_sources, facts
from envcheck.collect.fact_reader import read_facts
from envcheck.collect.snapshot import parse_snapshot, render_snapshot
from envcheck.core.errors import UsageError
from envcheck.core.model import Answer, Outcome, Status
from envcheck.report import DoctorReport, HostReport, formats
from envcheck.simulate import machine_file
from envcheck.simulate.build import write_simulation

JUNK = ("\n" * 3000, " " * 3000, "\x1b[31m\x00", "9" * 400, "| - " * 500, '"{[<&', "NPU ID : 1\n" * 200, "\u202e\ud7ff")
SEEDS = range(100, 1300)  # of the extended run: about five minutes


def damage_text(text: str, source: random.Random) -> str:
    """Return the text with a few cuts, copies and hostile pieces."""
    for _ in range(source.randint(1, 4)):
        at, to = sorted(source.randint(0, len(text)) for _ in range(2))
        text = source.choice(
            (text[:at] + text[to:], text[:to] + text[at:], text[:at] + source.choice(JUNK) + text[at:], text[:at])
        )
    return text[:200_000]


def damage_answers(answers: Mapping[str, Answer], source: random.Random) -> dict[str, Answer]:
    found = dict(answers)
    for key in source.sample(sorted(found), min(12, len(found))):
        one = found[key]
        found[key] = source.choice((
            replace(one, out=damage_text(one.out, source)), replace(one, err=damage_text(one.err, source)),
            replace(one, outcome=source.choice(list(Outcome))), replace(one, status=source.choice((0, 1, 126, -9))),
        ))  # fmt: skip
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Answer]]:
    """The answers of one simulated machine of each kind of tool."""
    found = []
    for name in ("atlas-800t-a2", "bi-v150x8", "h200x8", "p800x8"):
        folder: Path = tmp_path_factory.mktemp(name)
        write_simulation(machine_file.load_machine(name), folder, 1e9)
        found.append(facts.ask_machine(answer_sources.simulated_machine(folder)))
    return found


def judge_damaged(answers: Mapping[str, Answer], seed: int) -> None:
    """Assert that damaged answers lead to findings, and to whole documents of every format."""
    source = random.Random(seed)
    damaged = damage_answers(answers, source)
    seen = read_facts(damaged)
    findings = checks.run_checks(seen)
    crashed = [f"{f.name}: {f.seen}" for f in findings if f.status is Status.UNKNOWN and "crashed" in f.seen]
    report = DoctorReport((HostReport(findings, seen),)).localise_findings()

    assert findings and crashed == [], (seed, crashed)
    for name in formats.FORMATS:
        text = formats.render(name, report)
        assert "\x1b" not in text and "\x00" not in text, (seed, name)
        if name in ("json", "sarif"):
            json.loads(text)
        elif name == "junit":
            ElementTree.fromstring(text)


def load_damaged_snapshot(answers: Mapping[str, Answer], seed: int) -> None:
    """Assert that a damaged recording is read, or refused with a message."""
    source = random.Random(seed)
    text = damage_text(render_snapshot(answers, "auto"), source)
    try:
        found, device = parse_snapshot(text.encode("utf-8", "surrogatepass"))
    except UsageError as err:
        assert err.message
    else:
        read_facts(found, device)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_damaged_answers_are_judged_and_shown(whole: list[dict[str, Answer]], seed: int) -> None:
    """No check crashes, and no format lets control characters through, whatever a machine answers."""
    judge_damaged(whole[seed % len(whole)], seed)
    load_damaged_snapshot(whole[seed % len(whole)], seed)


@pytest.mark.extended
def test_damaged_answers_with_many_seeds(whole: list[dict[str, Answer]]) -> None:
    """The same with twelve hundred seeds."""
    for seed in SEEDS:
        judge_damaged(whole[seed % len(whole)], seed)
        load_damaged_snapshot(whole[seed % len(whole)], seed)
