"""Searches with untrusted patterns, with a deadline: (a+)+b can backtrack for years."""

from __future__ import annotations

import json
import sys
import tempfile

from envcheck.core import process

DEADLINE_S = 5.0
# In a child process, because a running search cannot be interrupted in the same process.
_CHILD = """
import json, re, sys
asked = json.load(open(int(sys.argv[1]), encoding="utf-8"))
found = [re.search(pattern, asked["text"]) if pattern else None for pattern in asked["patterns"]]
print(json.dumps([match and match.start() for match in found]))
"""


def search_patterns(patterns: tuple[str, ...], text: str) -> list[int | None] | None:
    """Return the offset of the first match of each pattern, None for no match.  None instead of a list: the deadline
    expired."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        json.dump({"patterns": patterns, "text": text}, file)
        file.flush()
        file.seek(0)
        argv = [sys.executable, "-I", "-S", "-c", _CHILD, str(file.fileno())]
        done = process.run_command(argv, timeout_s=DEADLINE_S, pass_fds=(file.fileno(),))
    if done.status != 0:
        return None
    found: list[int | None] = json.loads(done.out)
    return found
