"""Downloads from a real loopback server that cuts connections, ignores ranges, lies, refuses and redirects."""

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
from installers.drivers import download, download_http, installation
from installers.recipes.recipe import PublishedDriverFile

BODY = random.Random(20).randbytes(3 << 20)  # the same in every process: its sum is part of two tests' names
SUM = hashlib.sha256(BODY).hexdigest()
UNTOLD = -1


@dataclass
class DownloadFaults:
    """The server's faults; `cuts`: after how many bytes each of the next answers ends."""

    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    etag: str = '"one"'
    length: int | None = None
    statuses: list[int] = field(default_factory=list)
    redirect: str = ""
    wrong_range: bool = False
    body: bytes = BODY
    seen: list[str] = field(default_factory=list)


class DownloadServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    faults: DownloadFaults

    @property
    def file_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/drivers/card-driver_1.0.run"


class DownloadHandler(http.server.BaseHTTPRequestHandler):
    server: DownloadServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        faults, asked = self.server.faults, self.headers.get("Range", "")
        faults.seen.append(asked)
        if self.path.endswith("/elsewhere") and faults.redirect:
            return self._send_head(302, {"Location": faults.redirect, "Content-Length": "0"})
        if faults.statuses and (status := faults.statuses.pop(0)) != 200:
            return self._send_head(status, {"Content-Length": "0"})
        start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked else 0
        fresh = self.headers.get("If-Range", faults.etag) != faults.etag
        if not asked or fresh or not faults.ranges:
            start = 0
        if start and faults.wrong_range:
            start = 7
        if start >= len(faults.body):
            return self._send_head(416, {"Content-Range": f"bytes */{len(faults.body)}", "Content-Length": "0"})
        rest = faults.body[start:]
        headers = {"Content-Length": str(len(rest) if faults.length is None else faults.length)}
        if faults.length == UNTOLD:
            headers = {}
        headers |= {"ETag": faults.etag} if faults.etag else {}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(faults.body) - 1}/{len(faults.body)}"
        self._send_head(206 if start else 200, headers)
        cut = faults.cuts.pop(0) if faults.cuts else len(rest)
        self.wfile.write(rest[:cut])
        self.close_connection = True
        return None

    def _send_head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[DownloadServer]:
    with DownloadServer(("127.0.0.1", 0), DownloadHandler) as made:
        made.faults = DownloadFaults()
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def download_file(server: DownloadServer, folder: Path, url: str = "", **more: object) -> download.DownloadedFile:
    return download.download_file(url or server.file_url, folder=folder, wait_s=0.01, silence_s=5, **more)  # type: ignore[arg-type]


