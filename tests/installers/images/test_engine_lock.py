"""The lock shared by all users of an engine, and the pattern that identifies a container's commands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from envcheck.core.errors import EnvcheckError
from installers.images import engine_lock
from installers.targets.exec_target import END, MARK

URL = "unix:///nobody/listens"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the mode of /tmp."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(engine_lock, "PLACES", (tmp_path,))
    return tmp_path


def test_one_at_a_time(place: Path) -> None:
    """A second run in the same container is refused, one in another is not; the lock ends with its holder."""
    with engine_lock.hold_lock(URL, "c"):
        with (
            pytest.raises(EnvcheckError, match=r"another envcheck process is working in container c$"),
            engine_lock.hold_lock(URL, "c"),
        ):
            pass
        with engine_lock.hold_lock(URL, "c2"), engine_lock.hold_lock("tcp://other:2375", "c"):
            pass
    with engine_lock.hold_lock(URL, "c"):
        assert engine_lock.lock_path(URL, "c").stat().st_mode & 0o777 == 0o644


def test_a_socket_has_one_lock(place: Path) -> None:
    """An engine is the same by whatever link its socket is named."""
    (place / "link").symlink_to(place)

    assert engine_lock.lock_path(f"unix://{place}/link/s", "c") == engine_lock.lock_path(f"unix://{place}/s", "c")


@pytest.mark.parametrize("trap", ("link", "pipe", "folder"))
def test_traps(trap: str, place: Path) -> None:
    """Files of other users at the path are not followed or waited for, and nothing is created through a link."""
    path = engine_lock.lock_path(URL, "c")
    if trap == "link":
        path.symlink_to(place / "victim")
    elif trap == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()

    with pytest.raises(EnvcheckError, match="cannot acquire the lock"), engine_lock.hold_lock(URL, "c"):
        pass
    assert not (place / "victim").exists()


def test_another_users_file(place: Path) -> None:
    """A lock file of another user is used, although sticky folders forbid O_CREAT on it."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = engine_lock.lock_path(URL, "c")
    path.touch(0o644)
    os.chown(path, 65534, 65534)

    with engine_lock.hold_lock(URL, "c"):
        pass


def test_only_the_commands_of_this_container(tmp_path: Path) -> None:
    """A container named `name` ends its own commands, not those of `name2` or `my-name`."""
    entries = {1: f"A=b\0{MARK}=name\0C=d\0", 2: f"{MARK}=name2\0", 3: f"X{MARK}=name\0", 4: f"A=b\0{MARK}=name"}
    for number, environ in entries.items():
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "environ").write_text(environ)
    script = 'kill() { echo "$2"; }\n' + END
    done = subprocess.run(
        ["sh", "-c", script, "sh", f"{MARK}=name", str(tmp_path)], capture_output=True, text=True, timeout=20
    )

    assert done.stdout.split() == ["1", "4", "1", "4"]
