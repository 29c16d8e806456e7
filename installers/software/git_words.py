"""What git's complaints mean: the first pattern that its output holds, a sentence, the next step.

Seen with git 2.39 against repositories of our own: down, absent, cut, without the ref, behind a password.
"""

from __future__ import annotations

import re

AGAIN = "repeat the same command"
NET = "look at the network, http_proxy and https_proxy; then repeat"
MEANINGS: tuple[tuple[str, str, str], ...] = (
    (r"No space left on device|Disk quota exceeded", "the disk is full", f"make room, then {AGAIN}"),
    (r"Could not resolve host|Name or service not known", "the server's name does not resolve", NET),
    (
        r"SSL certificate problem|server certificate verification failed",
        "the server's certificate is not trusted here",
        "set GIT_SSL_CAINFO to your CA's file",
    ),
    (
        r"Failed to connect|Couldn't connect|Connection refused|timed out|Network is unreachable",
        "the server cannot be reached",
        NET,
    ),
    (
        r"Authentication failed|could not read (?:Username|Password)|terminal prompts disabled|error: 40[13]\b"
        r"|Permission denied \(publickey",
        "the repository asks for a password",
        "look at the address; a password belongs into git's own store (git credential)",
    ),
    (
        r"couldn't find remote ref|not our ref|did not send all necessary objects|unadvertised object|no such ref"
        r"|reference is not a tree|Not a valid object name",
        "the repository does not have it",
        "look at the recipe's ref",
    ),
    (r"Permission denied|Read-only file system", "the folder cannot be written", "look at whose folder it is"),
    (
        r"repository '[^']*' not found|does not appear to be a git repository|does not exist|error: 404\b"
        r"|not valid: is this a git repository",
        "there is no such repository",
        "look at the recipe's address",
    ),
    (
        r"early EOF|RPC failed|unexpected disconnect|hung up|transfer closed|Operation too slow|bad pack"
        r"|Empty reply|Recv failure",
        "the transfer was cut off",
        AGAIN,
    ),
)


def understood(text: str) -> tuple[str, str]:
    """A sentence and a next step; git's own last error line where nothing is known."""
    for pattern, sentence, step in MEANINGS:
        if re.search(pattern, text):
            return sentence, step
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
    return f"git failed: {errors[-1][:300] if errors else 'it said nothing'}", AGAIN
