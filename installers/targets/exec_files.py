"""Copy files of any size into and out of a container, streamed through the engine's archive API."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from envcheck.core.errors import StepError
from envcheck.core.messages import _
from installers.targets.container_errors import call_engine

if TYPE_CHECKING:
    from docker import APIClient

CHUNK = 1 << 20
BLOCK = tarfile.BLOCKSIZE


def bring_file(api: APIClient, container: str, path: str, to: Path) -> None:
    """Copy the regular file at `path` to the host path `to`; raise StepError if it is anything else."""
    stream, _unused = call_engine(lambda: api.get_archive(container, path, chunk_size=CHUNK))
    with tarfile.open(fileobj=cast("IO[bytes]", _PieceReader(iter(stream))), mode="r|") as archive:
        entry = archive.next()
        packed = archive.extractfile(entry) if entry and entry.isreg() else None
        if packed is None:
            raise StepError(
                _("{path} in container {container} is not a regular file", path=path, container=container),
                _("check it with `docker exec {container} ls -l {path}`", container=container, path=path),
            )
        with to.open("wb") as out:
            shutil.copyfileobj(packed, out, CHUNK)


def put_file(api: APIClient, container: str, source: Path, path: str) -> None:
    """Copy a file of the host to `path`, whose folder must exist."""
    folder, _unused, name = path.rpartition("/")
    call_engine(lambda: api.put_archive(container, folder, _pack_file(source, name)))


def _pack_file(source: Path, name: str) -> Iterator[bytes]:
    """Yield a tar archive of one file, in pieces."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = source.stat().st_size, 0o644
    yield entry.tobuf(tarfile.GNU_FORMAT)
    with source.open("rb") as file:
        while piece := file.read(CHUNK):
            yield piece
    yield b"\0" * (-entry.size % BLOCK + 2 * BLOCK)


class _PieceReader(io.RawIOBase):
    """A read-only, non-seekable file over an iterator of pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, b""

    def read(self, size: int = -1) -> bytes:
        while len(self._left) < size and (piece := next(self._pieces, None)) is not None:
            self._left += piece
        taken, self._left = self._left[:size], self._left[size:]
        return taken
