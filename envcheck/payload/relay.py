"""On the node: unpacks what travelled, runs a command of envcheck from it, and relays its lines.

remote_command sends this text together with that of unpack; Python 3.10 or newer runs both.  The other side talks over
standard input: the payloads that are wanted, then "go"; each "stop" is a Ctrl-C, and so is the end of the input.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any, NoReturn

from envcheck.payload.unpack import ATTACHMENTS, PYZ, Unpacked, find, forget, unpack

LINE_BYTES = 65536
one_at_a_time = threading.Lock()


def main(asked: dict[str, Any]) -> None:
    """`asked`: mark, payloads [[kind, digest, size]], words, grace_s, forget."""
    found = {kind: find(kind, digest) for kind, digest, _ in asked["payloads"]}
    _tell(asked, "want", *(kind for kind, one in found.items() if one is None))
    places = {kind: found[kind] or _receive(asked, kind, digest, size) for kind, digest, size in asked["payloads"]}
    if sys.stdin.buffer.readline(100) != b"go\n":
        _give_up(asked, "not-begun")
    words = [
        word if isinstance(word, str) else str(places[ATTACHMENTS].path.joinpath(*word)) for word in asked["words"]
    ]
    child = subprocess.Popen(
        [sys.executable, "-I", str(places[PYZ].path), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=[one.lock.fileno() for one in places.values()],  # held for as long as the command runs
        env={**os.environ, "ENVCHECK_LANG": "en"},  # who asked translates
    )
    _tell(asked, "begun")
    pairs = ((child.stdout, "out"), (child.stderr, "err"))
    relays = [threading.Thread(target=_relay, args=(asked, *pair)) for pair in pairs]
    threading.Thread(target=_hear, args=(child, asked["grace_s"]), daemon=True).start()
    for one in relays:
        one.start()
    child.wait()
    for one in relays:
        one.join(5)
    for place in places.values():
        place.close()
    if asked["forget"]:
        forget()
    _tell(asked, "exit", str(child.returncode))
    os._exit(0)


def _receive(asked: dict[str, Any], kind: str, digest: str, size: int) -> Unpacked:
    data = sys.stdin.buffer.read(size)
    if hashlib.sha256(data).hexdigest() != digest:
        _give_up(asked, "damaged")
    try:
        return unpack(kind, data)
    except OSError as err:
        _give_up(asked, "no-place", str(err))


def _tell(asked: dict[str, Any], *words: str) -> None:
    """A marked line; where nobody reads any more the work goes on to its end all the same."""
    _write(asked, *(word.encode("utf-8", "replace") for word in words))


def _write(asked: dict[str, Any], *words: bytes) -> None:
    with one_at_a_time, contextlib.suppress(OSError, ValueError):
        sys.stdout.buffer.write(b"\n" + b" ".join((asked["mark"].encode(), *words)) + b"\n")
        sys.stdout.buffer.flush()


def _give_up(asked: dict[str, Any], word: str, why: str = "") -> NoReturn:
    _tell(asked, word, why[:200])
    sys.exit(0)


def _relay(asked: dict[str, Any], stream: IO[bytes], word: str) -> None:
    for line in iter(lambda: stream.readline(LINE_BYTES), b""):
        _write(asked, word.encode(), line.rstrip(b"\n"))


def _hear(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """What the other side says; its end is a Ctrl-C, too, with less patience."""
    while line := sys.stdin.buffer.readline(100):
        if line == b"stop\n":
            _interrupt(child)
    _interrupt(child)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(grace_s)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.killpg(child.pid, number)
        time.sleep(20)


def _interrupt(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        child.send_signal(signal.SIGINT)
