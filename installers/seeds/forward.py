"""A port of this host's loopback that leads to the host which passes the image on.

Engines take a registry without TLS from loopback alone, and cannot say our token: this end says it for them.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator

from installers.seeds.seed import WHY, Seed, refusal

CONNECT_S, ANSWER_S, CHUNK = 10.0, 30.0, 1 << 18
WHY_LIMIT = 1000
TLS = b"\x16"  # the first byte of a handshake, which engines try first


class Forward:
    """`used`: connections that the engine made, so that one which never came is told apart."""

    def __init__(self, seed: Seed) -> None:
        self.seed, self.used = seed, 0
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])

    def run(self) -> None:
        while True:
            try:
                near, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._lead, args=(near,), daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)  # wakes who waits in accept
        self._door.close()

    def _lead(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            self.used += 1
            near.settimeout(ANSWER_S)
            if near.recv(1, socket.MSG_PEEK) in (b"", TLS):
                return
            try:
                far = joined(self.seed)
            except OSError as err:
                near.sendall(_answer(f"{self.seed.node} does not answer: {said(err)}"))
                return
            with far:
                for one in (near, far):
                    one.settimeout(None)
                back = threading.Thread(target=_pass, args=(far, near), daemon=True)
                back.start()
                _pass(near, far)
                back.join()


@contextlib.contextmanager
def opened(seed: Seed) -> Iterator[Forward]:
    forward = Forward(seed)
    threading.Thread(target=forward.run, daemon=True).start()
    try:
        yield forward
    finally:
        forward.close()


def joined(seed: Seed) -> socket.socket:
    """A connection that has said the token."""
    far = socket.create_connection((seed.address, seed.port), CONNECT_S)
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4)):
        far.setsockopt(socket.IPPROTO_TCP, option, seconds)
    far.sendall(seed.token.encode() + b"\n")
    return far


def why(seed: Seed) -> str:
    """What keeps a part of the image from coming to it, "" where nothing does; OSError where it does not answer."""
    talk = http.client.HTTPConnection(seed.address, seed.port, timeout=ANSWER_S)
    try:
        talk.sock = joined(seed)
        talk.sock.settimeout(ANSWER_S)
        talk.request("GET", WHY)
        return talk.getresponse().read(WHY_LIMIT).decode("utf-8", "replace")
    except http.client.HTTPException as err:
        raise ConnectionError(f"it hung up ({type(err).__name__})") from None
    finally:
        talk.close()


def said(err: OSError) -> str:
    return (err.strerror or str(err)).lower()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    """To the end of one direction; the other end is told of it."""
    room = memoryview(bytearray(CHUNK))
    with contextlib.suppress(OSError):
        while count := source.recv_into(room):
            sink.sendall(room[:count])
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _answer(message: str) -> bytes:
    body = refusal("DENIED", message)
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
