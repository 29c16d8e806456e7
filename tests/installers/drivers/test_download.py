"""Downloads from a real server on loopback that cuts, ignores, lies, refuses and redirects when told to."""

from __future__ import annotations

import hashlib
import http.server
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.core.errors import StepError, UsageError
from installers.drivers import download, download_http, driver
from installers.recipes.recipe import DriverFile

BODY = random.Random(20).randbytes(3 << 20)  # the same in every process: its sum is part of two tests' names
SUM = hashlib.sha256(BODY).hexdigest()
UNTOLD = -1


@dataclass
class Faults:
    """What the server does wrong; `cuts`: after how many bytes each of the next answers ends."""

    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    etag: str = '"one"'
    length: int | None = None
    statuses: list[int] = field(default_factory=list)
    redirect: str = ""
    wrong_range: bool = False
    body: bytes = BODY
    seen: list[str] = field(default_factory=list)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    faults: Faults

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/drivers/card-driver_1.0.run"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        faults, asked = self.server.faults, self.headers.get("Range", "")
        faults.seen.append(asked)
        if self.path.endswith("/elsewhere") and faults.redirect:
            return self._head(302, {"Location": faults.redirect, "Content-Length": "0"})
        if faults.statuses and (status := faults.statuses.pop(0)) != 200:
            return self._head(status, {"Content-Length": "0"})
        start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked else 0
        fresh = self.headers.get("If-Range", faults.etag) != faults.etag
        if not asked or fresh or not faults.ranges:
            start = 0
        if start and faults.wrong_range:
            start = 7
        if start >= len(faults.body):
            return self._head(416, {"Content-Range": f"bytes */{len(faults.body)}", "Content-Length": "0"})
        rest = faults.body[start:]
        headers = {"Content-Length": str(len(rest) if faults.length is None else faults.length)}
        if faults.length == UNTOLD:
            headers = {}
        headers |= {"ETag": faults.etag} if faults.etag else {}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(faults.body) - 1}/{len(faults.body)}"
        self._head(206 if start else 200, headers)
        cut = faults.cuts.pop(0) if faults.cuts else len(rest)
        self.wfile.write(rest[:cut])
        self.close_connection = True
        return None

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as made:
        made.faults = Faults()
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def get(server: Server, folder: Path, url: str = "", **more: object) -> download.Fetched:
    return download.fetch(url or server.url, folder=folder, wait_s=0.01, silence_s=5, **more)  # type: ignore[arg-type]


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def test_whole(server: Server, tmp_path: Path) -> None:
    """A file arrives with its sum and progress, under its own name, with nothing beside it."""
    told: list[tuple[int, int]] = []

    done = get(server, tmp_path, sha256=SUM, tell=lambda here, total: told.append((here, total)))

    assert (done.sha256, done.path.read_bytes()) == (SUM, BODY)
    assert left(tmp_path) == {"card-driver_1.0.run"}
    assert told[-1] == (len(BODY), len(BODY))


def test_second_time_asks_nobody(server: Server, tmp_path: Path) -> None:
    """What is there and right is not fetched again; what is there and wrong is."""
    get(server, tmp_path)
    get(server, tmp_path, sha256=SUM)
    once = len(server.faults.seen)
    (tmp_path / "card-driver_1.0.run").write_bytes(b"damaged")
    done = get(server, tmp_path, sha256=SUM)

    assert (once, len(server.faults.seen), done.sha256) == (1, 2, SUM)


def test_cut_connection_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    """Each cut costs another request for the rest alone."""
    server.faults.cuts = [1_000_000, 500_000]

    done = get(server, tmp_path, sha256=SUM)

    assert done.path.read_bytes() == BODY
    assert server.faults.seen == ["", "bytes=1000000-", "bytes=1500000-"]


def test_next_run_resumes(server: Server, tmp_path: Path) -> None:
    """What a failed run has brought is kept, and the next run asks for the rest."""
    server.faults.cuts = [1_000_000, 0, 0, 0, 0, 0, 0]
    with pytest.raises(StepError, match="cut after 1000000"):
        get(server, tmp_path)
    server.faults.cuts = []

    done = get(server, tmp_path)

    assert (done.path.read_bytes(), done.resumed_bytes) == (BODY, 1_000_000)


@pytest.mark.parametrize("sha256", ("", SUM))
def test_server_that_ignores_range(server: Server, tmp_path: Path, sha256: str) -> None:
    """A server that sends all again gets its way, and the file is right."""
    server.faults.cuts, server.faults.ranges = [1_000_000], False

    assert get(server, tmp_path, sha256=sha256).path.read_bytes() == BODY


