"""The failures of the field: each has its line, and each line names what there is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.checks import CHECKS, known_issues
from envcheck.cli.commands.doctor import doctor
from envcheck.core.errors import UsageError
from envcheck.core.version import SCHEMA_VERSION
from envcheck.deep import check_table
from envcheck.lint.rule_table import RULES
from envcheck.report import check_list
from launch.gates import GATES


def test_each_failure_has_its_line() -> None:
    """Each known issue is detected by a check, rule or gate, or has a reason why it cannot be."""
    found = {failure.number: failure for failure in known_issues.load_known_issues()}

    assert list(found) == [f"F{n:02}" for n in range(1, 113)]
    assert [n for n, f in found.items() if not (f.checks or f.lint or f.gates or f.deep or f.reason)] == []


def test_each_name_is_one_that_there_is() -> None:
    """All referenced checks, rules and gates exist."""
    known = {
        "checks": {check.name for check in CHECKS},
        "lint": {rule.name for rule in RULES},
        "gates": set(GATES),
        "deep": set(check_table.NAMES),
    }
    strange = [
        (f.number, name)
        for f in known_issues.load_known_issues()
        for kind in known
        for name in getattr(f, kind)
        if name not in known[kind]
    ]

    assert strange == []


def test_the_table_is_as_large_as_was_promised() -> None:
    """There are at least a hundred checks; no two have a name or a sentence in common."""
    assert len(CHECKS) >= 100
    assert len({check.name for check in CHECKS}) == len({check.description for check in CHECKS}) == len(CHECKS)


def test_each_check_tells_what_it_reads_and_where_it_comes_from() -> None:
    """Every check has a description, its inputs and a source."""
    bare = [c.name for c in CHECKS if not (c.description.endswith(".") and c.reads and c.source)]

    assert bare == []


def test_checks_are_listed_for_programs() -> None:
    """--list-checks --json has all columns of every check, and the known issues that it detects."""
    done = CliRunner().invoke(doctor, ["--list-checks", "--json"])
    listed = {check["name"]: check for check in json.loads(done.output)["checks"]}

    assert done.exit_code == 0
    assert list(listed) == [check.name for check in (*CHECKS, *check_table.make_checks())]
    assert listed["toolkit.nnal"]["rule"].startswith("WARN") and listed["toolkit.nnal"]["vendors"] == ["npu"]
    assert any("libdcmi" in symptom for symptom in listed["driver.dcmi"]["known_failures"])
    assert json.loads(check_list.as_json())["schema"] == SCHEMA_VERSION


@pytest.mark.parametrize(
    "text",
    ["[G1]\nsymptom = 'x'", "[F1]\nwhy = 'x'", "[F1]\nsymptom = 'x'\nchecks = [1]", "F1 = 3", "[F1]\nsymptom = 7"],
)
def test_a_line_that_is_none_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slip in the file is one sentence that names the entry."""
    file = tmp_path / "field.toml"
    file.write_text(text)
    monkeypatch.setattr(known_issues, "FILE", file)
    known_issues.load_known_issues.cache_clear()
    try:
        with pytest.raises(UsageError, match=rf"{file}: [FG]1\b"):
            known_issues.load_known_issues()
    finally:
        known_issues.load_known_issues.cache_clear()
