"""Runs on another host: reads questions as lines of JSON, and writes answers as they arrive.

Each line of output starts with the mark, which separates it from the output of login scripts: `clock SECONDS`, then for
each answer any number of `part TEXT` and one `data TEXT`, which together are its JSON, compressed, in base64.
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
from envcheck.collect.host.answers import FAILED, SYSROOT, CollectorHost
from envcheck.collect.host.work_pool import WorkPool

CHUNK = 48 << 10
QUESTION_LIMIT = 1 << 20  # bytes of a line


def main(asked: "dict[str, Any]") -> None:
    """Serve the request: mark, deadline_s, vendors (the fields of their records).

    The deadline ends this process and its children even if the connection is lost; so does the end of the input.
    """
    signal.signal(signal.SIGALRM, _exit_process)
    signal.alarm(int(asked["deadline_s"]))
    mark, pool = asked["mark"], WorkPool()
    vendors = [SimpleNamespace(**vendor) for vendor in asked["vendors"]]
    host = CollectorHost(vendors, commands.run_command, os.environ.get(SYSROOT, ""))
    _write_line(mark, f"clock {time.time():.6f}")
    threading.Thread(target=_read_questions, args=(host, pool), daemon=True).start()
    while True:
        answer = pool.next_result()
        if answer is None:
            _exit_process()
        packed = base64.b64encode(zlib.compress(json.dumps(answer).encode(), 6)).decode()
        pieces = [packed[start : start + CHUNK] for start in range(0, len(packed), CHUNK)]
        for piece in pieces[:-1]:
            _write_line(mark, "part " + piece)
        _write_line(mark, "data " + pieces[-1])


def _read_questions(host: CollectorHost, pool: WorkPool) -> None:
    """Queue the questions; each line is [[verb, [word, ...], timeout_s], ...]. The end of the input ends the
    process."""
    for line in iter(lambda: sys.stdin.buffer.readline(QUESTION_LIMIT), b""):
        for verb, what, timeout_s in json.loads(line.decode()):
            pool.submit(partial(_answer_question, host, verb, what, timeout_s))
    pool.submit(lambda: None)


def _answer_question(host: CollectorHost, verb: str, what: "list[str]", timeout_s: float) -> "dict[str, Any]":
    try:
        found = host.answer(verb, what, timeout_s)
    except Exception as err:  # an error is the answer to this question; the others continue
        found = {"outcome": FAILED, "err": f"{type(err).__name__}: {err}"}
    return dict(found, key=" ".join([verb, *what]))


def _exit_process(*_: object) -> None:
    commands.kill_all()
    sys.stdout.flush()
    os._exit(0)


def _write_line(mark: str, words: str) -> None:
    sys.stdout.write(f"\n{mark} {words}\n")
    sys.stdout.flush()
