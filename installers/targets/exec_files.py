"""Files out of a container and into it, whatever their size: streamed through the engine's archives."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from envcheck.core.errors import StepError
from installers.targets.container_errors import asked

if TYPE_CHECKING:
    from docker import APIClient

CHUNK = 1 << 20
BLOCK = tarfile.BLOCKSIZE


def bring_file(api: APIClient, container: str, path: str, to: Path) -> None:
    """The regular file at `path`; nothing else that the container may answer with."""
    stream, _ = asked(lambda: api.get_archive(container, path, chunk_size=CHUNK))
    with tarfile.open(fileobj=cast("IO[bytes]", _Readable(iter(stream))), mode="r|") as archive:
        entry = archive.next()
        packed = archive.extractfile(entry) if entry and entry.isreg() else None
        if packed is None:
            raise StepError(f"{path} in {container} is no file", "look there")
        with to.open("wb") as out:
            shutil.copyfileobj(packed, out, CHUNK)


def put_file(api: APIClient, container: str, source: Path, path: str) -> None:
    """Into a folder that is there."""
    folder, _, name = path.rpartition("/")
    asked(lambda: api.put_archive(container, folder, _packed(source, name)))


def _packed(source: Path, name: str) -> Iterator[bytes]:
    """A tar of the one file, in pieces."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = source.stat().st_size, 0o644
    yield entry.tobuf(tarfile.GNU_FORMAT)
    with source.open("rb") as file:
        while piece := file.read(CHUNK):
            yield piece
    yield b"\0" * (-entry.size % BLOCK + 2 * BLOCK)


class _Readable(io.RawIOBase):
    """Pieces as a file that is read from its beginning to its end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, b""

    def read(self, size: int = -1) -> bytes:
        while len(self._left) < size and (piece := next(self._pieces, None)) is not None:
            self._left += piece
        taken, self._left = self._left[:size], self._left[size:]
        return taken
