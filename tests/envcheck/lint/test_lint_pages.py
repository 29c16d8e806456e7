"""Every rule has a section in the documentation, and every finding links to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.cli.docs.lint_page import page
from envcheck.lint import rule_pages
from envcheck.lint.rule_pages import find_rule_page
from envcheck.lint.rule_table import RULES
from tests.envcheck.report import sarif_schema

SITE = "https://docs.example/envcheck"


def run_lint(*argv: str) -> str:
    return CliRunner().invoke(main.main, ["lint", "--no-shellcheck", *argv], standalone_mode=False).stdout


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "run.sh").write_text("#!/bin/bash\na = 5\n")
    return str(tmp_path / "run.sh")


def test_each_rule_has_a_section() -> None:
    """The anchor of its link is on the page, with its property and its waiver."""
    text = page()

    assert [rule.name for rule in RULES if f'<a id="{rule.name}"></a>\n\n### `{rule.name}`\n' not in text] == []
    assert [rule.name for rule in RULES if f"# envcheck: ignore {rule.name}`" not in text] == []
    assert {find_rule_page(rule.name).partition("#")[0] for rule in RULES} == {"docs/reference/lint-rules.md"}


def test_links(script: str) -> None:
    """Text shows the link with -v only; JSON has it for each finding; SARIF for each rule."""
    link = "docs/reference/lint-rules.md#shell.spaced_assignment"
    (rule,) = json.loads(run_lint(script, "--sarif"))["runs"][0]["tool"]["driver"]["rules"]

    assert [link in run_lint(script, *more) for more in ([], ["-v"])] == [False, True]
    assert "rule: Assignments have no spaces around the equals sign." in run_lint(script, "-v")
    assert [each["page"] for each in json.loads(run_lint(script, "--json"))["findings"]] == [link]
    assert link in rule["help"]["text"] and link in rule["help"]["markdown"]


def test_links_to_the_site(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the address of the site in the package's metadata, links are URLs, and SARIF has them as helpUri."""
    monkeypatch.setattr(rule_pages, "_find_site", lambda: SITE)
    document = json.loads(run_lint(script, "--sarif"))
    (rule,) = document["runs"][0]["tool"]["driver"]["rules"]

    assert rule["helpUri"] == f"{SITE}/reference/lint-rules.html#shell.spaced_assignment"
    assert sarif_schema.list_sarif_errors(document) == []


def test_pages_of_shellcheck() -> None:
    """A rule of shellcheck has the page of its wiki."""
    assert find_rule_page("shellcheck.SC2086") == "https://www.shellcheck.net/wiki/SC2086"
