"""Chinese reports, of simulated machines and of every case of every check: no English is left but what tools say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timezone
from itertools import groupby

import pytest
from click.testing import CliRunner

from envcheck import checks
from envcheck.cli import main
from envcheck.collect import facts
from envcheck.core import language
from envcheck.core.facts import Facts
from envcheck.core.language import width
from envcheck.core.language.findings import localised
from envcheck.core.model import Accepted, Finding, Status
from envcheck.report import Style, check_list, formats
from envcheck.report.contents import NextCommand
from tests.envcheck.checks import test_checks
from tests.envcheck.checks.doctor_helpers import simulated
from tests.envcheck.report.report_helpers import machine_report

LOOKED_AT = [
    ("atlas-800t-a2", "memory-held"),
    ("atlas-800t-a2", "health-alarm"),
    ("atlas-800t-a2", "dcmi-8005"),
    ("atlas-800t-a2", "tool-missing"),
    ("atlas-800t-a2", "module-gone"),
    ("atlas-200t-a2-box16", "topology-degraded"),
    ("bi-v150x8", "driver-old"),
    ("h200x8", "library-mismatch"),
    ("h200x8", "truncated"),
    ("a100x8-mig", ""),
    ("cpu", "docker-absent"),
]
ENGLISH = re.compile(r"(?<![\w./=$@-])[A-Za-z][a-z']+,? [a-z][a-z']+(?![\w/=.-])")
# What stays: a command with its verb, names, and what vendors call things.
KEPT = (
    r"envcheck (?:doctor|train|provision|snapshot|recipes|solve|plan|lint)\b",
    r"fabric manager|peer access|bus error|system not yet initialized|all-reduce|docker (?:info|dev)|Fail to open",
    r"(?:Python|numpy|paddlepaddle|torch) (?:three|git)",  # versions that the cases make up
    r"'[^']*'|“[^”]*”|`[^`]*`|https?://\S+",
    r"（[^（）]*(?:\([^()]*\))*[^（）]*20\d\d[^（）]*）",  # a source, by its title and date
    r"ret is -\d+|Socket failed|systemctl show|pip install|mem usage|netmask M|address A",
)


pytestmark = pytest.mark.usefixtures("chinese")


def english(finding: Finding, *texts: str) -> list[str]:
    """Runs of two and more English words that no tool said."""
    printed = "\n".join(finding.evidence)
    found = []
    for text in texts:
        bare = re.sub("|".join(KEPT), " | ", text)
        found += [run[0] for run in ENGLISH.finditer(bare) if run[0] not in printed]
    return found


@pytest.mark.parametrize("area", sorted({name.partition(".")[0] for name in test_checks.CASES}))
def test_each_case_of_each_check_is_said_in_chinese(area: str) -> None:
    """Right, wrong, absent or unreadable: what was seen and what to do keep no two English words in a row."""
    left = []
    for name in (n for n in test_checks.CASES if n.startswith(f"{area}.")):
        said, (_, wrong, _, absent, unreadable) = test_checks.case(name)
        for known in (said, wrong(said), absent(said), unreadable(said)):
            left += _left(list(checks.run(test_checks.BY_NAME[name], known)), known)

    assert left == []


@pytest.mark.parametrize(("name", "fault"), LOOKED_AT)
def test_a_simulated_machine_is_told_in_chinese(name: str, fault: str) -> None:
    """Findings of a whole machine, and each line of its text report outside of evidence, have no English sentence."""
    with simulated(name, (fault,) if fault else ()) as machine:
        known = facts.gather(machine)
    found = checks.run_all(known)
    text = formats.render("table", machine_report(localised(found), known, style=Style(width=1000), lang="zh"))
    told = [line for line in text.splitlines() if "|" not in line and not line.startswith("          ")]
    said = "\n".join(line for f in found for line in (f.seen, *f.evidence))

    assert _left(found, known) == []
    assert [run for line in told for run in ENGLISH.findall(re.sub("|".join(KEPT), "", line)) if run not in said] == []


def test_the_door_changes_words_alone() -> None:
    """Name, status, device, commands, evidence and source of each finding are the same in both languages."""
    known, (_, wrong, _, _, _) = test_checks.case("host.shm")
    found = checks.run_all(wrong(known))
    said = localised(found)

    def rest(f: Finding) -> Finding:
        return replace(f, seen="", waived="", remedy=f.remedy and replace(f.remedy, words=""))

    assert [rest(f) for f in said] == [rest(f) for f in found]
    assert sum(a.seen != b.seen for a, b in zip(said, found, strict=True)) > len(found) / 2


def test_the_page_says_our_own_reason_and_leaves_titles() -> None:
    """A source that is a reason of ours is Chinese on the page; one that is a document's title stays."""
    known, (_, wrong, _, _, _) = test_checks.case("host.shm")
    found = next(f for f in localised(checks.run_all(wrong(known))) if f.name == "host.shm")
    mine = [replace(found, source="our threshold"), replace(found, source="npu-smi reference: words of Health")]
    text = formats.render("html", machine_report(mine, known, lang="zh"))

    assert "本工具的阈值" in text and "our threshold" not in text
    assert "npu-smi reference: words of Health" in text


