"""Gates in Chinese: every sentence stands in a table, and no case of a gate leaves English but what others printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from envcheck.core.language import width
from envcheck.core.language.findings import localised
from envcheck.core.model import Status
from envcheck.report import Style
from launch import gates
from launch.gates import listing
from launch.run import run_text
from tests.envcheck.core.language import language_parts
from tests.envcheck.core.language.test_language import lacking
from tests.envcheck.core.language.test_language_reports import english
from tests.launch.gates import test_gates
from tests.launch.gates.gate_parts import situated

FOLDER = Path(gates.__file__).parent
FILES = [file for file in sorted(FOLDER.glob("*.py")) if file.stem != "__main__"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_sentence_of_a_gate_has_its_chinese(file: Path) -> None:
    """What a gate says, advises or refuses stands in a table, values aside."""
    assert lacking(t for t in language_parts.sentences(file, language_parts.GATES) if not t.startswith("gate.")) == []


@pytest.mark.parametrize(("name", "changed"), [case[:2] for case in test_gates.CASES], ids=test_gates.ids)
def test_each_case_of_a_gate_is_said_in_chinese(name: str, changed: dict[str, Any], chinese: None) -> None:
    """What was seen and what to do keep no two English words in a row."""
    (found,) = localised([gates.GATES[name](situated(**changed))])

    assert english(found, found.seen, found.remedy.words if found.remedy else "") == []


def test_what_a_person_reads_of_closed_gates(chinese: None, capsys: pytest.CaptureFixture[str]) -> None:
    """The list of gates, and what a start says of those that are closed, have their own words in Chinese, too."""
    case = next(case for case in test_gates.CASES if case[2] is Status.FAIL and case[0] == "port")
    found = [gates.GATES["port"](situated(**case[1]))]
    listed = listing.text(found, Style(width=60))
    run_text.closed(found)
    said = listed + capsys.readouterr().err

    assert "下一步：" in said
    assert "1 道门关闭" in said
    assert not re.search(r"next:|closed|nothing was|opens", said)
    assert max(map(width.columns, listed.splitlines())) <= 60
