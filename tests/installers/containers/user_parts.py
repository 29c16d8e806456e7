"""An ordinary user of the test machine, for engines that run without root."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

USER = "envcheck-rootless"


@contextlib.contextmanager
def make_user() -> Iterator[pwd.struct_passwd]:
    """An ordinary user with subordinate ids, removed at the end with the processes that Podman leaves."""
    remove_user()
    subprocess.run(["useradd", "--create-home", USER], check=True, capture_output=True)
    try:
        yield pwd.getpwnam(USER)
    finally:
        remove_user()


def remove_user() -> None:
    with contextlib.suppress(KeyError):
        number = pwd.getpwnam(USER).pw_uid
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if folder.stat().st_uid == number:
                    os.kill(int(folder.name), signal.SIGKILL)
        subprocess.run(["userdel", "--remove", "--force", USER], capture_output=True, check=False)
