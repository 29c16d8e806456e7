"""What a log says went wrong: a catalogue as data, a matcher that reads any size, and causes before consequences."""

from __future__ import annotations

from envcheck.explain.model import Diagnosis, Evidence, Raised, Report
from envcheck.explain.session import diagnose, explain_codes, explain_files

__all__ = ["Diagnosis", "Evidence", "Raised", "Report", "diagnose", "explain_codes", "explain_files"]
