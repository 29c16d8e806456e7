"""Runs on the node: unpacks the payloads, runs an envcheck command from them, and relays its output.

remote_command sends this module together with unpack; Python 3.10 or newer runs both.  The control host sends on
standard input: the requested payloads, then "go", and "alive" now and then; each "stop" is a Ctrl-C, and so is the end
of the input, or its silence: a network that was cut ends no connection.
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
from pathlib import Path
from typing import IO, Any, NoReturn

from envcheck.payload.unpack import ATTACHMENTS, PYZ, UnpackedFolder, find_unpacked, remove_unused, unpack_payload

LINE_BYTES = 65536
BEAT_S, BUSY_TICKS = 5.0, 2  # a command that only waits needs no tick (10 ms) in that time
one_at_a_time = threading.Lock()


def main(asked: dict[str, Any]) -> None:
    """Run the request: mark, payloads [[kind, digest, size]], words, grace_s, forget.

    A word that is a list is a path in the attachments.
    """
    found = {kind: find_unpacked(kind, digest) for kind, digest, _ in asked["payloads"]}
    _send_words(asked, "want", *(kind for kind, folder in found.items() if folder is None))
    places = {
        kind: found[kind] or _receive_payload(asked, kind, digest, size) for kind, digest, size in asked["payloads"]
    }
    if sys.stdin.buffer.readline(100) != b"go\n":
        _give_up(asked, "not-started")
    words = [
        word if isinstance(word, str) else str(places[ATTACHMENTS].path.joinpath(*word)) for word in asked["words"]
    ]
    child = subprocess.Popen(
        [sys.executable, "-I", str(places[PYZ].path), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=[place.lock.fileno() for place in places.values()],  # keeps the lock while the command runs
        env={**os.environ, "ENVCHECK_LANG": "en"},  # the control host translates
    )
    _send_words(asked, "begun")
    pairs = ((child.stdout, "out"), (child.stderr, "err"))
    relays = [threading.Thread(target=_relay_lines, args=(asked, *pair)) for pair in pairs]
    threading.Thread(target=_report_work, args=(asked, child.pid), daemon=True).start()
    threading.Thread(target=_obey_input, args=(child, asked["grace_s"], asked["silent_s"]), daemon=True).start()
    for thread in relays:
        thread.start()
    child.wait()
    for thread in relays:
        thread.join(5)
    for place in places.values():
        place.close()
    if asked["forget"]:
        remove_unused()
    _send_words(asked, "exit", str(child.returncode))
    os._exit(0)


def _receive_payload(asked: dict[str, Any], kind: str, digest: str, size: int) -> UnpackedFolder:
    data = sys.stdin.buffer.read(size)
    if hashlib.sha256(data).hexdigest() != digest:
        _give_up(asked, "damaged")
    try:
        return unpack_payload(kind, data)
    except OSError as err:
        _give_up(asked, "no-place", str(err))


def _send_words(asked: dict[str, Any], *words: str) -> None:
    """Write a marked line; if nobody reads it, the command still continues."""
    _write_line(asked, *(word.encode("utf-8", "replace") for word in words))


def _write_line(asked: dict[str, Any], *words: bytes) -> None:
    with one_at_a_time, contextlib.suppress(OSError, ValueError):
        sys.stdout.buffer.write(b"\n" + b" ".join((asked["mark"].encode(), *words)) + b"\n")
        sys.stdout.buffer.flush()


def _give_up(asked: dict[str, Any], word: str, why: str = "") -> NoReturn:
    _send_words(asked, word, why[:200])
    sys.exit(0)


def _relay_lines(asked: dict[str, Any], stream: IO[bytes], word: str) -> None:
    for line in iter(lambda: stream.readline(LINE_BYTES), b""):
        _write_line(asked, word.encode(), line.rstrip(b"\n"))


def _report_work(asked: dict[str, Any], session: int) -> None:
    """Write "busy" as long as the command uses processor time: the control host then knows a slow one from one that
    hangs."""
    used = 0
    while True:
        time.sleep(BEAT_S)
        before, used = used, _count_ticks(session)
        if used - before >= BUSY_TICKS:
            _send_words(asked, "busy")


def _count_ticks(session: int) -> int:
    """Return the processor time of all processes of a session, with ended children that were waited for."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(fields[3]) == session:
                total += sum(map(int, fields[11:15]))
    return total


def _obey_input(child: subprocess.Popen[bytes], grace_s: float, silent_s: float) -> None:
    """Interrupt the child on each "stop"; at the end of the input, or after `silent_s` seconds without one, terminate
    it after `grace_s` seconds."""
    heard = [time.monotonic()]
    threading.Thread(target=_watch_silence, args=(child, grace_s, silent_s, heard), daemon=True).start()
    while line := sys.stdin.buffer.readline(100):
        heard[0] = time.monotonic()
        if line == b"stop\n":
            _interrupt_child(child)
    _end_child(child, grace_s)


def _watch_silence(child: subprocess.Popen[bytes], grace_s: float, silent_s: float, heard: list[float]) -> None:
    while time.monotonic() - heard[0] < silent_s:
        time.sleep(1)
    _end_child(child, grace_s)


def _end_child(child: subprocess.Popen[bytes], grace_s: float) -> None:
    _interrupt_child(child)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(grace_s)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.killpg(child.pid, number)
        time.sleep(20)


def _interrupt_child(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        child.send_signal(signal.SIGINT)