def list_remaining(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def test_whole(server: DownloadServer, tmp_path: Path) -> None:
    """A file arrives with checksum and progress, under its own name, and nothing else is left."""
    told: list[tuple[int, int]] = []

    done = download_file(server, tmp_path, sha256=SUM, progress=lambda here, total: told.append((here, total)))

    assert (done.sha256, done.path.read_bytes()) == (SUM, BODY)
    assert list_remaining(tmp_path) == {"card-driver_1.0.run"}
    assert told[-1] == (len(BODY), len(BODY))


def test_second_time_asks_nobody(server: DownloadServer, tmp_path: Path) -> None:
    """A correct file in the cache is not downloaded again; a wrong one is."""
    download_file(server, tmp_path)
    download_file(server, tmp_path, sha256=SUM)
    once = len(server.faults.seen)
    (tmp_path / "card-driver_1.0.run").write_bytes(b"damaged")
    done = download_file(server, tmp_path, sha256=SUM)

    assert (once, len(server.faults.seen), done.sha256) == (1, 2, SUM)


def test_cut_connection_goes_on_where_it_was(server: DownloadServer, tmp_path: Path) -> None:
    """After each cut only the rest is requested."""
    server.faults.cuts = [1_000_000, 500_000]

    done = download_file(server, tmp_path, sha256=SUM)

    assert done.path.read_bytes() == BODY
    assert server.faults.seen == ["", "bytes=1000000-", "bytes=1500000-"]


def test_next_run_resumes(server: DownloadServer, tmp_path: Path) -> None:
    """A failed run's partial file is kept, and the next run requests the rest."""
    server.faults.cuts = [1_000_000, 0, 0, 0, 0, 0, 0]
    with pytest.raises(StepError, match="connection lost after 1000000 of"):
        download_file(server, tmp_path)
    server.faults.cuts = []

    done = download_file(server, tmp_path)

    assert (done.path.read_bytes(), done.resumed_bytes) == (BODY, 1_000_000)


@pytest.mark.parametrize("sha256", ("", SUM))
def test_server_that_ignores_range(server: DownloadServer, tmp_path: Path, sha256: str) -> None:
    """A server that sends the whole file again is accepted, and the file is correct."""
    server.faults.cuts, server.faults.ranges = [1_000_000], False

    assert download_file(server, tmp_path, sha256=sha256).path.read_bytes() == BODY


def test_wrong_part_is_not_spliced(server: DownloadServer, tmp_path: Path) -> None:
    """An answer that starts at another byte than requested is discarded."""
    server.faults.cuts, server.faults.wrong_range = [1_000_000], True

    assert download_file(server, tmp_path).path.read_bytes() == BODY


@pytest.mark.parametrize(("etag", "sha256"), [('"two"', ""), ("", hashlib.sha256(BODY[::-1]).hexdigest())])
def test_changed_file_is_not_spliced(server: DownloadServer, tmp_path: Path, etag: str, sha256: str) -> None:
    """If the file on the server has changed, the old part is discarded: by its ETag, else by the checksum."""
    server.faults.cuts, server.faults.etag = [1_000_000, 0, 0, 0, 0, 0, 0], '"one"' if etag else ""
    with pytest.raises(StepError):
        download_file(server, tmp_path, sha256=sha256)
    server.faults.cuts, server.faults.etag, server.faults.body = [], etag, BODY[::-1]

    assert download_file(server, tmp_path, sha256=sha256).path.read_bytes() == BODY[::-1]


def test_whole_part_that_was_not_renamed(server: DownloadServer, tmp_path: Path) -> None:
    """A run killed between the last byte and the rename is completed without a download."""
    server.faults.cuts = [1_000_000, 0, 0, 0, 0, 0, 0]
    with pytest.raises(StepError):
        download_file(server, tmp_path)
    (tmp_path / "card-driver_1.0.run.part").write_bytes(BODY)
    server.faults.cuts = []

    assert download_file(server, tmp_path, sha256=SUM).path.read_bytes() == BODY
    assert server.faults.seen[-1] == f"bytes={len(BODY)}-"


def test_no_mark_and_no_end(server: DownloadServer, tmp_path: Path) -> None:
    """A server without ETag that cuts every time is given up after a few attempts."""
    server.faults.cuts, server.faults.etag = [1000] * 50, ""

    with pytest.raises(StepError, match="connection lost after 1000 of"):
        download_file(server, tmp_path)

    assert len(server.faults.seen) < 20


def test_wrong_sum(server: DownloadServer, tmp_path: Path) -> None:
    """A file with another checksum is reported with both checksums and deleted."""
    with pytest.raises(StepError, match=rf"expected SHA-256 {'0' * 64}, got {SUM}"):
        download_file(server, tmp_path, sha256="0" * 64)

    assert list_remaining(tmp_path) == set()


def test_busy_server(server: DownloadServer, tmp_path: Path) -> None:
    """503 is tried again."""
    server.faults.statuses = [503, 503]

    assert download_file(server, tmp_path).sha256 == SUM


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "the vendor has removed the file"), (401, "login"), (403, "download the file in a browser")],
)
def test_refusals(server: DownloadServer, tmp_path: Path, status: int, words: str) -> None:
    """A refusal is reported once, with what the user can do."""
    server.faults.statuses = [status]

    with pytest.raises(StepError, match=str(status)) as err:
        download_file(server, tmp_path)

    assert words in err.value.next_step
    assert len(server.faults.seen) == 1


def test_too_large(server: DownloadServer, tmp_path: Path) -> None:
    """A file above the limit is refused by its announced size, and while it arrives."""
    with pytest.raises(StepError, match=r"the file is 3 MiB, above the limit of 1 MiB"):
        download_file(server, tmp_path, limit_bytes=1 << 20)
    server.faults.length = UNTOLD
    with pytest.raises(StepError, match="exceeds the size limit"):
        download_file(server, tmp_path, limit_bytes=1 << 20)

    assert not (tmp_path / "card-driver_1.0.run").exists()


def test_longer_than_the_disk(server: DownloadServer, tmp_path: Path) -> None:
    """A file larger than the free space is refused before the first byte."""
    server.faults.length = 1 << 50

    with pytest.raises(StepError, match=r"1048576 GiB needed for the download; .* free"):
        download_file(server, tmp_path, limit_bytes=1 << 60)

    assert list_remaining(tmp_path) == set()


