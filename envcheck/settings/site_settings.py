"""What a site sets for its doctor, in envcheck.toml: waivers, thresholds, checks of its own.

[[waive]]
check = "host.swap"
reason = "this host has no other disk"
expires = 2027-01-31

[thresholds]
"host.memory.warn_gib" = 4

[[check]]
name = "own.licence"
command = ["lmstat", "-a"]
pattern = "license server UP"
remedy = "Ask the licence team to start it."
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from envcheck.core.model import Question, Status

NAME = "envcheck.toml"


@dataclass(frozen=True)
class Waiver:
    """A finding that a person has accepted, with the reason, until (and with) the day that is named."""

    check: str
    reason: str
    expires: date


@dataclass(frozen=True)
class OwnCheck:
    """A check without code: the command's text must hold `pattern`, and must not hold `unwanted`."""

    name: str
    question: Question
    remedy: str
    says: str
    pattern: str = ""
    unwanted: str = ""
    severity: Status = Status.FAIL


@dataclass(frozen=True)
class Settings:
    """`file` is where they come from, "" for none; `trusted` where the user named it or keeps it at home.

    Commands of a file that merely lies in the working folder are not run: it may have come with a stranger's archive.
    """

    file: str = ""
    trusted: bool = True
    waivers: tuple[Waiver, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    checks: tuple[OwnCheck, ...] = ()

    @property
    def questions(self) -> tuple[Question, ...]:
        """What the site's own checks ask the machine."""
        return tuple(check.question for check in self.checks) if self.trusted else ()
