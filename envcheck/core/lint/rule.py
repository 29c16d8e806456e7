"""A lint rule: its name, severity, property and source, and the function that checks a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.script_model import Remark
from envcheck.core.model import Status

Judge = Callable[[LintContext], Iterator[Remark]]


@dataclass(frozen=True)
class LintRule:
    """`severity` is the worst of its remarks; `says` is the property that the rule verifies; `source` the origin of the
    rule.

    A vendor's rule follows the one named `after` in lists and documents; by default it is last.
    """

    name: str
    severity: Status
    says: str
    source: str
    judge: Judge
    after: str = ""

    @property
    def area(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]
