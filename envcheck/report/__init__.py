"""Findings for people and for programs, of one host or many: a module a format.  A report decides nothing."""

from envcheck.report.contents import HostReport, Report
from envcheck.report.style import Style
from envcheck.report.summary import exit_code, next_step, safe, verdict

__all__ = ["HostReport", "Report", "Style", "exit_code", "next_step", "safe", "verdict"]
