"""What runs on a host: questions come in as lines of JSON, answers go out as they are found.

A line that goes out begins with the mark, so that what a login script prints is told apart: `clock SECONDS`, then for
each answer `part TEXT` as often as needed and `data TEXT`, which together are its JSON, compressed, in base64.
"""

import base64
import json
import os
import signal
import sys
import threading
import time
import zlib
from functools import partial
from types import SimpleNamespace
from typing import Any

from envcheck.collect.host import commands
from envcheck.collect.host.answers import FAILED, SYSROOT, Host
from envcheck.collect.host.work_pool import WorkPool

CHUNK = 48 << 10
QUESTION_LIMIT = 1 << 20  # bytes of a line


def main(asked: "dict[str, Any]") -> None:
    """`asked`: mark, deadline_s, vendors (the fields of their records).

    The deadline ends this and its children even where the connection has gone; so does the end of the input.
    """
    signal.signal(signal.SIGALRM, _end)
    signal.alarm(int(asked["deadline_s"]))
    mark, pool = asked["mark"], WorkPool()
    vendors = [SimpleNamespace(**vendor) for vendor in asked["vendors"]]
    host = Host(vendors, commands.run, os.environ.get(SYSROOT, ""))
    _tell(mark, f"clock {time.time():.6f}")
    threading.Thread(target=_listen, args=(host, pool), daemon=True).start()
    while True:
        answer = pool.next_result()
        if answer is None:
            _end()
        packed = base64.b64encode(zlib.compress(json.dumps(answer).encode(), 6)).decode()
        pieces = [packed[start : start + CHUNK] for start in range(0, len(packed), CHUNK)]
        for piece in pieces[:-1]:
            _tell(mark, "part " + piece)
        _tell(mark, "data " + pieces[-1])


def _listen(host: Host, pool: WorkPool) -> None:
    """Each line is [[verb, [word, ...], timeout_s], ...]; after the last one nobody waits for an answer."""
    for line in iter(lambda: sys.stdin.buffer.readline(QUESTION_LIMIT), b""):
        for verb, what, timeout_s in json.loads(line.decode()):
            pool.submit(partial(_answer, host, verb, what, timeout_s))
    pool.submit(lambda: None)


def _answer(host: Host, verb: str, what: "list[str]", timeout_s: float) -> "dict[str, Any]":
    try:
        found = host.answer(verb, what, timeout_s)
    except Exception as err:  # one question that cannot be answered is an answer; the others go on
        found = {"outcome": FAILED, "err": f"{type(err).__name__}: {err}"}
    return dict(found, key=" ".join([verb, *what]))


def _end(*_: object) -> None:
    commands.end_all()
    sys.stdout.flush()
    os._exit(0)


def _tell(mark: str, words: str) -> None:
    sys.stdout.write(f"\n{mark} {words}\n")
    sys.stdout.flush()
