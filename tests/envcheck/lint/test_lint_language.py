"""envcheck lint in Chinese: what its rules saw, the report's own words, and English for programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli.commands.lint import lint as command
from envcheck.core import language
from envcheck.core.facts import Facts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.lint import linter
from envcheck.lint.rule_table import RULES
from envcheck.scripts import source_file
from tests.envcheck.lint.lint_cases import CASES, LintCase

ROOT = Path(__file__).parents[3]
# Said as parts of others, or with so few words that they could be a tool's own.


def collect_remarks() -> dict[str, str]:
    """Return the remarks of all cases with their rules."""
    machine, found = TargetMachine(lambda: Facts(), live=True), {}
    for case in CASES:
        result = linter.lint_source(
            source_file.make_source(case.file, add_shebang(case).encode()), machine, case.device, others=False
        )
        found |= {text: each.rule for each in result.remarks for text in (each.seen, each.remedy)}
    return found


def add_shebang(case: LintCase) -> str:
    return case.wrong if case.wrong.startswith("#!") or not case.file.endswith(".sh") else f"#!/bin/bash\n{case.wrong}"


def test_nothing_is_said_in_english(chinese: None) -> None:
    """Of all that is seen and advised in the cases of all rules no sentence stays English, tools' own words aside."""
    theirs = {"config.syntax", "shell.syntax", "packages.together"}  # PyYAML's words, bash's, and names of sources
    prose = re.compile(r"(?<![\w./=$<-])[A-Za-z][a-z']+(,? [a-z']{2,}){2,}")
    commands = ("pip install ", "git clone ")
    left = {
        t: language.translate(t)
        for t, rule in collect_remarks().items()
        if rule not in theirs and not t.startswith(commands)
    }

    assert len(left) > 300
    assert sorted(text for text, said in left.items() if prose.search(said)) == []


def test_report_is_chinese(tmp_path: Path, chinese: None) -> None:
    """Status, sentence, next step and sums are Chinese; the script's own line stays."""
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/bash\nchmod 777 a\npython train.py --lr 1e-4 --max_steps 100 --warmup_steps 2000\n")
    said = CliRunner().invoke(command, [str(script), "--no-shellcheck"], standalone_mode=False).stdout

    assert "失败 run.sh:3:" in said and "警告 run.sh:2:" in said and "下一步：" in said and "1 项失败、2 项警告" in said
    assert "chmod 777 a" in said
    assert not re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,} [a-z]{2,}", said.replace("chmod 777 a", ""))


def test_programs_get_english(tmp_path: Path, chinese: None) -> None:
    """JSON and SARIF are for programs."""
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/bash\nchmod 777 a\n")
    for form in ("--json", "--sarif"):
        said = CliRunner().invoke(command, [str(script), "--no-shellcheck", form], standalone_mode=False).stdout
        assert "every user on the machine can write to it" in said


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in CASES if c.rule.startswith("shell.")], ids=lambda c: f"{c.rule}{c.id}")
def test_nothing_is_lost_in_translation(case, chinese: None, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A report in Chinese names the same rules at the same places as the English one."""
    script = tmp_path / case.file
    script.write_text(case.wrong)
    argv = [str(script), "--no-shellcheck", "--device", case.device]
    said = CliRunner().invoke(command, argv, standalone_mode=False).stdout
    language.choose_language([], {})
    plain = CliRunner().invoke(command, argv, standalone_mode=False).stdout
    place = re.compile(rf"{re.escape(case.file)}:\d+:\d+ [\w.]+")

    assert place.findall(said) == place.findall(plain) != []


def test_keys_stay_keys(chinese: None) -> None:
    """What is to be written into a compose file is not translated with the words around it."""
    text = "services:\n  a:\n    image: b:1\n    ports: ['80:80']\n    devices: [/dev/davinci0]\n"
    result = linter.lint_source(source_file.make_source("compose.yaml", text.encode()), others=False)
    said = [language.translate(each.remedy) for each in result.remarks]

    assert "{ports: [127.0.0.1:80:80]}" in said
    assert any(each.startswith("{devices: [/dev/davinci_manager") for each in said)


def test_the_list_of_rules(chinese: None) -> None:
    """--list-rules --lang zh lists each rule with its Chinese description."""
    lines = CliRunner().invoke(command, ["--list-rules"], standalone_mode=False).stdout.splitlines()
    said = {line.split()[0]: line.split(maxsplit=2)[2] for line in lines}

    assert list(said) == [rule.name for rule in RULES]
    assert [name for name, text in said.items() if not re.search("[\u4e00-\u9fff]", text)] == []
    assert {line.split()[1] for line in lines} <= {"失败", "警告", "INFO", "信息", "提示"}
