"""The former name of `envcheck.reports`."""

from envcheck.reports import Style, as_json, as_text, exit_code, listing, next_step, safe, verdict

__all__ = ["Style", "as_json", "as_text", "exit_code", "listing", "next_step", "safe", "verdict"]
