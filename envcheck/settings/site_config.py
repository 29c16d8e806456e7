"""A site's settings in envcheck.toml: the job, waivers, thresholds, its own checks, and its access to the outside.

[job]
model = "ERNIE-4.5-21B-A3B"
method = "lora"
device = "npu"

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
from envcheck.settings.site_access import NO_SITE, SiteAccess

NAME = "envcheck.toml"


@dataclass(frozen=True)
class Waiver:
    """A finding that a person has accepted, with the reason, up to and including the day `expires`."""

    check: str
    reason: str
    expires: date


@dataclass(frozen=True)
class CustomCheck:
    """A check without code: the command's output must match `pattern`, and must not match `unwanted`."""

    name: str
    question: Question
    remedy: str
    description: str
    pattern: str = ""
    unwanted: str = ""
    severity: Status = Status.FAIL


@dataclass(frozen=True)
class JobDefaults:
    """The job of commands that name none, "" for what is not set."""

    model: str = ""
    method: str = ""
    device: str = ""


NO_JOB = JobDefaults()


@dataclass(frozen=True)
class SiteSettings:
    """`file` is the source, "" for none; `trusted`: the user named it, or it is in the home directory.

    Commands of a file in the working folder are not run: it may have come with an untrusted archive.
    """

    file: str = ""
    trusted: bool = True
    waivers: tuple[Waiver, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    checks: tuple[CustomCheck, ...] = ()
    access: SiteAccess = NO_SITE
    job: JobDefaults = NO_JOB

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions of the site's own checks."""
        return tuple(check.question for check in self.checks) if self.trusted else ()
