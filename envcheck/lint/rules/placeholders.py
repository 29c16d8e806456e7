"""The rule about values that a template leaves to its user."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import warn
from envcheck.core.lint.script_model import Remark, ShellWord
from envcheck.core.messages import _

ANGLED = r"<[ ]*[A-Za-z][^<>\n;&|]{0,120}>"  # <path to the data>
# As documents write them: {num_nodes}, <master ip>, [NODE_IP], your_master_addr, xx.xx.xx.xx, REPLACE_ME.
_PLACEHOLDER = re.compile(  # <s> and other single letters are tokens of models
    rf"""(?ix) \{{\s*[a-z][a-z0-9_ -]{{1,40}}\s*\}} | (?!<.>){ANGLED} | \[[a-z][a-z0-9]*(?:[_ ][a-z0-9]+)+\]
    | (?:your|my)[_-](?:\w+[_-])?(?:ip|addr|address|host|port|node|nodes|rank|master)
    | x{{1,3}}(?:\.x{{1,3}}){{3}} | (?:replace|change|fill)[_-]?(?:me|this|in) | todo"""
)


def find_placeholders(context: LintContext) -> Iterator[Remark]:
    """Find variables and options of a training that still have a template's placeholder as their value."""
    spots: dict[int, ShellWord] = {}
    for script in context.scripts:
        for assign in script.assigns:
            if assign.word.is_known and not assign.word.soft and _PLACEHOLDER.fullmatch(assign.word.text):
                spots[assign.start] = ShellWord(assign.word.text, assign.start, assign.end)
    for job in context.jobs:
        for word in job.command.words:
            value = word.text.rpartition("=")[2] if word.text.startswith("-") else word.text
            if word.is_known and _PLACEHOLDER.fullmatch(value):
                spots[word.start] = ShellWord(value, word.start, word.end)
    for at in sorted(spots):
        value = spots[at].text
        yield warn(
            spots[at],
            _("{value} is a placeholder, not a value", value=value),
            _("Replace {value} with your own value.", value=value),
        )
