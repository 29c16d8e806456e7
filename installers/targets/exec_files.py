"""Files out of a container and into it, whatever their size: streamed through the engine's archives."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from envcheck.core.errors import StepError
from installers.targets.container_errors import asked
from installers.targets.exec_target import ContainerTarget

CHUNK = 1 << 20
BLOCK = tarfile.BLOCKSIZE


class ContainerFiles:
    """installers.software.build_cache.Files for a container."""

    def __init__(self, target: ContainerTarget) -> None:
        self._target = target

    def bring(self, path: str, target: Path) -> None:
        """The regular file at `path`, to `target`; nothing else that the container may answer with."""
        stream, _ = asked(lambda: self._target.api.get_archive(self._target.container, path, chunk_size=CHUNK))
        with tarfile.open(fileobj=cast("IO[bytes]", _Readable(iter(stream))), mode="r|") as archive:
            entry = archive.next()
            packed = archive.extractfile(entry) if entry and entry.isreg() else None
            if packed is None:
                raise StepError(f"{path} in {self._target.container} is no file", "look there")
            with target.open("wb") as out:
                shutil.copyfileobj(packed, out, CHUNK)

    def put(self, source: Path, path: str) -> None:
        folder, _, name = path.rpartition("/")
        made = self._target.run(("mkdir", "-p", folder), timeout_s=60.0, env={})
        if made.status != 0:
            raise StepError(f"{folder} cannot be made in {self._target.container}", "look there")
        asked(lambda: self._target.api.put_archive(self._target.container, folder, _packed(source, name)))


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