def test_wrong_part_is_not_spliced(server: Server, tmp_path: Path) -> None:
    """An answer that begins elsewhere than asked is thrown away."""
    server.faults.cuts, server.faults.wrong_range = [1_000_000], True

    assert get(server, tmp_path).path.read_bytes() == BODY


@pytest.mark.parametrize(("etag", "sha256"), [('"two"', ""), ("", hashlib.sha256(BODY[::-1]).hexdigest())])
def test_changed_file_is_not_spliced(server: Server, tmp_path: Path, etag: str, sha256: str) -> None:
    """When the file on the server has changed, the part of the old one is dropped: by its mark, else by the sum."""
    server.faults.cuts, server.faults.etag = [1_000_000, 0, 0, 0, 0, 0, 0], '"one"' if etag else ""
    with pytest.raises(StepError):
        get(server, tmp_path, sha256=sha256)
    server.faults.cuts, server.faults.etag, server.faults.body = [], etag, BODY[::-1]

    assert get(server, tmp_path, sha256=sha256).path.read_bytes() == BODY[::-1]


def test_whole_part_that_was_not_renamed(server: Server, tmp_path: Path) -> None:
    """A run that was killed between the last byte and the renaming is finished without fetching anything again."""
    server.faults.cuts = [1_000_000, 0, 0, 0, 0, 0, 0]
    with pytest.raises(StepError):
        get(server, tmp_path)
    (tmp_path / "card-driver_1.0.run.part").write_bytes(BODY)
    server.faults.cuts = []

    assert get(server, tmp_path, sha256=SUM).path.read_bytes() == BODY
    assert server.faults.seen[-1] == f"bytes={len(BODY)}-"


def test_no_mark_and_no_end(server: Server, tmp_path: Path) -> None:
    """A server that marks nothing and cuts each time is given up, not asked for ever."""
    server.faults.cuts, server.faults.etag = [1000] * 50, ""

    with pytest.raises(StepError, match="cut after 1000 of"):
        get(server, tmp_path)

    assert len(server.faults.seen) < 20


def test_wrong_sum(server: Server, tmp_path: Path) -> None:
    """A file with another sum is named with both sums and thrown away."""
    with pytest.raises(StepError, match=rf"{SUM}.*{'0' * 64}"):
        get(server, tmp_path, sha256="0" * 64)

    assert left(tmp_path) == set()


def test_busy_server(server: Server, tmp_path: Path) -> None:
    """503 is tried again."""
    server.faults.statuses = [503, 503]

    assert get(server, tmp_path).sha256 == SUM


@pytest.mark.parametrize(("status", "words"), [(404, "taken it away"), (401, "login"), (403, "by hand")])
def test_refusals(server: Server, tmp_path: Path, status: int, words: str) -> None:
    """A refusal is told once, with what a person can do."""
    server.faults.statuses = [status]

    with pytest.raises(StepError, match=str(status)) as err:
        get(server, tmp_path)

    assert words in err.value.next_step
    assert len(server.faults.seen) == 1


def test_too_large(server: Server, tmp_path: Path) -> None:
    """What is larger than it may be is refused by its announced size, and while it comes."""
    with pytest.raises(StepError, match="at most"):
        get(server, tmp_path, limit_bytes=1 << 20)
    server.faults.length = UNTOLD
    with pytest.raises(StepError, match="longer"):
        get(server, tmp_path, limit_bytes=1 << 20)

    assert not (tmp_path / "card-driver_1.0.run").exists()


def test_longer_than_the_disk(server: Server, tmp_path: Path) -> None:
    """A size that the disk cannot hold is refused before the first byte."""
    server.faults.length = 1 << 50

    with pytest.raises(StepError, match="are free"):
        get(server, tmp_path, limit_bytes=1 << 60)

    assert left(tmp_path) == set()


