"""Render the findings of one host or many, for people and programs: one module per format; no decisions here."""

from envcheck.report.contents import DoctorReport, HostReport
from envcheck.report.style import Style
from envcheck.report.summary import decide_verdict, exit_code, next_step, safe

__all__ = ["DoctorReport", "HostReport", "Style", "decide_verdict", "exit_code", "next_step", "safe"]
