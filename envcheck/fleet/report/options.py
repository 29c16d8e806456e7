"""What a format of the fleet's report may want to know beside the fleet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from envcheck.report import Style


@dataclass(frozen=True)
class FleetReportOptions:
    """`strict`: warnings count as failures; `lang` is a language's code, `made` when the report was made."""

    strict: bool
    style: Style
    lang: str
    made: datetime
