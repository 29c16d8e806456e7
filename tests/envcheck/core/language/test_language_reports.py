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
from envcheck.core.language.localized_findings import localize_findings
from envcheck.core.model import AcceptedWaiver, Finding, Status
from envcheck.report import Style, check_list, formats
from envcheck.report.contents import NextCommand
from tests.envcheck.checks import test_checks
from tests.envcheck.checks.doctor_helpers import simulate_machine
from tests.envcheck.report.report_helpers import make_machine_report

ENGLISH = re.compile(r"(?<![\w./=$@-])[A-Za-z][a-z']+,? [a-z][a-z']+(?![\w/=.-])")
# What stays: a command with its verb, names, and what vendors call things.
KEPT = (
    r"envcheck (?:doctor|train|provision|snapshot|recipes|solve|plan|lint)\b",
    r"fabric manager|peer access|bus error|system not yet initialized|all-reduce|docker (?:info|dev)|Fail to open",
    r"(?:Python|numpy|paddlepaddle|torch) (?:three|git)",  # versions that the cases make up
    r"'[^']*'|“[^”]*”|`[^`]*`|https?://\S+",
    r"（[^（）]*(?:\([^()]*\))*[^（）]*20\d\d[^（）]*）",  # a source, by its title and date
    r"ret is -\d+|Socket failed|systemctl show|pip install|mem usage|netmask M|address A|rank table",
    r"tensor parallel 8 does not divide 20 heads|could not be laid out",  # made up by the cases
)


pytestmark = pytest.mark.usefixtures("chinese")


def english(finding: Finding, *texts: str) -> list[str]:
    """Runs of two and more English words that are not tool output."""
    printed = "\n".join(finding.evidence)
    found = []
    for text in texts:
        bare = re.sub("|".join(KEPT), " | ", text)
        found += [run[0] for run in ENGLISH.finditer(bare) if run[0] not in printed]
    return found


@pytest.mark.parametrize("area", sorted({name.partition(".")[0] for name in test_checks.CASES}))
def test_each_case_of_each_check_is_said_in_chinese(area: str) -> None:
    """Passing, failing, absent or unreadable: observation and remedy contain no two consecutive English words."""
    left = []
    for name in (n for n in test_checks.CASES if n.startswith(f"{area}.")):
        said, (_, wrong, _, absent, unreadable) = test_checks.make_case(name)
        for known in (said, wrong(said), absent(said), unreadable(said)):
            left += _left(list(checks.run_check(test_checks.BY_NAME[name], known)), known)

    assert left == []


def test_the_door_changes_words_alone() -> None:
    """Name, status, device, commands, evidence and source of each finding are the same in both languages."""
    known, (_, wrong, _, _, _) = test_checks.make_case("host.shm")
    found = checks.run_checks(wrong(known))
    said = localize_findings(found)

    def rest(f: Finding) -> Finding:
        return replace(f, seen="", waived="", remedy=f.remedy and replace(f.remedy, words=""))

    assert [rest(f) for f in said] == [rest(f) for f in found]
    assert sum(a.seen != b.seen for a, b in zip(said, found, strict=True)) > len(found) / 2


def test_the_page_says_our_own_reason_and_leaves_titles() -> None:
    """A source that is envcheck's own reason is Chinese on the page; the title of a document is kept."""
    known, (_, wrong, _, _, _) = test_checks.make_case("host.shm")
    found = next(f for f in localize_findings(checks.run_checks(wrong(known))) if f.name == "host.shm")
    mine = [replace(found, source="set by envcheck"), replace(found, source="npu-smi reference: words of Health")]
    text = formats.render("html", make_machine_report(mine, known, lang="zh"))

    assert "envcheck 设定" in text and "set by envcheck" not in text
    assert "npu-smi reference: words of Health" in text


def test_a_waiver_is_said_in_chinese_with_its_own_reason() -> None:
    """Its last day is told in Chinese, and the site's reason stays to the letter."""
    finding = Finding("host.swap", Status.WARN, "x", waived="until 2027-01-31: we know {it}")
    (said,) = localize_findings([replace(finding, accepted=AcceptedWaiver("we know {it}", "2027-01-31"))])

    assert said.waived == "至 2027-01-31：we know {it}"


