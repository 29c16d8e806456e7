"""A part of an image that is fetched once and read by many, while it comes.

It lies in a file without a name: however this process ends, nothing of it is left.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from installers.images.manifest import BlobReference
from installers.images.registry_link import Refusal

CHUNK = 1 << 20
ATTEMPTS, PAUSE_S = 3, 2.0  # of a connection that is cut; what has come stays
Source = Callable[[BlobReference, int], Iterator[bytes]]  # from this byte on


class LostError(Exception):
    """It does not come; the text says why."""


class Blob:
    """Nothing is fetched before somebody asks; whoever asks after a failure makes one more attempt."""

    def __init__(self, part: BlobReference, source: Source, folder: Path) -> None:
        self.part, self._source, self._folder = part, source, folder
        self._changed = threading.Condition()
        self._filled, self._busy, self._whole, self._why = 0, False, False, ""
        self._digest = hashlib.sha256()
        self._file = -1

    @property
    def why(self) -> str:
        """What the last attempt ended with; "" where it did not fail."""
        return self._why

    def begin(self, start: int) -> None:
        """Returns when something from `start` on is there; LostError."""
        with self._changed:
            if not (self._busy or self._whole):
                self._busy, self._why = True, ""
                threading.Thread(target=self._fetch, daemon=True).start()
        self._there(start)

    def pieces(self, start: int) -> Iterator[bytes]:
        """From this byte on, as they come."""
        while start < self.part.size:
            filled = self._there(start)
            piece = os.pread(self._file, min(CHUNK, filled - start), start)
            yield piece
            start += len(piece)

    def _there(self, start: int) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._filled > start or not self._busy)
            if self._filled <= start < self.part.size:
                raise LostError(self._why or "it is not there")
            return self._filled

    def _fetch(self) -> None:
        why = ""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                why = self._once()
                break
            except Refusal as refusal:
                why = refusal.message
                if not refusal.passing or attempt == ATTEMPTS:
                    break
                time.sleep(PAUSE_S * attempt)
            except OSError as err:
                why = f"{self._folder}: {(err.strerror or str(err)).lower()}"
                break
        with self._changed:
            self._busy, self._whole, self._why = False, not why, why
            self._changed.notify_all()

    def _once(self) -> str:
        """Why what has come is something else; "" where it is right."""
        if self._file < 0:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                self._file = os.dup(file.fileno())
        for piece in self._source(self.part, self._filled):
            if self._filled + len(piece) > self.part.size:
                break
            self._keep(piece)
        if self._filled == self.part.size and f"sha256:{self._digest.hexdigest()}" == self.part.digest:
            return ""
        self._forget()
        return f"the registry gives something else under {self.part.digest[:19]}..."

    def _keep(self, piece: bytes) -> None:
        """What is counted is written."""
        done = 0
        while done < len(piece):
            done += os.pwrite(self._file, piece[done:], self._filled + done)
        self._digest.update(piece)
        with self._changed:
            self._filled += len(piece)
            self._changed.notify_all()

    def _forget(self) -> None:
        with self._changed, contextlib.suppress(OSError):
            self._filled, self._digest = 0, hashlib.sha256()
            os.ftruncate(self._file, 0)
