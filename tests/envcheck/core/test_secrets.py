"""Redaction: every secret is found, and text without secrets is handled quickly."""

from __future__ import annotations

import random
import re

from envcheck.core import secrets

PIECES = (
    *("token", "TOKEN", "tokens_per_s", "toKen", "pa\u017fsword", "PASSWD", "secret_1", "credent\u0131al", "api_key"),
    *("AccessKey", "private-key", "auth", "Authorization", "Bearer ", "basic ", "ghp_", "hf_", "sk-", "AKIA", "http://"),
    *("proxy", "user", "@", ":", "=", " ", "--", '"', "\\", "abcdefgh12345678", "ABCDEFGH12345678", "\u65e5"),
    *("/", "-", "\n"),
)  # fmt: skip


def redact_slowly(text: str) -> str:
    """Each pattern on each text."""
    if "@" in text:
        text = re.sub(secrets._PROXY, r"\1***@", re.sub(secrets._USERINFO, r"\1***@", text))
    for pattern in (secrets._BEARER, secrets._ASSIGNED, secrets._OPTION):
        text = re.sub(pattern, r"\1***", text)
    return re.sub(secrets._KNOWN, "***", text)


def test_nothing_is_missed() -> None:
    """The keyword prefilter gives the same redaction as trying every pattern."""
    rng = random.Random(1)
    texts = ["".join(rng.choices(PIECES, k=rng.randint(1, 9))) for _ in range(8_000)]

    assert [text for text in texts if secrets.redact_text(text) != redact_slowly(text)] == []
    assert 800 < sum(secrets.BLANK in redact_slowly(text) for text in texts) < 7_200


def test_name_of_an_exception_is_no_secret() -> None:
    """The words after the name of an exception are its message."""
    said = "frob.NoCredentialsError: Unable to locate it; credentials: frob"

    assert secrets.redact_text(said) == "frob.NoCredentialsError: Unable to locate it; credentials: ***"


def test_switch_is_no_secret() -> None:
    """A setting that is only switched is kept; a value that begins with such a word is redacted."""
    assert secrets.redact_text("-o PasswordAuthentication=no h") == "-o PasswordAuthentication=no h"
    assert secrets.redact_text("password=nobody token=no-1") == "password=*** token=***"


def test_words_of_a_command() -> None:
    """The value after a secret option is redacted whatever it looks like; numbers and options without a value are
    kept."""
    said = (
        "swift",
        "--hub_token",
        "abc",
        "--proxy",
        "http://u:w@h/x",
        "--max_new_tokens",
        "9",
        "--api-key",
        "--x",
        "y",
    )
    shown = ("swift", "--hub_token", "***", "--proxy", "http://***@h/x", *said[5:])

    assert secrets.redact_words(said) == shown


def test_lengths_in_tokens_are_shown() -> None:
    """A number of tokens is no secret, but a token is one even if it starts with a figure."""
    assert secrets.redact_text("max_token_len=4096 is too small") == "max_token_len=4096 is too small"
    assert secrets.redact_text("token_id=7f3a-99") == "token_id=***"