def test_lines_of_a_report_are_no_wider_than_the_terminal() -> None:
    """No text line is wider than 60 columns, with Chinese characters counted as two; commands are not wrapped."""
    known, (_, wrong, _, _, _) = test_checks.make_case("host.shm")
    report = make_machine_report(
        localize_findings(checks.run_checks(wrong(known))), known, style=Style(width=60), lang="zh"
    )
    lines = formats.render("table", report).splitlines()

    assert [ln for ln in lines if not ln.startswith("          ") and width.display_width(ln) > 60] == []
    assert any(width.display_width(ln) > 50 for ln in lines)


def test_the_second_line_of_the_next_step_stands_below_the_first() -> None:
    """As far in as the label is wide, in columns."""
    with simulate_machine("cpu") as machine:
        known = facts.gather_facts(machine)
    step = NextCommand("", "envcheck train --recipe tiny-cpu --method lora")
    report = make_machine_report(localize_findings(checks.run_checks(known)), known, next_command=step)
    *_, above, below = formats.render("table", report).splitlines()

    assert width.display_width(above.partition("envcheck")[0]) == len(below) - len(below.lstrip())


@pytest.mark.parametrize("written_as", ["table", "html", "markdown", "junit", "sarif"])
def test_every_format_for_people_speaks_chinese(written_as: str) -> None:
    """Verdict, area and next step are Chinese in each format that a person reads."""
    text = _written(written_as)
    text = json.loads(text)["runs"][0].__str__() if written_as == "sarif" else text

    assert "不满足训练条件。" in text
    assert "请" in text
    assert not re.search(r"Not ready to train|Next:|checks need|cannot determine", text)


def test_the_next_step_of_a_ci_server_is_one_line_without_a_blank_behind_a_wide_mark() -> None:
    """No blank follows full-width punctuation."""
    known, (_, wrong, _, _, _) = test_checks.make_case("host.shm")
    text = formats.render("junit", make_machine_report(localize_findings(checks.run_checks(wrong(known))), known))

    assert re.search('name="next_step" value="[^"]*：envcheck doctor --fix', text)


def test_json_is_english_unless_chinese_is_asked_for() -> None:
    """A program's JSON does not follow the locale; --lang on the command line does."""
    asked = ["doctor", "--json", "--only", "host.clock"]
    run = CliRunner().invoke
    language.choose_language(asked, {"LANG": "zh_CN.UTF-8"})
    plain = json.loads(run(main.main, asked).output)
    language.choose_language([*asked, "--lang", "zh"], {})
    said = json.loads(run(main.main, [*asked, "--lang", "zh"]).output)

    assert plain["findings"][0]["seen"].isascii()
    assert not said["findings"][0]["seen"].isascii()
    assert {f["name"] for f in plain["findings"]} == {f["name"] for f in said["findings"]} == {"host.clock"}


def test_checks_are_listed_in_chinese() -> None:
    """--list-checks says each check's promise in Chinese, in lines that the terminal holds."""
    lines = check_list.as_text(80).splitlines()

    assert max(map(width.display_width, lines)) <= 80
    assert "厂商工具已安装且有响应。" in "".join(lines)


def _written(written_as: str) -> str:
    known, (_, wrong, _, _, _) = test_checks.make_case("host.shm")
    found = localize_findings(checks.run_checks(wrong(known)))
    made = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return formats.render(written_as, make_machine_report(found, known, lang="zh", made=made))


def _left(found: list[Finding], known: Facts) -> list[tuple[str, str, list[str]]]:
    """(check, English text, remaining English words), each once; the container engine's own error is tool output."""
    told = known.engine.error if known.engine and known.engine.error else ""
    wrong = []
    for english_one, one in zip(found, localize_findings(found), strict=True):
        words = [one.seen, one.remedy.words if one.remedy else ""]
        rest = [run for run in english(one, *words) if run not in told]
        if rest:
            wrong.append((one.name, english_one.seen, rest))
    return [next(same) for _, same in groupby(wrong)]
