"""Download a file by URL: resume after a cut, limit size and time, and rename into place only after verification.

A partial download is kept as NAME.part, with the server's headers for it in a file of its own; parts of a file that
changed on the server are not combined.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import http.client
import json
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from envcheck.core import paths
from envcheck.core.errors import StepError, describe_os_error
from envcheck.core.messages import _
from envcheck.core.units import MIB, format_mib
from installers.drivers.download_http import (
    AGAIN,
    MEANINGS,
    SILENCE_S,
    open_url,
    parse_file_name,
    redact_url,
    shorten_error,
    version_mark,
)
from installers.state import checksums

LIMIT = 16 << 30  # bytes; the largest driver file is 2 GB
CHUNK = 1 << 18
TRIES = 5  # consecutive attempts without progress
WAIT_S = 0.5  # before the first retry; doubles each time
DEADLINE_S = 12 * 3600.0
SPARE_BYTES = 64 * MIB
NOTES_LIMIT = 64 << 10  # bytes; the files envcheck writes have a few hundred
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class DownloadedFile:
    """A downloaded file and its SHA-256; `vouched`: an expected sum was given and matches.

    `resumed_bytes`: how many bytes an earlier run had downloaded.
    """

    path: Path
    sha256: str
    size_bytes: int
    resumed_bytes: int = 0
    vouched: bool = False


@dataclass(frozen=True)
class _PartNotes:
    """The server's headers for a partial download; `mark` is the ETag or, without one, the date."""

    url: str
    mark: str = ""
    size: int | None = None


class _CutOffError(Exception):
    """The connection was lost; worth a retry."""


class _RestartError(Exception):
    """The partial file is unusable; start over."""


def cache_folder() -> Path:
    """Return the download cache; it has one folder for each URL, because two vendors may use the same file name."""
    return paths.envcheck_home() / "downloads"


def download_file(
    url: str,
    *,
    folder: Path | None = None,
    sha256: str = "",
    limit_bytes: int = LIMIT,
    progress: Progress = lambda done, total: None,
    silence_s: float = SILENCE_S,
    deadline_s: float = DEADLINE_S,
    wait_s: float = WAIT_S,
) -> DownloadedFile:
    """Return the file at `url`, from the cache or the network.  StepError if it fails, UsageError for a bad URL.

    `sha256` is the expected sum; without one the sum is only computed.  `progress` gets (bytes so far, total bytes);
    the total is 0 if the server does not send it.
    """
    name = parse_file_name(url)
    place = (folder or cache_folder() / hashlib.sha256(url.encode()).hexdigest()[:16]) / name
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _hold_lock(place):
            if there := _find_finished(place, sha256):
                return there
            job = _Download(url, place, sha256, limit_bytes, progress, silence_s, time.monotonic() + deadline_s, wait_s)
            return job.run_with_retries()
    except OSError as err:
        raise _explain_error(err, place) from None


