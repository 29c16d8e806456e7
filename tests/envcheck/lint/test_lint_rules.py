"""Each rule of `envcheck lint` speaks where it should, at the right place, and is silent where it should be."""

from __future__ import annotations

import pytest

from envcheck.core.facts import Facts
from envcheck.core.lint.script_model import Remark
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.lint import linter
from envcheck.lint.linter import LintResult
from envcheck.lint.rule_table import RULES, RULES_BY_NAME
from envcheck.scripts import source_file
from tests.envcheck.lint.lint_cases import CASES, LintCase

# Told by facts of a machine alone: tests/envcheck/lint/test_lint_machine.py.
BY_FACTS = {"launch.cards", "launch.device"}
each_case = pytest.mark.parametrize("case", CASES, ids=[f"{c.rule}{'-' * bool(c.id)}{c.id}" for c in CASES])


def lint_text(text: str, case: LintCase) -> LintResult:
    """Lint on a machine without devices, whose architecture and interfaces are unknown."""
    head = "#!/bin/bash\n" if case.file.endswith(".sh") and not text.startswith(("#!", "\ufeff")) else ""
    machine = TargetMachine(lambda: Facts(), live=True)
    return linter.lint_source(
        source_file.make_source(case.file, (head + text).encode()), machine, case.device, others=False
    )


def select_remarks(result: LintResult, rule: str) -> list[Remark]:
    return [remark for remark in result.remarks if remark.rule == rule]


@each_case
def test_wrong(case: LintCase) -> None:
    """The rule reports the mistake with its severity and place."""
    result = lint_text(case.wrong, case)
    found = select_remarks(result, case.rule)

    assert found, [remark.rule for remark in result.remarks]
    assert Status[case.severity] in {remark.severity for remark in found}
    if case.at:
        assert any(result.source.raw[remark.start :].decode().startswith(case.at) for remark in found)
    assert all(remark.seen and remark.remedy for remark in found)


@each_case
def test_right(case: LintCase) -> None:
    """The script without the trap gets no such remark."""
    assert select_remarks(lint_text(case.right, case), case.rule) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_has_a_case(rule) -> None:  # type: ignore[no-untyped-def]
    """No rule is without a script that breaks it, and none is called worse in the table than it ever is."""
    told = {case.severity for case in CASES if case.rule == rule.name}

    assert told or rule.name in BY_FACTS
    assert not told or rule.severity >= max(Status[word] for word in told)


@each_case
def test_fix_mends(case: LintCase) -> None:
    """What --write-fixed makes of a script no longer has the trap that was mended, and reads as before otherwise."""
    from envcheck.lint import fix

    result = lint_text(case.wrong, case)
    if not any(remark.fix for remark in select_remarks(result, case.rule)):
        return
    raw, mended = fix.apply_fixes(result)
    again = lint_text(raw.decode().removeprefix("#!/bin/bash\n"), case)

    assert mended > 0
    assert len(select_remarks(again, case.rule)) < len(select_remarks(result, case.rule))


def test_names_are_areas() -> None:
    """A rule is area.property, each once."""
    assert len(RULES_BY_NAME) == len(RULES) >= 100
    assert all(name.count(".") == 1 for name in RULES_BY_NAME)