def test_disk_that_fills(server: DownloadServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC in mid-file is one message; the part is kept, and a run with free space completes it."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(small)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        with monkeypatch.context() as patch:  # another program fills the disk after it was looked at
            free = os.statvfs
            patch.setattr(os, "statvfs", lambda path: free("/"))
            with pytest.raises(StepError, match="no space left on the disk") as err:
                download_file(server, small)
        kept = (small / "card-driver_1.0.run.part").stat().st_size
        subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True)

        assert (kept > 0, "free disk space" in err.value.next_step) == (True, True)
        assert download_file(server, small, sha256=SUM).resumed_bytes == kept
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.parametrize("target", ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x/", "data:,x"))
def test_redirects_elsewhere(server: DownloadServer, tmp_path: Path, target: str) -> None:
    """A redirect to anything but http and https is not followed."""
    server.faults.redirect = target

    with pytest.raises(StepError, match=r"does not follow|not allowed"):
        download_file(server, tmp_path, url=server.file_url.replace("card-driver_1.0.run", "elsewhere"))

    assert list_remaining(tmp_path) == set()


def test_redirect_down_from_https() -> None:
    """A redirect from https to http is not followed."""
    request = download_http.urllib.request.Request("https://vendor.example/x.run")

    with pytest.raises(StepError, match="does not follow"):
        download_http._Redirects().redirect_request(request, None, 302, "", {}, "http://vendor.example/x.run")


def test_redirect_and_loop(server: DownloadServer, tmp_path: Path) -> None:
    """A redirect is followed; a loop ends with a message."""
    start = server.file_url.replace("card-driver_1.0.run", "elsewhere")
    server.faults.redirect = server.file_url
    followed = download_file(server, tmp_path, url=start).sha256
    server.faults.redirect = start.replace("/drivers", "/other")

    assert followed == SUM
    with pytest.raises(StepError, match="302"):
        download_file(server, tmp_path / "loop", url=start)


def test_nobody_listens(tmp_path: Path) -> None:
    """A server that is down is one message after a few attempts."""
    with pytest.raises(StepError, match="refused"):
        download.download_file("http://127.0.0.1:9/x.run", folder=tmp_path, wait_s=0.01)


@pytest.mark.parametrize("url", ("file:///etc/passwd", "ftp://h/x", "http://", "x.run", "", "http:///x"))
def test_no_address(url: str, tmp_path: Path) -> None:
    """A URL that is not http(s) is a usage error."""
    with pytest.raises(UsageError, match="not an http:// or https:// URL"):
        download.download_file(url, folder=tmp_path)


@pytest.mark.parametrize("end", ("..", "%2e%2e", "..%2f..%2fx", ".bashrc", "a%00b", "%0a", "", "x" * 300, "a b"))
def test_names_stay_in_the_folder(end: str) -> None:
    """Whatever the URL ends with, the file name is plain and stays in the folder."""
    assert download_http.parse_file_name(f"http://h/drivers/{end}") == "download"


def test_password_in_the_address(tmp_path: Path) -> None:
    """A password in a URL is in no message."""
    with pytest.raises(StepError) as err:
        download.download_file("http://me:hunter22@127.0.0.1:9/x.run", folder=tmp_path, wait_s=0.01)

    assert "hunter22" not in str(err.value)


def test_two_at_once(server: DownloadServer, tmp_path: Path) -> None:
    """A second download of the same file reports the first one."""
    first, go = threading.Event(), threading.Event()

    def slow(here: int, total: int) -> None:
        first.set()
        go.wait(300)

    thread = threading.Thread(target=download_file, args=(server, tmp_path), kwargs={"progress": slow})
    thread.start()
    first.wait(300)
    with pytest.raises(StepError, match="another envcheck"):
        download_file(server, tmp_path)
    go.set()
    thread.join()

    assert (tmp_path / "card-driver_1.0.run").read_bytes() == BODY


def test_killed_run_is_resumed(server: DownloadServer, tmp_path: Path) -> None:
    """After kill -9 in mid-file the next run downloads the rest, and the file is correct."""
    code = f"""
import os, signal
from pathlib import Path
from installers.drivers import download
def tell(here, total):
    if here > 1_000_000:
        os.kill(os.getpid(), signal.SIGKILL)
download.download_file({server.file_url!r}, folder=Path({str(tmp_path)!r}), progress=tell)
"""
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], timeout=60)

    done = download_file(server, tmp_path, sha256=SUM)

    assert done.resumed_bytes > 0
    assert done.path.read_bytes() == BODY


def test_lists_of_sums(server: DownloadServer) -> None:
    """A vendor's checksum file is read by file name; one without the name, or another page, has no checksum."""
    other = "1" * 64
    server.faults.body = f"{other}  other.run\n{SUM}  ./card-driver_1.0.run\n".encode()

    assert download_http.fetch_published_sum(server.file_url, "card-driver_1.0.run") == SUM
    with pytest.raises(StepError, match=r"no SHA-256 checksum for third\.run"):
        download_http.fetch_published_sum(server.file_url, "third.run")


def test_published_driver(server: DownloadServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vendor's file is downloaded into the cache with the checksum of the recipe or the lock."""
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path))
    got = installation.fetch_driver_file(PublishedDriverFile("1.0", server.file_url))
    again = installation.fetch_driver_file(PublishedDriverFile("1.0", server.file_url, sha256=SUM))

    assert (got.sha256, got.vouched, again.path, again.vouched) == (SUM, False, got.path, True)
    assert tmp_path in got.path.parents
    with pytest.raises(StepError, match="expected SHA-256 1111"):
        installation.fetch_driver_file(PublishedDriverFile("1.0", server.file_url, sha256=SUM), locked_sha256="1" * 64)


@given(st.text(max_size=300))
def test_any_list_of_sums(text: str) -> None:
    """Any text gives a checksum of 64 digits or none."""
    assert len(download_http.find_sum(text, "x.run")) in (0, 64)
