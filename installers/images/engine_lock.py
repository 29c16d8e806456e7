"""A lock for one container of one engine, shared by all users of the host.

The lock in the environment's folder (installers.state.lock) covers one home directory only.  This one is in a folder
that all users share; it is opened read-only, so no user needs write access to a file of another.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from envcheck.core.errors import EnvcheckError, describe_os_error
from envcheck.core.messages import Message, _, verbatim

SHARED = 0o1002  # sticky and world-writable
PLACES = (Path("/run/lock"), Path("/tmp"))


@contextlib.contextmanager
def hold_lock(url: str, container: str) -> Iterator[None]:
    """Hold the lock of a container; raise EnvcheckError if another run holds it."""
    path = lock_path(url, container)
    file = _open_lock(path)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvcheckError(
                _("another envcheck process is working in container {container}", container=container),
                _(
                    "wait until it has finished, then run the command again (find the process with `fuser -v {path}`)",
                    path=path,
                ),
            ) from None
        yield
    finally:
        os.close(file)


def lock_path(url: str, container: str) -> Path:
    """Return the path of the lock file, the same for every user of this host; socket links are resolved."""
    scheme, _unused, place = url.partition("://")
    whole = f"unix://{os.path.realpath(place)}" if scheme == "unix" else url
    key = hashlib.sha256(f"{whole}\0{container}".encode()).hexdigest()[:32]
    return next(filter(_is_shared, PLACES), PLACES[-1]) / f"envcheck-{key}.lock"


def _is_shared(folder: Path) -> bool:
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and mode & SHARED == SHARED


def _open_lock(path: Path) -> int:
    """Open or create the lock file without following links or blocking on a pipe.

    Tried without O_CREAT first: fs.protected_regular denies O_CREAT on another user's file in a sticky folder.
    """
    look = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    for flags in (look, look | os.O_CREAT | os.O_EXCL, look):
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            try:
                file = os.open(path, flags, 0o644)
            except OSError as err:
                if isinstance(err, (FileNotFoundError, FileExistsError)):
                    raise
                raise _lock_error(path, verbatim(describe_os_error(err))) from None
            if not stat.S_ISREG(os.fstat(file).st_mode):
                os.close(file)
                raise _lock_error(path, _("not a regular file"))
            if flags & os.O_CREAT:
                os.fchmod(file, 0o644)  # regardless of the umask: other users must be able to read it
            return file
    raise _lock_error(path, _("it is repeatedly created and removed"))


def _lock_error(path: Path, why: Message) -> EnvcheckError:
    return EnvcheckError(
        _("cannot acquire the lock {path}: {reason}", path=path, reason=why),
        _("check its owner: `ls -l {path}`", path=path),
    )