def test_disk_that_fills(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC in mid-file is one sentence; the part stays, and a run after making room ends well."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(small)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        with monkeypatch.context() as patch:  # another program fills the disk after it was looked at
            free = os.statvfs
            patch.setattr(os, "statvfs", lambda path: free("/"))
            with pytest.raises(StepError, match="the disk is full") as err:
                get(server, small)
        kept = (small / "card-driver_1.0.run.part").stat().st_size
        subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True)

        assert (kept > 0, "make room" in err.value.next_step) == (True, True)
        assert get(server, small, sha256=SUM).resumed_bytes == kept
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.parametrize("target", ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x/", "data:,x"))
def test_redirects_elsewhere(server: Server, tmp_path: Path, target: str) -> None:
    """A redirect to anything but http and https is not followed."""
    server.faults.redirect = target

    with pytest.raises(StepError, match=r"not followed|not allowed"):
        get(server, tmp_path, url=server.url.replace("card-driver_1.0.run", "elsewhere"))

    assert left(tmp_path) == set()


def test_redirect_down_from_https() -> None:
    """From https nobody leads down to http."""
    request = download_http.urllib.request.Request("https://vendor.example/x.run")

    with pytest.raises(StepError, match="not followed"):
        download_http._Redirects().redirect_request(request, None, 302, "", {}, "http://vendor.example/x.run")


def test_redirect_and_loop(server: Server, tmp_path: Path) -> None:
    """A redirect is followed; a circle ends with a sentence."""
    start = server.url.replace("card-driver_1.0.run", "elsewhere")
    server.faults.redirect = server.url
    followed = get(server, tmp_path, url=start).sha256
    server.faults.redirect = start.replace("/drivers", "/other")

    assert followed == SUM
    with pytest.raises(StepError, match="302"):
        get(server, tmp_path / "loop", url=start)


def test_nobody_listens(tmp_path: Path) -> None:
    """A server that is down is one sentence after a few tries."""
    with pytest.raises(StepError, match="refused"):
        download.fetch("http://127.0.0.1:9/x.run", folder=tmp_path, wait_s=0.01)


@pytest.mark.parametrize("url", ("file:///etc/passwd", "ftp://h/x", "http://", "x.run", "", "http:///x"))
def test_no_address(url: str, tmp_path: Path) -> None:
    """What is no http address is wrong usage."""
    with pytest.raises(UsageError, match="address"):
        download.fetch(url, folder=tmp_path)


@pytest.mark.parametrize("end", ("..", "%2e%2e", "..%2f..%2fx", ".bashrc", "a%00b", "%0a", "", "x" * 300, "a b"))
def test_names_stay_in_the_folder(end: str) -> None:
    """Whatever the address ends with, the name is a plain one without a way out."""
    assert download_http.name_of(f"http://h/drivers/{end}") == "download"


def test_password_in_the_address(tmp_path: Path) -> None:
    """A password in an address is in no message."""
    with pytest.raises(StepError) as err:
        download.fetch("http://me:hunter22@127.0.0.1:9/x.run", folder=tmp_path, wait_s=0.01)

    assert "hunter22" not in str(err.value)


def test_two_at_once(server: Server, tmp_path: Path) -> None:
    """A second fetch of the same file says that the first one is at it."""
    first, go = threading.Event(), threading.Event()

    def slow(here: int, total: int) -> None:
        first.set()
        go.wait(300)

    thread = threading.Thread(target=get, args=(server, tmp_path), kwargs={"tell": slow})
    thread.start()
    first.wait(300)
    with pytest.raises(StepError, match="another envcheck"):
        get(server, tmp_path)
    go.set()
    thread.join()

    assert (tmp_path / "card-driver_1.0.run").read_bytes() == BODY


def test_killed_run_is_resumed(server: Server, tmp_path: Path) -> None:
    """After kill -9 in mid-file the next run brings the rest, and the file is right."""
    code = f"""
import os, signal
from pathlib import Path
from installers.drivers import download
def tell(here, total):
    if here > 1_000_000:
        os.kill(os.getpid(), signal.SIGKILL)
download.fetch({server.url!r}, folder=Path({str(tmp_path)!r}), tell=tell)
"""
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], timeout=60)

    done = get(server, tmp_path, sha256=SUM)

    assert done.resumed_bytes > 0
    assert done.path.read_bytes() == BODY


def test_lists_of_sums(server: Server) -> None:
    """A vendor's list of sums is read by the file's name; one without it, or another page, is said to hold none."""
    other = "1" * 64
    server.faults.body = f"{other}  other.run\n{SUM}  ./card-driver_1.0.run\n".encode()

    assert download_http.published_sum(server.url, "card-driver_1.0.run") == SUM
    with pytest.raises(StepError, match="no SHA-256 sum"):
        download_http.published_sum(server.url, "third.run")


def test_published_driver(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vendor's file is fetched into our own folder with the sum that the recipe or the lock has for it."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    got = driver.fetch(DriverFile("1.0", server.url))
    again = driver.fetch(DriverFile("1.0", server.url, sha256=SUM))

    assert (got.sha256, got.vouched, again.path, again.vouched) == (SUM, False, got.path, True)
    assert tmp_path in got.path.parents
    with pytest.raises(StepError, match="expected was 1111"):
        driver.fetch(DriverFile("1.0", server.url, sha256=SUM), locked_sha256="1" * 64)


@given(st.text(max_size=300))
def test_any_list_of_sums(text: str) -> None:
    """Any text has a sum of 64 digits or none."""
    assert len(download_http.sum_in(text, "x.run")) in (0, 64)
