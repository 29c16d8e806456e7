"""Findings for people and for programs: one file a format.  A report decides nothing; it writes what was judged."""

from envcheck.report.document import as_json
from envcheck.report.style import Style
from envcheck.report.summary import Report, exit_code, next_step, safe, verdict
from envcheck.report.text import as_text, listing

__all__ = ["Report", "Style", "as_json", "as_text", "exit_code", "listing", "next_step", "safe", "verdict"]
