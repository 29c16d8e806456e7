"""The bundle's tar archive: written front to back in constant memory, and listed without reading its contents.

Not written by tarfile, which needs each member's name and size first: a layer's are known only at its end.
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

from envcheck.core.errors import StepError, UsageError, describe_os_error
from envcheck.core.messages import _
from installers.bundle.format import (
    AGAIN,
    CHUNK,
    MANIFEST,
    MEMBER,
    MEMBERS_LIMIT,
    BundleError,
    BundleMember,
    UnreadableBundleError,
    render_manifest,
)

BLOCK = 512
OTHER = _("pass the complete file that `envcheck bundle` wrote; for model weights use --weights DIR")
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zX": "xz", b"BZh": "bzip2"}


class BundleWriter:
    """Write a bundle to a temporary file; rename it when it is complete, delete it on failure.

    A killed run leaves the temporary file, which the next one overwrites.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.part = self.path.with_name(f".{self.path.name}.part")
        self.members: list[BundleMember] = []

    def __enter__(self) -> BundleWriter:
        handle = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise UsageError(
                _("another envcheck process is writing {path}", path=self.path), _("wait until it has finished")
            ) from None
        self.file: BinaryIO = os.fdopen(handle, "r+b", buffering=0)
        self.file.truncate()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish_archive()
        except BaseException:
            kind = BaseException
            raise
        finally:
            if kind is not None:
                self.part.unlink(missing_ok=True)
            self.file.close()

    def _finish_archive(self) -> None:
        self.add_member(MANIFEST, [render_manifest(tuple(self.members))])
        self._write_all(bytes(2 * BLOCK))
        os.fsync(self.file.fileno())
        self.part.rename(self.path)

    def add_member(self, name: str, chunks: Iterable[bytes]) -> BundleMember:
        """Add a member of unknown size: its header is written last."""
        return self.add_named_after(lambda _unused: name, chunks)

    def add_blob(self, prefix: str, chunks: Iterable[bytes]) -> BundleMember:
        """Add a member named by its own SHA-256; a duplicate is not stored twice."""
        return self.add_named_after(lambda sha256: prefix + sha256, chunks)

    def add_named_after(self, name_of: Callable[[str], str], chunks: Iterable[bytes]) -> BundleMember:
        """Add a member; `name_of` gets its SHA-256 and returns its name."""
        begin, digest, size = self.file.tell(), hashlib.sha256(), 0
        room = len(render_header(name_of("0" * 64), 0))
        self.file.seek(begin + room)
        for chunk in chunks:
            self._write_all(chunk)
            digest.update(chunk)
            size += len(chunk)
        member = BundleMember(name_of(digest.hexdigest()), size, begin + room, digest.hexdigest())
        if any(known.name == member.name for known in self.members):
            self.file.seek(begin)
            self.file.truncate()
            return member
        self._write_all(bytes(-size % BLOCK))
        end = self.file.tell()
        self.file.seek(begin)
        self._write_all(render_header(member.name, size))
        self.file.seek(end)
        self.members.append(member)
        return member

    def mark_position(self) -> tuple[int, int]:
        """Return the position, for `rewind_to`."""
        return len(self.members), self.file.tell()

    def rewind_to(self, mark: tuple[int, int]) -> None:
        """Discard everything added since the mark."""
        count, end = mark
        del self.members[count:]
        self.file.seek(end)
        self.file.truncate()

    def add_file(self, name: str, path: Path) -> BundleMember:
        """Add a file under this name."""
        return self.add_member(name, read_file(path))

    def _write_all(self, data: bytes) -> None:
        """Write all data; report a failure as a problem of the disk."""
        try:
            view = memoryview(data)
            while view:
                view = view[self.file.write(view) :]
        except OSError as err:
            raise StepError(
                _("cannot write {path}: {reason}", path=self.path, reason=describe_os_error(err)),
                _("free disk space"),
            ) from None


def render_header(name: str, size: int) -> bytes:
    """Return one header block, or three if the name is long; without times and owners, to be reproducible."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def read_file(path: Path) -> Iterator[bytes]:
    """Yield the file's content in chunks."""
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            yield chunk


class NotPlainError(Exception):
    """The member of this name is not a regular file."""


class PlainFile(tarfile.TarInfo):
    """A header of a bundle.  NotPlainError is raised before tarfile reads a member's data: a pax header of gigabytes
    would be read into memory.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> PlainFile:
        """Return the header, NotPlainError if it is not of a regular file."""
        info = super().frombuf(buf, encoding, errors)
        is_long_name = info.type == tarfile.GNUTYPE_LONGNAME and 0 < info.size <= BLOCK
        if info.size < 0 or (info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) and not is_long_name):
            raise NotPlainError(info.name)
        return info


def list_members(file: BinaryIO, name: str) -> Iterator[BundleMember]:
    """Yield the members from their headers only: milliseconds for any size.  BundleError for what envcheck never
    writes.

    `name` is the file's name in messages.  As in tarfile, a damaged header ends the list: then the manifest, which
    comes last, is missing.
    """
    seen = set[str]()
    try:
        with tarfile.open(fileobj=file, mode="r:", tarinfo=PlainFile) as archive:
            for info in archive:
                if not MEMBER.fullmatch(info.name):
                    raise BundleError(
                        _(
                            "{bundle} contains {file!a}, which does not belong in a bundle",
                            bundle=name,
                            file=info.name[:100],
                        ),
                        AGAIN,
                    )
                if info.name in seen:
                    raise BundleError(_("{bundle} contains {file} twice", bundle=name, file=info.name), AGAIN)
                if len(seen) >= MEMBERS_LIMIT:
                    raise BundleError(
                        _("{name} contains more than {count} files", name=name, count=MEMBERS_LIMIT), AGAIN
                    )
                seen.add(info.name)
                yield BundleMember(info.name, info.size, info.offset_data)
    except NotPlainError as err:
        raise BundleError(
            _("{bundle}: {file!a} is not a regular file", bundle=name, file=str(err)[:100]), AGAIN
        ) from None
    except (tarfile.TarError, RecursionError):  # nested long-name headers
        raise _explain_unreadable(file, name, bool(seen)) from None


def _explain_unreadable(file: BinaryIO, name: str, has_begun: bool) -> BundleError:
    if has_begun:
        return BundleError(
            _("{name} is truncated at {size} bytes", name=name, size=os.fstat(file.fileno()).st_size), AGAIN
        )
    begin = _read_at(file, 0, BLOCK)
    packed = next((words for mark, words in _COMPRESSED.items() if begin.startswith(mark)), None)
    if packed:
        return BundleError(
            _("{name} is compressed with {packer}", name=name, packer=packed),
            _("decompress it first: `{packer} -d`", packer=packed),
        )
    return UnreadableBundleError(_("{name} is not an envcheck bundle", name=name), OTHER)


def _read_at(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def open_member(file: BinaryIO, member: BundleMember) -> IO[bytes]:
    """Return the member's content as a file object."""
    info = tarfile.TarInfo(member.name)
    info.size, info.offset_data = member.size, member.offset
    held = tarfile.TarFile(fileobj=file, tarinfo=PlainFile).extractfile(info)
    assert held
    return held


def read_member(file: BinaryIO, member: BundleMember) -> Iterator[bytes]:
    """Yield the member's content in chunks."""
    at, left = member.offset, member.size
    while left:
        chunk = _read_at(file, at, min(CHUNK, left))
        if not chunk:
            raise BundleError(_("the bundle was truncated while it was being read: {name}", name=member.name), AGAIN)
        yield chunk
        at, left = at + len(chunk), left - len(chunk)
