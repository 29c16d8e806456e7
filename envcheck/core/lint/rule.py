"""A rule of the linter: what it says, where that comes from, and the function that judges a file by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Remark
from envcheck.core.model import Status

Judge = Callable[[LintContext], Iterator[Remark]]


@dataclass(frozen=True)
class LintRule:
    """`severity` is the worst that its remarks have; `source` says where the rule comes from.

    A vendor's rule stands behind the one named `after` in lists and documents, without one behind all others.
    """

    name: str
    severity: Status
    says: str
    source: str
    judge: Judge
    after: str = ""

    @property
    def area(self) -> str:
        return self.name.partition(".")[0]