def test_a_waiver_is_said_in_chinese_with_its_own_reason() -> None:
    """Its last day is told in Chinese, and the site's reason stays to the letter."""
    finding = Finding("host.swap", Status.WARN, "x", waived="until 2027-01-31: we know {it}")
    (said,) = localised([replace(finding, accepted=Accepted("we know {it}", "2027-01-31"))])

    assert said.waived == "至 2027-01-31：we know {it}"


def test_lines_of_a_report_are_no_wider_than_the_terminal() -> None:
    """At 60 columns no line of words is wider, where each Chinese character counts two; commands are never wrapped."""
    known, (_, wrong, _, _, _) = test_checks.case("host.shm")
    report = machine_report(localised(checks.run_all(wrong(known))), known, style=Style(width=60), lang="zh")
    lines = formats.render("table", report).splitlines()

    assert [ln for ln in lines if not ln.startswith("          ") and width.columns(ln) > 60] == []
    assert any(width.columns(ln) > 50 for ln in lines)


def test_the_second_line_of_the_next_step_stands_below_the_first() -> None:
    """As far in as the label is wide, in columns."""
    with simulated("cpu") as machine:
        known = facts.gather(machine)
    step = NextCommand("", "envcheck train --recipe tiny-cpu --method lora")
    report = machine_report(localised(checks.run_all(known)), known, next_command=step)
    *_, above, below = formats.render("table", report).splitlines()

    assert width.columns(above.partition("envcheck")[0]) == len(below) - len(below.lstrip())


@pytest.mark.parametrize("written_as", ["table", "html", "markdown", "junit", "sarif"])
def test_every_format_for_people_speaks_chinese(written_as: str) -> None:
    """Verdict, area and next step are Chinese in each format that a person reads."""
    text = _written(written_as)
    text = json.loads(text)["runs"][0].__str__() if written_as == "sarif" else text

    assert "不能训练。" in text
    assert "请" in text
    assert not re.search(r"Not fit to train|Next:|checks need|could not be told", text)


def test_the_next_step_of_a_ci_server_is_one_line_without_a_blank_behind_a_wide_mark() -> None:
    """Words and command stand together as Chinese is written."""
    known, (_, wrong, _, _, _) = test_checks.case("host.shm")
    text = formats.render("junit", machine_report(localised(checks.run_all(wrong(known))), known))

    assert re.search('name="next_step" value="[^"]*：sudo mount', text)


def test_json_is_english_unless_chinese_is_asked_for() -> None:
    """A program's JSON does not follow the locale; --lang on the command line does."""
    asked = ["doctor", "--json", "--only", "host.clock"]
    run = CliRunner().invoke
    language.choose(asked, {"LANG": "zh_CN.UTF-8"})
    plain = json.loads(run(main.main, asked).output)
    language.choose([*asked, "--lang", "zh"], {})
    said = json.loads(run(main.main, [*asked, "--lang", "zh"]).output)

    assert plain["findings"][0]["seen"].isascii()
    assert not said["findings"][0]["seen"].isascii()
    assert {f["name"] for f in plain["findings"]} == {f["name"] for f in said["findings"]} == {"host.clock"}


def test_checks_are_listed_in_chinese() -> None:
    """--list-checks says each check's promise in Chinese, in lines that the terminal holds."""
    lines = check_list.as_text(80).splitlines()

    assert max(map(width.columns, lines)) <= 80
    assert "厂商工具已安装并有响应。" in "".join(lines)


def _written(written_as: str) -> str:
    known, (_, wrong, _, _, _) = test_checks.case("host.shm")
    found = localised(checks.run_all(wrong(known)))
    made = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return formats.render(written_as, machine_report(found, known, lang="zh", made=made))


def _left(found: list[Finding], known: Facts) -> list[tuple[str, str, list[str]]]:
    """(check, its English, what is left of it), once each; an engine's own complaint is a tool's word."""
    told = known.engine.error if known.engine and known.engine.error else ""
    wrong = []
    for english_one, one in zip(found, localised(found), strict=True):
        words = [one.seen, one.remedy.words if one.remedy else ""]
        rest = [run for run in english(one, *words) if run not in told]
        if rest:
            wrong.append((one.name, english_one.seen, rest))
    return [next(same) for _, same in groupby(wrong)]