class _Download:
    """State of one download."""

    def __init__(
        self,
        url: str,
        place: Path,
        sha256: str,
        limit: int,
        progress: Progress,
        silence_s: float,
        until: float,
        wait_s: float,
    ) -> None:
        self.url, self.place, self.sha256, self.limit = url, place, sha256.lower(), limit
        self.progress, self.silence_s, self.until, self.wait_s = progress, silence_s, until, wait_s
        self.part, self.notes = place.with_name(place.name + ".part"), place.with_name(place.name + ".part.json")
        self.resumed, self.spliced = self.size_here(), False

    def run_with_retries(self) -> DownloadedFile:
        """Download until the file is complete and verified; StepError after TRIES attempts without progress."""
        tries, why, most = 0, "", self.size_here()
        while True:
            try:
                self._transfer_once()
                return self._move_into_place()
            except _RestartError:
                self._discard_part()
                tries += 1
            except _CutOffError as err:
                why = str(err)
                tries = 0 if self.size_here() > most else tries + 1
                most = max(most, self.size_here())
            if tries == TRIES:
                break
            if time.monotonic() > self.until:
                raise StepError(
                    _("{url}: download too slow", url=redact_url(self.url)),
                    _("run the command again; the download resumes"),
                )
            time.sleep(min(self.wait_s * 2**tries, 30.0) if tries else 0)
        raise StepError(
            _("{url}: {why}", url=redact_url(self.url), why=why or _("the file on the server keeps changing")),
            _("run the command again; the download resumes"),
        )

    def size_here(self) -> int:
        """Return the bytes in the partial file; 0 if there is none."""
        return self.part.stat().st_size if self.part.exists() else 0

    def _transfer_once(self) -> None:
        """Download over one connection; return when the file is complete."""
        here, known = self.size_here(), self._read_notes()
        if here and (known is None or known.url != self.url or not (known.mark or self.sha256)):
            raise _RestartError  # no ETag or date: cannot determine whether the rest belongs to this part
        headers = {"Accept-Encoding": "identity", "User-Agent": "envcheck"}
        if here and known:
            headers |= {"Range": f"bytes={here}-"} | ({"If-Range": known.mark} if known.mark else {})
        try:
            with open_url(urllib.request.Request(self.url, headers=headers), self.silence_s) as answer:
                self._receive_body(answer, here)
        except urllib.error.HTTPError as err:
            self._raise_refusal(err, known)
        except (http.client.HTTPException, TimeoutError, ConnectionError, urllib.error.URLError) as err:
            if isinstance(getattr(err, "reason", None), ssl.SSLCertVerificationError):
                raise StepError(
                    _("{url}: {reason}", url=redact_url(self.url), reason=shorten_error(err)),
                    _("check SSL_CERT_FILE and the system clock"),
                ) from None
            raise _CutOffError(shorten_error(err)) from None

    def _receive_body(self, answer: Any, here: int) -> None:
        total = self._total_size(answer, here)
        mode = "ab" if answer.status == 206 else "wb"
        if answer.status != 206:  # the server ignores Range, or the file has changed
            here, self.resumed = 0, 0
        self.spliced = self.spliced or answer.status == 206
        if total is not None and total > self.limit:
            raise StepError(
                _(
                    "{url}: the file is {total}, above the limit of {limit}",
                    url=redact_url(self.url),
                    total=format_mib(total / MIB),
                    limit=format_mib(self.limit / MIB),
                ),
                _("check the URL"),
            )
        self._check_space(total, here)
        with self.part.open(mode) as file:
            self._write_notes(
                _PartNotes(self.url, version_mark(answer), total)
            )  # only after the old part is deleted: its ETag differs
            here = self._copy_body(answer, file, here, total)
        if total is not None and here != total:
            raise _CutOffError(_("connection lost after {here} of {total} bytes", here=here, total=total))

    def _total_size(self, answer: Any, here: int) -> int | None:
        """Return the size of the whole file; a partial answer must start at byte `here`."""
        if answer.status == 206:
            header = re.fullmatch(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", answer.headers.get("Content-Range", ""))
            if not header or int(header[1]) != here:
                raise _RestartError
            return None if header[2] == "*" else int(header[2])
        length = answer.headers.get("Content-Length", "")
        return int(length) if re.fullmatch(r"\d{1,18}", length) else None

    def _copy_body(self, answer: Any, file: IO[bytes], here: int, total: int | None) -> int:
        while chunk := _read_chunk(answer):
            here += len(chunk)
            if here > self.limit or (total is not None and here > total):
                raise StepError(
                    _("{url}: the file exceeds the size limit", url=redact_url(self.url)), _("check the URL")
                )
            file.write(chunk)
            self.progress(here, total or 0)
            if time.monotonic() > self.until:
                raise StepError(
                    _("{url}: download too slow", url=redact_url(self.url)),
                    _("run the command again; the download resumes"),
                )
        return here

    def _check_space(self, total: int | None, here: int) -> None:
        seen = os.statvfs(self.place.parent)
        free = seen.f_bavail * seen.f_frsize
        if total is not None and free < total - here + min(SPARE_BYTES, total):
            lacking = _(
                "{total} needed for the download; {free} free",
                free=format_mib(free / MIB),
                total=format_mib((total - here) / MIB),
            )
            raise StepError(
                _("{parent}: {lacking}", parent=self.place.parent, lacking=lacking),
                _("free disk space, or set ENVCHECK_HOME to another disk"),
            )

    def _raise_refusal(self, err: urllib.error.HTTPError, known: _PartNotes | None) -> None:
        """Raise for an HTTP error.  416 means that no bytes remain: the part is complete, or the file has changed."""
        if err.code == 416:
            if known and known.size == self.size_here():
                return
            raise _RestartError from None
        if err.code in AGAIN:
            raise _CutOffError(_("the server returned {code} {reason}", code=err.code, reason=err.reason)) from None
        next_step = MEANINGS.get(err.code, _("check the URL"))
        raise StepError(
            _(
                "{url}: the server returned {code} {reason}",
                url=redact_url(self.url),
                code=err.code,
                reason=str(err.reason)[:100],
            ),
            next_step,
        ) from None

    def _move_into_place(self) -> DownloadedFile:
        """Flush the part to disk, verify its sum, rename it; a crash leaves the part or the complete file."""
        seen = checksums.compute_sha256(self.part)
        if self.sha256 and seen != self.sha256:
            if self.spliced:  # the parts may be of different versions of the file
                self.spliced = False
                raise _RestartError
            self._discard_part()
            raise StepError(
                _(
                    "{url}: expected SHA-256 {sha256}, got {seen}",
                    url=redact_url(self.url),
                    seen=seen,
                    sha256=self.sha256,
                ),
                _("the file was deleted; if the vendor replaced it, update the recipe or the lock file"),
            )
        with self.part.open("rb") as file:
            os.fsync(file.fileno())
        self.part.replace(self.place)
        self.notes.unlink(missing_ok=True)
        return DownloadedFile(self.place, seen, self.place.stat().st_size, self.resumed, bool(self.sha256))

    def _read_notes(self) -> _PartNotes | None:
        try:
            notes = json.loads(self.notes.read_text()[:NOTES_LIMIT])
            return _PartNotes(
                str(notes["url"]), str(notes["mark"]), notes["size"] if isinstance(notes["size"], int) else None
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write_notes(self, known: _PartNotes) -> None:
        self.notes.write_text(json.dumps(asdict(known)))

    def _discard_part(self) -> None:
        self.part.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)
        self.resumed = 0


def _read_chunk(answer: Any) -> bytes:
    try:
        read: bytes = answer.read1(CHUNK)
    except (OSError, http.client.HTTPException) as err:  # network errors only; errors of writing concern the disk
        raise _CutOffError(shorten_error(err)) from None
    return read


def _find_finished(place: Path, sha256: str) -> DownloadedFile | None:
    """Return the file that an earlier run completed, if its sum is the expected one."""
    if not place.is_file():
        return None
    seen = checksums.compute_sha256(place)
    if sha256 and seen != sha256.lower():
        place.unlink()
        return None
    return DownloadedFile(place, seen, place.stat().st_size, place.stat().st_size, bool(sha256))


@contextlib.contextmanager
def _hold_lock(place: Path) -> Iterator[None]:
    """Hold a kernel file lock; it disappears with the process, so a killed run leaves none behind."""
    file = os.open(place.with_name(place.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StepError(
            _("another envcheck process is downloading {name}", name=place.name),
            _("wait until it has finished, then run the command again"),
        ) from None
    finally:
        os.close(file)


def _explain_error(err: OSError, place: Path) -> StepError:
    if err.errno in (errno.ENOSPC, errno.EDQUOT):
        return StepError(
            _("{parent}: no space left on the disk", parent=place.parent),
            _("free disk space, then run the command again; the download resumes"),
        )
    return StepError(
        _("{path}: {reason}", path=err.filename or place, reason=describe_os_error(err)),
        _("check the folder's permissions"),
    )
