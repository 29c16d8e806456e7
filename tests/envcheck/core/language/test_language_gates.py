"""Gates in Chinese: every sentence stands in a table, and no case of a gate leaves English but what others printed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from envcheck.core.language import width
from envcheck.core.language.localized_findings import localize_findings
from envcheck.core.model import Status
from envcheck.report import Style
from launch import gates
from launch.gates import listing
from launch.run import run_text
from tests.envcheck.core.language.test_language_reports import english
from tests.launch.gates import test_gates
from tests.launch.gates.gate_parts import make_context


@pytest.mark.parametrize(("name", "changed"), [case[:2] for case in test_gates.CASES], ids=test_gates.make_id)
def test_each_case_of_a_gate_is_said_in_chinese(name: str, changed: dict[str, Any], chinese: None) -> None:
    """Observation and remedy contain no two consecutive English words."""
    (found,) = localize_findings([gates.GATES[name](make_context(**changed))])

    left = english(found, found.seen, found.remedy.words if found.remedy else "")

    assert [words for words in left if words not in str(changed)] == []  # what the case puts into another's mouth


def test_what_a_person_reads_of_closed_gates(chinese: None, capsys: pytest.CaptureFixture[str]) -> None:
    """The list of launch checks, and the report of failed ones at a start, are Chinese."""
    case = next(case for case in test_gates.CASES if case[2] is Status.FAIL and case[0] == "port")
    found = [gates.GATES["port"](make_context(**case[1]))]
    listed = listing.render_gates(found, Style(width=60))
    run_text.print_closed_gates(found)
    said = listed + capsys.readouterr().err

    assert "下一步：" in said
    assert "1 项启动检查未通过" in said
    assert not re.search(r"next:|closed|nothing was|opens", said)
    assert max(map(width.display_width, listed.splitlines())) <= 60
