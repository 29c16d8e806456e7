"""Passing an image on, in one process: what is fetched once, who gets nothing, what is said when it does not come."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from envcheck.core.errors import StepError, UsageError
from installers.hosts import seeding
from installers.hosts.request import SeedNode
from installers.images.manifest import BlobReference
from installers.images.registry_link import Refusal
from installers.seeds import forward, layers, seed, server
from installers.seeds.blob import Blob, LostError
from installers.seeds.seed import Seed
from installers.seeds.store import Store
from tests.installers.provision_helpers import until

pytestmark = pytest.mark.slow

TOKEN = "0123456789abcdef" * 4
DATA = os.urandom(300_000)
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
OTHER = f"sha256:{'0' * 64}"


@dataclass
class Outside:
    """A registry: `gives` comes in two halves, the second when `more` is set; `fails` as often, in the middle."""

    gives: bytes = DATA
    fails: int = 0
    passing: bool = True
    more: threading.Event = field(default_factory=threading.Event)
    asked: list[int] = field(default_factory=list)

    def pieces(self, part: BlobReference, start: int) -> Iterator[bytes]:
        self.asked.append(start)
        middle = len(self.gives) // 2
        yield self.gives[start:middle]
        if len(self.asked) <= self.fails:
            raise Refusal("it cut the connection", "", passing=self.passing)
        self.more.wait(300)
        yield self.gives[max(start, middle) :]


@pytest.fixture
def outside() -> Outside:
    made = Outside()
    made.more.set()
    return made


@pytest.fixture
def at(outside: Outside, tmp_path: Path) -> Iterator[Seed]:
    """Where the one blob of `outside` is passed on."""
    blob = Blob(BlobReference(DIGEST, len(DATA)), outside.pieces, tmp_path)
    with serving(Store(("registry.example.org/image:1",), {OTHER: ("a/kind", b"{}")}, {DIGEST: blob})) as made:
        yield made


@contextlib.contextmanager
def serving(store: Store) -> Iterator[Seed]:
    served = server.Server("127.0.0.1", 0, TOKEN, store)
    threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield Seed("node01", TOKEN, served.server_address[1], "127.0.0.1")
    finally:
        served.shutdown()
        served.server_close()


def get(port: int, path: str, verb: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    talk = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    talk.request(verb, path, headers=headers)
    with contextlib.closing(talk):
        answer = talk.getresponse()
        return answer.status, answer.read(), dict(answer.headers)


def test_two_readers_and_one_fetch(at: Seed, outside: Outside, tmp_path: Path) -> None:
    """The second one reads what has come while the rest is on its way; it is fetched once, and leaves no file."""
    outside.more.clear()
    with forward.opened(at) as near:
        talks = [http.client.HTTPConnection("127.0.0.1", near.port, timeout=120) for _ in range(2)]
        for talk in talks:
            talk.request("GET", f"/v2/image/blobs/{DIGEST}")
        answers = [talk.getresponse() for talk in talks]
        early = [answer.read(len(DATA) // 2) for answer in answers]
        outside.more.set()
        late = [answer.read() for answer in answers]

    assert [a + b for a, b in zip(early, late, strict=True)] == [DATA, DATA]
    assert outside.asked == [0]
    assert not list(tmp_path.iterdir())


def test_the_protocol(at: Seed) -> None:
    """A part from a byte on, a head, a manifest with its kind; all else is refused, with the name of what there is."""
    with forward.opened(at) as near:
        hello = get(near.port, "/v2/")
        part = get(near.port, f"/v2/any/image/blobs/{DIGEST}", Range=f"bytes={len(DATA) - 5}-")
        head = get(near.port, f"/v2/image/blobs/{DIGEST}", "HEAD")
        manifest = get(near.port, f"/v2/image/manifests/{OTHER}")
        beyond = get(near.port, f"/v2/image/blobs/{DIGEST}", Range="bytes=900000-")
        odd = (f"/v2/image/blobs/{OTHER}", "/v2/image/manifests/latest", "/../etc/passwd", "/v2/_catalog")
        strange = [get(near.port, path) for path in odd]
        posted = get(near.port, "/v2/image/blobs/uploads/", "POST")

    assert hello[:2] == (200, b"{}")
    assert part[:2] == (206, DATA[-5:])
    assert part[2]["Content-Range"] == f"bytes {len(DATA) - 5}-{len(DATA) - 1}/{len(DATA)}"
    assert (head[0], head[1], head[2]["Content-Length"]) == (200, b"", str(len(DATA)))
    assert (manifest[0], manifest[1], manifest[2]["Content-Type"]) == (200, b"{}", "a/kind")
    assert beyond[0] == 416
    assert [status for status, _, _ in strange] == [404] * 4
    assert b"registry.example.org/image:1" in strange[0][1]
    assert posted[0] == 501


def test_strangers_get_nothing(at: Seed) -> None:
    """Who does not say the token is hung up on without a word, whatever it says instead."""
    said = []
    for words in (b"GET /v2/ HTTP/1.1\r\nHost: a\r\n\r\n", b"0" * 64 + b"\n", b"\x16\x03\x01" + b"x" * 500, b"\n"):
        with socket.create_connection((at.address, at.port), 5) as one:
            one.sendall(words)
            with contextlib.suppress(ConnectionResetError):
                said.append(one.recv(100))

    assert set(said) <= {b""}
    assert forward.why(at) == ""


def test_a_cut_is_taken_up(at: Seed, outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has come stays: after two cuts the rest is asked for from there, and the reader notices nothing."""
    monkeypatch.setattr("installers.seeds.blob.PAUSE_S", 0.01)
    outside.fails = 2
    with forward.opened(at) as near:
        status, body, _ = get(near.port, f"/v2/image/blobs/{DIGEST}")

    assert (status, body) == (200, DATA)
    assert outside.asked == [0, len(DATA) // 2, len(DATA) // 2]


def test_a_closed_door_is_told(at: Seed, outside: Outside) -> None:
    """A refusal that no waiting helps is said to whoever asks from there on; the next one who asks tries anew."""
    outside.fails, outside.passing = 1, False
    with forward.opened(at) as near:
        with contextlib.suppress(http.client.IncompleteRead):
            get(near.port, f"/v2/image/blobs/{DIGEST}")
        why = forward.why(at)
        again = get(near.port, f"/v2/image/blobs/{DIGEST}")

    assert why == "it cut the connection"
    assert again[1] == DATA
    assert forward.why(at) == ""


@pytest.mark.parametrize("gives", (b"x" * len(DATA), DATA + b"more", DATA[:-1]), ids=("other", "longer", "shorter"))
def test_something_else_is_not_kept(gives: bytes, tmp_path: Path) -> None:
    """What has not the digest or the size that was promised is forgotten, and nobody is told that it is whole."""
    outside = Outside(gives)
    outside.more.set()
    blob = Blob(BlobReference(DIGEST, len(DATA)), outside.pieces, tmp_path)
    with contextlib.suppress(LostError):  # by a reader that is quick it is seen before it is judged; engines judge, too
        blob.begin(0)
    until(lambda: blob.why)

    with pytest.raises(LostError, match="something else"):
        next(blob.pieces(0))


def test_a_full_disk(tmp_path: Path) -> None:
    """The folder that cannot be written to is named."""
    outside = Outside()
    blob = Blob(BlobReference(DIGEST, len(DATA)), outside.pieces, tmp_path / "gone")
    with pytest.raises(LostError, match="gone: no such file or directory"):
        blob.begin(0)


def test_nobody_there(at: Seed) -> None:
    """Where nobody answers the engine is told so in its protocol, by an answer that it does not try again; a TLS
    handshake, which engines try first, is hung up on."""
    gone = Seed("node01", TOKEN, _unused(), "127.0.0.1")
    with forward.opened(gone) as near:
        status, body, _ = get(near.port, "/v2/")
        with socket.create_connection(("127.0.0.1", near.port), 5) as one:
            one.sendall(b"\x16\x03\x01\x02\x00")
            hung_up = _rest(one)

    assert status == 403
    assert b"node01 does not answer: connection refused" in body
    assert hung_up == b""
    with pytest.raises(StepError, match="node01 is not reached"), layers.way(gone):
        pass


def _unused() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def _rest(one: socket.socket) -> bytes:
    try:
        return one.recv(100)
    except ConnectionResetError:
        return b""


def test_what_travels(tmp_path: Path) -> None:
    """The file that tells a host of the other one is read back; anything else is wrong usage."""
    given = Seed("node01", TOKEN, 7501, "10.0.0.1")
    path = tmp_path / seed.NAME
    path.write_bytes(given.packed)

    assert seed.read(path) == given
    for text in ("", "[]", '{"node": "a"}', given.packed.decode().replace(TOKEN, "short")):
        path.write_text(text)
        with pytest.raises(UsageError):
            seed.read(path)


def test_the_name_of_a_host() -> None:
    """NODE or NODE:PORT, one of those that are asked for."""
    hosts = ("node01", "node02", "fd00::1")

    assert seeding.node("node02", hosts) == SeedNode("node02")
    assert seeding.node("node01:7501", hosts) == SeedNode("node01", 7501)
    assert seeding.node("fd00::1", hosts) == SeedNode("fd00::1")
    for text in ("node03", "node01:70000", "node01:", "node01:\u00b2", "", "node[01-02]"):
        with pytest.raises(UsageError, match="is none of the hosts"):
            seeding.node(text, hosts)
