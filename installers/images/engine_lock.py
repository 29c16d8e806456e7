"""One provisioning at a time in one container, whoever's: two users, or two homes, share an engine.

The lock in the environment's folder (installers.state.lock) is of one home.  This one stands where all users of the
host meet; it is opened to be read alone, so that nobody must be allowed to write into another's file.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from envcheck.core.errors import EnvcheckError

SHARED = 0o1002  # sticky, and everybody may write
PLACES = (Path("/run/lock"), Path("/tmp"))


@contextlib.contextmanager
def held(url: str, container: str) -> Iterator[None]:
    """EnvcheckError where another run works in that container of that engine."""
    path = path_of(url, container)
    file = _opened(path)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvcheckError(
                f"another envcheck is working in the container {container}",
                f"wait until it has ended, then repeat (whose it is: fuser -v {path})",
            ) from None
        yield
    finally:
        os.close(file)


def path_of(url: str, container: str) -> Path:
    """The same for every user of this host; a socket by whatever link goes by its real path."""
    scheme, _, place = url.partition("://")
    whole = f"unix://{os.path.realpath(place)}" if scheme == "unix" else url
    key = hashlib.sha256(f"{whole}\0{container}".encode()).hexdigest()[:32]
    return next(filter(_shared, PLACES), PLACES[-1]) / f"envcheck-{key}.lock"


def _shared(folder: Path) -> bool:
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and mode & SHARED == SHARED


def _opened(path: Path) -> int:
    """No link is followed and no pipe waited for.  First without O_CREAT, which fs.protected_regular forbids on another
    user's file in such a folder."""
    look = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    for flags in (look, look | os.O_CREAT | os.O_EXCL, look):
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            try:
                file = os.open(path, flags, 0o644)
            except OSError as err:
                if isinstance(err, (FileNotFoundError, FileExistsError)):
                    raise
                raise _in_the_way(path, (err.strerror or str(err)).lower()) from None
            if not stat.S_ISREG(os.fstat(file).st_mode):
                os.close(file)
                raise _in_the_way(path, "it is no plain file")
            if flags & os.O_CREAT:
                os.fchmod(file, 0o644)  # whatever the umask: others must be able to read it
            return file
    raise _in_the_way(path, "it comes and goes")


def _in_the_way(path: Path, why: str) -> EnvcheckError:
    return EnvcheckError(f"the lock {path} cannot be taken: {why}", f"see whose it is: ls -l {path}")
