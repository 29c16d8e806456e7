"""Explain git's errors: the first pattern that matches its output gives a sentence and a next step.

Observed with git 2.39 and test repositories: server down, missing, cut off, unknown ref, password required.
"""

from __future__ import annotations

import re

from envcheck.core.messages import Message, _, fill, mark
from envcheck.core.secrets import redact_text

AGAIN = _("run the same command again")
NET = mark("check the network, http_proxy and https_proxy, then run the command again")
MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device|Disk quota exceeded",
        mark("no space left on the disk"),
        mark("free disk space, then {again}"),
    ),
    (r"Could not resolve host|Name or service not known", mark("the server name does not resolve"), NET),
    (
        r"SSL certificate problem|server certificate verification failed",
        mark("the server certificate is not trusted on this host"),
        mark("set GIT_SSL_CAINFO to your CA file"),
    ),
    (
        r"Failed to connect|Couldn't connect|Connection refused|timed out|Network is unreachable",
        mark("the server is unreachable"),
        NET,
    ),
    (
        r"Authentication failed|could not read (?:Username|Password)|terminal prompts disabled|error: 40[13]\b"
        r"|Permission denied \(publickey",
        mark("the repository requires a password"),
        mark("check the URL; store the password with `git credential`"),
    ),
    (
        r"couldn't find remote ref|not our ref|did not send all necessary objects|unadvertised object|no such ref"
        r"|reference is not a tree|Not a valid object name",
        mark("the ref does not exist in the repository"),
        mark("check `ref` in the recipe"),
    ),
    (
        r"Permission denied|Read-only file system",
        mark("cannot write to the folder"),
        mark("check who owns the folder"),
    ),
    (
        r"repository '[^']*' not found|does not appear to be a git repository|does not exist|error: 404\b"
        r"|not valid: is this a git repository",
        mark("repository not found"),
        mark("check the URL in the recipe"),
    ),
    (
        r"early EOF|RPC failed|unexpected disconnect|hung up|transfer closed|Operation too slow|bad pack"
        r"|Empty reply|Recv failure",
        mark("the transfer was interrupted"),
        "{again}",
    ),
)


def explain_output(text: str) -> tuple[Message, Message]:
    """Return a sentence and a next step; git's last error line if no pattern matches."""
    for pattern, sentence, step in MEANINGS:
        if re.search(pattern, text):
            return fill(sentence), fill(step, again=AGAIN)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
    reason = redact_text(errors[-1][:300]) if errors else _("no output")
    return _("git failed: {reason}", reason=reason), AGAIN
