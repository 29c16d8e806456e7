"""A file by URL into a folder: resumed where it was cut, bounded, and in its place only when it is the right one.

What is there already is kept under NAME.part, with what the server said of it beside it; a changed file is not spliced.
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
from envcheck.core.errors import StepError
from envcheck.core.units import MIB, gib, mib
from installers.drivers.download_http import AGAIN, MEANINGS, SILENCE_S, mark_of, name_of, open_url, short, shown
from installers.state import checksums

LIMIT = 16 << 30  # bytes; the largest driver file has 2 GB
CHUNK = 1 << 18
TRIES = 5  # in a row without a byte more
WAIT_S = 0.5  # before the first repetition, doubled each time
DEADLINE_S = 12 * 3600.0
SPARE_BYTES = 64 * MIB
NOTES_LIMIT = 64 << 10  # bytes; ours have a few hundred
Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Fetched:
    """The file in its place, and the sum of what is in it; `vouched`: that is the one which was expected.

    `resumed_bytes`: how much of it an earlier run had brought.
    """

    path: Path
    sha256: str
    size_bytes: int
    resumed_bytes: int = 0
    vouched: bool = False


@dataclass(frozen=True)
class _Known:
    """What the server said of the file of which a part is here; `mark` is its ETag, else its date."""

    url: str
    mark: str = ""
    size: int | None = None


class _CutOffError(Exception):
    """Worth another try."""


class _AnewError(Exception):
    """The part is of no use any more."""


def cache() -> Path:
    """Where downloads lie; a folder for each address, since two vendors may use one name."""
    return paths.home() / "downloads"


def fetch(
    url: str,
    *,
    folder: Path | None = None,
    sha256: str = "",
    limit_bytes: int = LIMIT,
    tell: Tell = lambda done, total: None,
    silence_s: float = SILENCE_S,
    deadline_s: float = DEADLINE_S,
    wait_s: float = WAIT_S,
) -> Fetched:
    """The file at `url`.  `sha256` is what it must have; without one the sum is only told.  StepError, UsageError.

    `tell` hears (bytes here, bytes in all; 0 where the server does not say).
    """
    name = name_of(url)
    place = (folder or cache() / hashlib.sha256(url.encode()).hexdigest()[:16]) / name
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _alone(place):
            if there := _there(place, sha256):
                return there
            job = _Job(url, place, sha256, limit_bytes, tell, silence_s, time.monotonic() + deadline_s, wait_s)
            return job.run()
    except OSError as err:
        raise _in_words(err, place) from None


class _Job:
    """One download while it lasts."""

    def __init__(
        self, url: str, place: Path, sha256: str, limit: int, tell: Tell, silence_s: float, until: float, wait_s: float
    ) -> None:
        self.url, self.place, self.sha256, self.limit = url, place, sha256.lower(), limit
        self.tell, self.silence_s, self.until, self.wait_s = tell, silence_s, until, wait_s
        self.part, self.notes = place.with_name(place.name + ".part"), place.with_name(place.name + ".part.json")
        self.resumed, self.spliced = self.size_here(), False

    def run(self) -> Fetched:
        tries, why, most = 0, "", self.size_here()
        while True:
            try:
                self._once()
                return self._placed()
            except _AnewError:
                self._forget()
                tries += 1
            except _CutOffError as err:
                why = str(err)
                tries = 0 if self.size_here() > most else tries + 1
                most = max(most, self.size_here())
            if tries == TRIES:
                break
            if time.monotonic() > self.until:
                raise StepError(f"{shown(self.url)}: too slow", "repeat it: what is here is kept")
            time.sleep(min(self.wait_s * 2**tries, 30.0) if tries else 0)
        raise StepError(
            f"{shown(self.url)}: {why or 'the server keeps changing it'}", "repeat it: what is here is kept"
        )

    def size_here(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _once(self) -> None:
        """One connection.  Returns when all is here."""
        here, known = self.size_here(), self._known()
        if here and (known is None or known.url != self.url or not (known.mark or self.sha256)):
            raise _AnewError  # nothing tells, or will tell, whether the rest belongs to this part
        headers = {"Accept-Encoding": "identity", "User-Agent": "envcheck"}
        if here and known:
            headers |= {"Range": f"bytes={here}-"} | ({"If-Range": known.mark} if known.mark else {})
        try:
            with open_url(urllib.request.Request(self.url, headers=headers), self.silence_s) as answer:
                self._take(answer, here)
        except urllib.error.HTTPError as err:
            self._refused(err, known)
        except (http.client.HTTPException, TimeoutError, ConnectionError, urllib.error.URLError) as err:
            if isinstance(getattr(err, "reason", None), ssl.SSLCertVerificationError):
                raise StepError(
                    f"{shown(self.url)}: {short(err)}", "see SSL_CERT_FILE and the machine's clock"
                ) from None
            raise _CutOffError(short(err)) from None

    def _take(self, answer: Any, here: int) -> None:
        total = self._total(answer, here)
        mode = "ab" if answer.status == 206 else "wb"
        if answer.status != 206:  # a server that ignores Range, or whose file has changed since
            here, self.resumed = 0, 0
        self.spliced = self.spliced or answer.status == 206
        if total is not None and total > self.limit:
            raise StepError(
                f"{shown(self.url)}: {gib(total)}, {gib(self.limit)} at most are taken", "look at the address"
            )
        self._room(total, here)
        with self.part.open(mode) as file:
            self._note(_Known(self.url, mark_of(answer), total))  # after the old part is gone: it has another mark
            here = self._copy(answer, file, here, total)
        if total is not None and here != total:
            raise _CutOffError(f"the connection was cut after {here} of {total} bytes")

    def _total(self, answer: Any, here: int) -> int | None:
        """The size of the whole file; a partial answer must begin where we are."""
        if answer.status == 206:
            said = re.fullmatch(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", answer.headers.get("Content-Range", ""))
            if not said or int(said[1]) != here:
                raise _AnewError
            return None if said[2] == "*" else int(said[2])
        length = answer.headers.get("Content-Length", "")
        return int(length) if re.fullmatch(r"\d{1,18}", length) else None

    def _copy(self, answer: Any, file: IO[bytes], here: int, total: int | None) -> int:
        while chunk := _chunk(answer):
            here += len(chunk)
            if here > self.limit or (total is not None and here > total):
                raise StepError(f"{shown(self.url)}: it is longer than it may be", "look at the address")
            file.write(chunk)
            self.tell(here, total or 0)
            if time.monotonic() > self.until:
                raise StepError(f"{shown(self.url)}: too slow", "repeat it: what is here is kept")
        return here

    def _room(self, total: int | None, here: int) -> None:
        seen = os.statvfs(self.place.parent)
        free = seen.f_bavail * seen.f_frsize
        if total is not None and free < total - here + min(SPARE_BYTES, total):
            lacking = f"{mib(free / MIB)} are free, {mib((total - here) / MIB)} are to come"
            raise StepError(f"{self.place.parent}: {lacking}", "make room, or set ENVCHECK_HOME to another disk")

    def _refused(self, err: urllib.error.HTTPError, known: _Known | None) -> None:
        """416: there is nothing behind what is here, because it is whole, or because the file has changed."""
        if err.code == 416:
            if known and known.size == self.size_here():
                return
            raise _AnewError from None
        if err.code in AGAIN:
            raise _CutOffError(f"the server says {err.code} {err.reason}") from None
        next_step = MEANINGS.get(err.code, "look at the address")
        raise StepError(f"{shown(self.url)}: the server says {err.code} {err.reason}"[:300], next_step) from None

    def _placed(self) -> Fetched:
        """On the disk, its sum right, then renamed: a cut leaves the part or the whole."""
        seen = checksums.sha256(self.part)
        if self.sha256 and seen != self.sha256:
            if self.spliced:  # the two parts may be of two files
                self.spliced = False
                raise _AnewError
            self._forget()
            raise StepError(
                f"{shown(self.url)}: its SHA-256 is {seen}, expected was {self.sha256}",
                "it was thrown away; if the vendor has replaced the file, the recipe or the lock is to be changed",
            )
        with self.part.open("rb") as file:
            os.fsync(file.fileno())
        self.part.replace(self.place)
        self.notes.unlink(missing_ok=True)
        return Fetched(self.place, seen, self.place.stat().st_size, self.resumed, bool(self.sha256))

    def _known(self) -> _Known | None:
        try:
            said = json.loads(self.notes.read_text()[:NOTES_LIMIT])
            return _Known(str(said["url"]), str(said["mark"]), said["size"] if isinstance(said["size"], int) else None)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _note(self, known: _Known) -> None:
        self.notes.write_text(json.dumps(asdict(known)))

    def _forget(self) -> None:
        self.part.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)
        self.resumed = 0


def _chunk(answer: Any) -> bytes:
    try:
        read: bytes = answer.read1(CHUNK)
    except (OSError, http.client.HTTPException) as err:  # the network's; what writing raises is the disk's
        raise _CutOffError(short(err)) from None
    return read


def _there(place: Path, sha256: str) -> Fetched | None:
    """What an earlier run has brought to its end, if it is the right one."""
    if not place.is_file():
        return None
    seen = checksums.sha256(place)
    if sha256 and seen != sha256.lower():
        place.unlink()
        return None
    return Fetched(place, seen, place.stat().st_size, place.stat().st_size, bool(sha256))


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    """The kernel's lock: a killed run leaves none behind."""
    file = os.open(place.with_name(place.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StepError(f"another envcheck is fetching {place.name}", "wait until it has ended, then repeat") from None
    finally:
        os.close(file)


def _in_words(err: OSError, place: Path) -> StepError:
    if err.errno in (errno.ENOSPC, errno.EDQUOT):
        return StepError(f"{place.parent}: the disk is full", "make room, then repeat it: what is here is kept")
    return StepError(f"{err.filename or place}: {(err.strerror or str(err)).lower()}", "see the folder's rights")
