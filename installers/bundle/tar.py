"""The archive itself: written front to back in constant memory, and listed by tarfile without reading what it holds.

Not written by tarfile, which must know a member's size and name beforehand: an image's layers tell them last.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO

from envcheck.core.errors import StepError, UsageError
from installers.bundle.format import AGAIN, CHUNK, MANIFEST, MEMBER, MEMBERS_LIMIT, BundleError, Member, manifest_text

BLOCK = 512
OTHER = "give the file that envcheck bundle wrote, all of it; weights are not for it but for --weights DIR"
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
        room = len(header(name_of("0" * 64), 0))
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
        self._write(header(member.name, size))
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
        except OSError as err:
            raise StepError(f"cannot write {self.path}: {(err.strerror or str(err)).lower()}", "make room") from None


def header(name: str, size: int) -> bytes:
    """One header, or three blocks where the name is long; without times and owners, so that the same gives the same."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def read_file(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            yield chunk


class NotPlainError(Exception):
    """The member of this name is no plain file."""


class PlainFile(tarfile.TarInfo):
    """A header of a bundle.  NotPlainError before tarfile reads what belongs to it: a pax header of gigabytes would go
    into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> PlainFile:
        info = super().frombuf(buf, encoding, errors)
        is_long_name = info.type == tarfile.GNUTYPE_LONGNAME and 0 < info.size <= BLOCK
        if info.size < 0 or (info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) and not is_long_name):
            raise NotPlainError(info.name)
        return info


def walk(file: BinaryIO, name: str) -> Iterator[Member]:
    """The members, by their headers alone: milliseconds, whatever the size.  BundleError for all that we never write.

    `name` only names the file in sentences.  A damaged header ends the walk, as tarfile has it: the manifest, which
    comes last, is missing then.
    """
    seen = set[str]()
    try:
        with tarfile.open(fileobj=file, mode="r:", tarinfo=PlainFile) as archive:
            for info in archive:
                if not MEMBER.fullmatch(info.name):
                    raise BundleError(f"{name} holds {info.name[:100]!a}, which no bundle does", AGAIN)
                if info.name in seen:
                    raise BundleError(f"{name} holds {info.name} twice", AGAIN)
                if len(seen) >= MEMBERS_LIMIT:
                    raise BundleError(f"{name} holds more than {MEMBERS_LIMIT} files", AGAIN)
                seen.add(info.name)
                yield Member(info.name, info.size, info.offset_data)
    except NotPlainError as err:
        raise BundleError(f"{name} holds {str(err)[:100]!a}, which is no plain file", AGAIN) from None
    except (tarfile.TarError, RecursionError):  # of long names for long names
        raise _unreadable(file, name, bool(seen)) from None


def _unreadable(file: BinaryIO, name: str, has_begun: bool) -> BundleError:
    if has_begun:
        return BundleError(f"{name} is cut off at {os.fstat(file.fileno()).st_size} bytes", AGAIN)
    begin = _read(file, 0, BLOCK)
    packed = next((words for mark, words in _COMPRESSED.items() if begin.startswith(mark)), None)
    if packed:
        return BundleError(f"{name} is packed with {packed}", f"unpack it first: {packed} -d")
    return BundleError(f"{name} is no bundle", OTHER)


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def open_member(file: BinaryIO, member: Member) -> IO[bytes]:
    """What the member holds, as a file."""
    info = tarfile.TarInfo(member.name)
    info.size, info.offset_data = member.size, member.offset
    held = tarfile.TarFile(fileobj=file, tarinfo=PlainFile).extractfile(info)
    assert held
    return held


def content(file: BinaryIO, member: Member) -> Iterator[bytes]:
    """What the member holds, in chunks."""
    at, left = member.offset, member.size
    while left:
        chunk = _read(file, at, min(CHUNK, left))
        if not chunk:
            raise BundleError(f"the bundle became shorter while it was read: {member.name}", AGAIN)
        yield chunk
        at, left = at + len(chunk), left - len(chunk)
