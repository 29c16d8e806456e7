"""A stranger's pattern on a stranger's text, with a deadline: (a+)+b needs longer than the world has been there."""

from __future__ import annotations

import json
import sys
import tempfile

from envcheck.core import process

DEADLINE_S = 5.0
# In a child, since a search that has begun cannot be called off in the process that made it.
_CHILD = """
import json, re, sys
asked = json.load(open(int(sys.argv[1]), encoding="utf-8"))
found = [re.search(pattern, asked["text"]) if pattern else None for pattern in asked["patterns"]]
print(json.dumps([match and match.start() for match in found]))
"""


def places(patterns: tuple[str, ...], text: str) -> list[int | None] | None:
    """Where each is found first; None in the list: nowhere.  None: the search did not end in its time."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        json.dump({"patterns": patterns, "text": text}, file)
        file.flush()
        file.seek(0)
        argv = [sys.executable, "-I", "-S", "-c", _CHILD, str(file.fileno())]
        done = process.run(argv, timeout_s=DEADLINE_S, pass_fds=(file.fileno(),))
    if done.status != 0:
        return None
    found: list[int | None] = json.loads(done.out)
    return found
