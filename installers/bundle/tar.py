"""The archive itself: written front to back in constant memory, and walked without reading what it holds.

Our own walk and not tarfile's: a bundle needs one kind of member, and tarfile reads any other kind before one can
refuse it (a pax header of gigabytes goes into memory).  Headers are GNU's, as tarfile and tar read them.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import hashlib
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from envcheck.core.errors import StepError, UsageError
from installers.bundle.format import AGAIN, CHUNK, MANIFEST, MEMBER, MEMBERS_LIMIT, BundleError, Member, manifest_text

BLOCK = 512
FLUSH_BYTES = 64 << 20
OTHER = "give the file that envcheck bundle wrote, all of it; weights are not for it but for --weights DIR"
_LONG = b"L"  # GNU's member for a name of more than 100 characters
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zX": "xz", b"BZh": "bzip2"}


class Writer:
    """A bundle under a temporary name beside its place; renamed when it is whole, removed when the body fails.

    A killed run leaves the temporary file, which the next one overwrites.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.part = self.path.with_name(f".{self.path.name}.part")
        self.members: list[Member] = []

    def __enter__(self) -> Writer:
        handle = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise UsageError(f"another envcheck is writing {self.path}", "wait until it has ended") from None
        self.file: BinaryIO = os.fdopen(handle, "r+b", buffering=0)
        self._disk = Disk(handle)
        self.file.truncate()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        except BaseException:
            kind = BaseException
            raise
        finally:
            self._disk.end()
            if kind is not None:
                self.part.unlink(missing_ok=True)
            self.file.close()

    def _finish(self) -> None:
        self.add(MANIFEST, [manifest_text(tuple(self.members))])
        self._write(bytes(2 * BLOCK))
        os.fsync(self.file.fileno())
        self.part.rename(self.path)

    def add(self, name: str, chunks: Iterable[bytes]) -> Member:
        """A member of a size that nobody needs to know beforehand: its header is written last."""
        return self.add_named_after(lambda _: name, chunks)

    def add_blob(self, prefix: str, chunks: Iterable[bytes]) -> Member:
        """A member that is named after its own sha256; one that is there already is not kept twice."""
        return self.add_named_after(lambda sha256: prefix + sha256, chunks)

    def add_named_after(self, name_of: Callable[[str], str], chunks: Iterable[bytes]) -> Member:
        begin, digest, size = self.file.tell(), hashlib.sha256(), 0
        room = len(_header(name_of("0" * 64), 0))
        self.file.seek(begin + room)
        for chunk in chunks:
            self._write(chunk)
            digest.update(chunk)
            size += len(chunk)
        member = Member(name_of(digest.hexdigest()), size, begin + room, digest.hexdigest())
        if any(known.name == member.name for known in self.members):
            self.file.seek(begin)
            self.file.truncate()
            return member
        self._write(bytes(-size % BLOCK))
        end = self.file.tell()
        self.file.seek(begin)
        self._write(_header(member.name, size))
        self.file.seek(end)
        self.members.append(member)
        return member

    def mark(self) -> tuple[int, int]:
        """To which back() leads."""
        return len(self.members), self.file.tell()

    def back(self, mark: tuple[int, int]) -> None:
        """As if nothing had been added since."""
        count, end = mark
        del self.members[count:]
        self.file.seek(end)
        self.file.truncate()

    def add_file(self, name: str, path: Path) -> Member:
        return self.add(name, read_file(path))

    def _write(self, data: bytes) -> None:
        """All of it; what cannot be written is told as the disk's fault, not as ours."""
        try:
            view = memoryview(data)
            while view:
                view = view[self.file.write(view) :]
            self._disk.wrote(len(data))
        except OSError as err:
            raise StepError(f"cannot write {self.path}: {(err.strerror or str(err)).lower()}", "make room") from None


class Disk:
    """Brings what was written to the disk while more is put together: else all of it waits for the end."""

    def __init__(self, handle: int) -> None:
        self._handle, self._waiting = handle, 0
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._last: concurrent.futures.Future[None] | None = None

    def wrote(self, count: int) -> None:
        self._waiting += count
        if self._waiting >= FLUSH_BYTES and (self._last is None or self._last.done()):
            self._waiting, self._last = 0, self._thread.submit(os.fdatasync, self._handle)

    def end(self) -> None:
        """Before the file is closed: its number may be another file's then."""
        self._thread.shutdown()


def _header(name: str, size: int) -> bytes:
    """One header, or three blocks where the name is long; times and owners are left out: alike in, alike out."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def read_file(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def walk(file: BinaryIO, name: str) -> Iterator[Member]:
    """The members, by their headers alone: milliseconds, whatever the size.  BundleError for all that we never write.

    `name` only names the file in sentences.
    """
    end, at, seen = os.fstat(file.fileno()).st_size, 0, set[str]()
    while True:
        info, at = _next(file, at, end, name)
        if info is None:
            break
        if info.name in seen:
            raise BundleError(f"{name} holds {info.name} twice", AGAIN)
        if len(seen) >= MEMBERS_LIMIT:
            raise BundleError(f"{name} holds more than {MEMBERS_LIMIT} files", AGAIN)
        seen.add(info.name)
        if at + info.size > end:
            raise BundleError(f"{name} is cut off: it ends inside {info.name}, at {end} bytes", AGAIN)
        yield Member(info.name, info.size, at)
        at += info.size + -info.size % BLOCK
    if at != end:
        raise BundleError(f"{name} goes on behind its end", AGAIN)


def _next(file: BinaryIO, at: int, end: int, name: str) -> tuple[tarfile.TarInfo | None, int]:
    """The header at this place, with its long name; None at the end mark.  And where the content begins."""
    long = None
    while True:
        block = _read(file, at, BLOCK)
        at += BLOCK
        if block == bytes(BLOCK) and long is None:
            if _read(file, at, BLOCK) != bytes(BLOCK):
                raise BundleError(f"{name} is cut off: its end mark is missing", AGAIN)
            return None, at + BLOCK
        info = _parsed(block, at - BLOCK, end, name)
        if info.type == _LONG and long is None and 0 < info.size <= BLOCK:
            long = _read(file, at, BLOCK)[: info.size].rstrip(b"\0").decode("ascii", "replace")
            at += BLOCK
            continue
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise BundleError(f"{name} holds {info.name[:100]!a}, which is no plain file", AGAIN)
        info.name = long or info.name
        if not MEMBER.fullmatch(info.name):
            raise BundleError(f"{name} holds {info.name[:100]!a}, which no bundle does", AGAIN)
        if info.size < 0:
            raise BundleError(f"{name}: {info.name} has a size below 0", AGAIN)
        return info, at


def _parsed(block: bytes, at: int, end: int, name: str) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as err:
        if at == 0:
            packed = next((words for mark, words in _COMPRESSED.items() if block.startswith(mark)), None)
            said = f"is packed with {packed}" if packed else "is no bundle"
            raise BundleError(f"{name} {said}", f"unpack it first: {packed} -d" if packed else OTHER) from None
        cut = at + BLOCK > end or not block
        why = f"is cut off at {end} bytes" if cut else f"is damaged at byte {at} ({err})"
        raise BundleError(f"{name} {why}", AGAIN) from None


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def content(file: BinaryIO, member: Member) -> Iterator[bytes]:
    """What the member holds, in chunks."""
    at, left = member.offset, member.size
    while left:
        chunk = _read(file, at, min(CHUNK, left))
        if not chunk:
            raise BundleError(f"the bundle became shorter while it was read: {member.name}", AGAIN)
        yield chunk
        at, left = at + len(chunk), left - len(chunk)
