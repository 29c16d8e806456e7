"""Taking secrets out of what was read, before it reaches a report, a snapshot or a log."""

from __future__ import annotations

import re

BLANK = "***"
_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^\s/@\"'<>]{1,512}@")
_ASSIGNED = re.compile(
    r"((?:token|secret|passw(?:or)?d|credential|api_?key|access_?key|private_?key)[\w-]{0,40}\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)"
    r"[^\s\"',;}\\]+",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_KNOWN = re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16})\b")


def redact(text: str) -> str:
    """The text without passwords in URLs, assigned tokens, and tokens known by their shape."""
    if "://" in text:
        text = _USERINFO.sub(BLANK + "@", text)
    text = _ASSIGNED.sub(r"\1" + BLANK, text)
    text = _BEARER.sub(r"\1" + BLANK, text)
    return _KNOWN.sub(BLANK, text)


def blank_value(name: str, value: str) -> str:
    """A variable's value; blanked when the name says that it is a secret."""
    return BLANK if _NAME.search(name) else redact(value)
