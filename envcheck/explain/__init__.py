"""Explain failures from logs: a catalogue as data, a matcher for logs of any size, causes before consequences."""

from __future__ import annotations

from envcheck.explain.diagnosis import Diagnosis, Evidence, ExplainReport, RaisedException
from envcheck.explain.explainer import diagnose, explain_codes, explain_files

__all__ = ["Diagnosis", "Evidence", "ExplainReport", "RaisedException", "diagnose", "explain_codes", "explain_files"]
