"""Tells a value from what a cell has in its place: an empty value, a failure, or a mask of whoever pasted the text."""

from __future__ import annotations

import re
from functools import lru_cache

from envcheck.core.tool_text import cell_text

_FAILURE = re.compile(r"err!?|.*\b(?:error|lost|permissions?|reset|failed|failure)\b.*", re.IGNORECASE)
_EMPTY = {"requested functionality has been deprecated", "not found", "not active", "not available", "deprecated"}
_SIGN = r"[*xX#?\u2022\u2588\u2592]"
_MASK = re.compile(rf"[\s._:/-]*{_SIGN}(?:{_SIGN}|[\s._:/\u2026-])*")
_PART = re.compile(r"[*#\u2588\u2592]{2}")
_MASK_WORD = re.compile(r"[<(\[]?(?:masked|redacted|hidden|removed|anonymi[sz]ed|unknown)[>)\]]?", re.IGNORECASE)
# Of hexadecimal digits and signs of masks: a word such as GPU-based, or GPU-fed, has no digit.
_UUID = re.compile(
    rf"[A-Z]{{3}}-(?=.{{0,80}}?(?:\d|{_SIGN}{{2}}|[A-Fa-f]{{8}}))(?:{_SIGN}|[0-9A-Fa-f._\u2026-]){{4,80}}"
)
_SIGN_OF_MASK = re.compile(_SIGN)
_PRINTED = re.compile(r"[A-Za-z0-9]|\.{3}")  # "..." is the end of a long name


@lru_cache(maxsize=4096)
def is_failure(text: str) -> bool:
    """Return whether the tool printed that it could not read the value: ERR!, [Unknown Error], [GPU is lost]."""
    return bool(_FAILURE.fullmatch(text.strip().strip("[]")))


@lru_cache(maxsize=4096)
def is_absent(text: str) -> bool:
    """Return whether the tool printed that there is no such value: N/A, [Not Supported]."""
    words = text.strip().strip("[]")
    return bool(words) and not is_failure(words) and (cell_text(words) is None or words.lower() in _EMPTY)


def is_masked(text: str) -> bool:
    """Return whether somebody replaced the value: ****, xxxx:xx:xx.x, <masked>."""
    return bool(_MASK.fullmatch(text) or _MASK_WORD.fullmatch(text.strip()))


@lru_cache(maxsize=4096)
def is_hidden(text: str) -> bool:
    """Return whether this cannot be what a tool prints: masked, also in part, or without a word in ASCII."""
    if is_masked(text) or _PART.search(text) or not _PRINTED.search(text):
        return True
    return any(map(_is_hidden_word, text.split()))


def is_unprinted(text: str) -> bool:
    """Return whether the text has no value: a mask, a failure, or what the tool prints for none."""
    return is_hidden(text) or is_failure(text) or is_absent(text)


@lru_cache(maxsize=4096)
def is_uuid(text: str) -> bool:
    """Return whether the text has the form of a device's UUID, which may be masked in part: GPU-????????-0a1b."""
    return bool(_UUID.fullmatch(text))


def has_mask_sign(text: str) -> bool:
    """Return whether a text that has no x of its own, as a UUID, is masked in part."""
    return bool(_SIGN_OF_MASK.search(text))


def _is_hidden_word(word: str) -> bool:
    """Return whether a word is no part of a value; a single sign may be one: TITAN X."""
    is_sign = len(word) == 1 and word.isascii()
    return not is_sign and (is_masked(word) or word.upper() == "ERR!" or not (word.isascii() or _PRINTED.search(word)))
