"""The page of a rule, for all forms of output."""

from __future__ import annotations

from envcheck.core.documentation import find_page
from envcheck.lint.rule_table import RULES_BY_NAME

_SHELLCHECK = "https://www.shellcheck.net/wiki"


def find_rule_page(name: str) -> str:
    """Return the page of a rule with its section; that of shellcheck for its rules."""
    if name in RULES_BY_NAME:
        return find_page("reference/lint-rules", name)
    return f"{_SHELLCHECK}/{name.rpartition('.')[2]}"
