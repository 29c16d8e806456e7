"""Removes secrets from text before it reaches a report, a snapshot or a log."""

from __future__ import annotations

import re
from collections.abc import Iterable

BLANK = "***"
# Patterns as text: few texts need them, and compiling takes longer than matching.
# TOKENIZERS_PARALLELISM is not a secret.
_NAME = r"(?i)TOKEN(?!IZER)|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH"
# https://user:password@host, also with JSON's \/\/; the password may contain / or @ after a colon that is not a port's.
_USERINFO = r"(:(?:\\?/){2})(?:[^\s/@:\"'<>]{1,256}:(?!\d{1,5}/)[^\s\"'<>]{0,512}|[^\s/@\"'<>]{1,512})@"
# HttpProxy: user:password@host, without a scheme.
_PROXY = r"(?i)(proxy\w{0,10}\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)[^\s\"'@,;/]{1,512}@"
# "tokens_per_s": 4963 and max_token_len=4096 are not secrets: the plural with a plain number, and a length, is a count.
_COUNT = (
    r"(?:tokens|token[_-](?:len|num|count|budget|limit|id))[\w-]{0,40}"
    r"\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?\d{1,12}(?:\.\d{1,12})?(?![\w.+/=-])"
)
_ASSIGNED = (
    rf"(?i)((?!{_COUNT})(?:token(?!izer)|secret|passw(?:or)?d|credential|api_?key|access_?key|private_?key"
    r"|auth(?:orization)?(?=\\?[\"']?\s{0,4}[:=]))(?!\w{0,20}Error\b)"
    r"[\w-]{0,40}\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)(?!(?:yes|no|on|off|true|false|none|null)(?:[\s\"',;}\\]|$))[^\s\"',;}\\]+"
)
_OPTION = r"(?i)(--?[\w-]{0,40}(?:token|secret|passw(?:or)?d|api-?key)\s{1,4})[^\s\"'-][^\s\"']*"
_OPTION_NAME = r"(?i)--?[\w-]{0,40}(?:token|secret|passw(?:or)?d|api[-_]?key)"
# Tokens of a tokenizer, and values that are a switch, a count, or the name of a variable.
_MARKER_OPTION = r"(?i)--?[\w-]{0,40}(?:bos|eos|pad|unk|sep|cls|mask|image|video|audio|stop|start|end|special)[-_]token"
_NO_SECRET = r"(?i)true|false|none|null|\d{1,12}|\$.*"
_BEARER = r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"
_KNOWN = r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16})\b"
# Every match contains one of these, except non-ASCII letters that become s or i in another case.
_SIGNS = ("token", "secret", "passw", "credential", "key", "auth", "bearer", "basic")
_KNOWN_SIGNS = ("_", "sk-", "AKIA")


def redact_text(text: str) -> str:
    """Return the text without passwords in URLs, assigned tokens, and tokens recognisable by their shape."""
    if "@" in text:
        text = re.sub(_PROXY, rf"\1{BLANK}@", re.sub(_USERINFO, rf"\1{BLANK}@", text))
    low = text.lower()
    if not text.isascii() or any(sign in low for sign in _SIGNS):
        for pattern in (_BEARER, _ASSIGNED, _OPTION):  # the bearer token first: it is the second word after the colon
            text = re.sub(pattern, r"\1" + BLANK, text)
    return re.sub(_KNOWN, BLANK, text) if any(sign in text for sign in _KNOWN_SIGNS) else text


def redact_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return a command's words without secrets; the word after an option for a secret is always one."""
    found: list[str] = []
    behind = False
    for word in words:
        found.append(BLANK if behind and not word.startswith("-") else redact_text(word))
        behind = bool(re.fullmatch(_OPTION_NAME, word))
    return tuple(found)


def list_secret_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return what holds a secret in a command: the option or variable, else the word itself, redacted."""
    texts, found = tuple(words), []
    for before, word, shown in zip(("", *texts), texts, redact_words(texts), strict=False):
        name = before if shown == BLANK and before.startswith("-") else shown.partition("=")[0]
        value = word if name == before else word.partition("=")[2]
        if shown != word and not re.fullmatch(_MARKER_OPTION, name) and not re.fullmatch(_NO_SECRET, value):
            found.append(name)
    return tuple(dict.fromkeys(found))


def redact_variable(name: str, value: str) -> str:
    """Return a variable's value without secrets; a variable named like a secret is blanked completely."""
    if name.lower().endswith("_proxy"):
        value = value.rpartition("@")[2] if "://" not in value and "@" in value else value
    return BLANK if re.search(_NAME, name) else redact_text(value)
