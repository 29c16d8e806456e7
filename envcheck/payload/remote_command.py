"""The shell command that runs an envcheck command on a node: relay.py and unpack.py as its arguments."""

from __future__ import annotations

import base64
import json
import shlex
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from envcheck.payload.content import Payload
from envcheck.payload.remote_collector import MARK

# Seconds for a command to end after a lost connection: a training writes a checkpoint in that time.
GRACE_S = 900
# The control host writes a line every ALIVE_S; a host that reads none for SILENT_S ends its command.  The difference
# is for a suspended control host and a slow network.
ALIVE_S = 15.0
SILENT_S = 8 * ALIVE_S
PYTHONS = "python3 python3.14 python3.13 python3.12 python3.11 python3.10"
ENOUGH = "import sys; sys.exit(sys.version_info < (3, 10))"
RUN = "import base64, sys, zlib; exec(zlib.decompress(base64.b64decode(sys.argv[1])))"
LOADER = """\
import base64, json, sys, types
for name, text in {texts!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(text, module.__dict__)
module.main(json.loads(base64.b64decode(sys.argv[2])))
"""
Word = str | tuple[str]  # a path in the attachments is a tuple


def render_command(payloads: Mapping[str, Payload], words: Sequence[Word], forget: bool = False) -> str:
    """Return one line in single quotes for any login shell; `words` are the arguments of the envcheck command.

    `forget`: remove the unpacked files afterwards.
    """
    asked = {
        "mark": MARK,
        "payloads": [[kind, one.digest, len(one.data)] for kind, one in payloads.items()],
        "words": [word if isinstance(word, str) else list(word) for word in words],
        "grace_s": GRACE_S,
        "silent_s": SILENT_S,
        "forget": forget,
    }
    sent = base64.b64encode(json.dumps(asked).encode()).decode()
    script = (
        f'for p in {PYTHONS}; do $p -I -S -c "{ENOUGH}" 2>/dev/null && '
        f'exec $p -I -c "{RUN}" {_pack_program()} {sent}; done; echo; echo {MARK} no-new-python'
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"


@cache
def _pack_program() -> str:
    """Return a loader with the source of both modules, compressed, for `python -c`."""
    texts = {f"envcheck.payload.{name}": _read_source(name) for name in ("unpack", "relay")}
    whole = base64.b64encode(zlib.compress(LOADER.format(texts=texts).encode(), 9))
    return whole.decode()


def _read_source(name: str) -> str:
    return Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
