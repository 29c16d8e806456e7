"""The engine, the registry and the image that the tests bring along."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.installers.images.engine_parts import Engine, running_engine

pytestmark = pytest.mark.real


def test_the_image_has_a_python(engine: Engine, python_image_here: str) -> None:
    """A container of the image runs Python, has pip, venv and git, and sees the host's loopback where it is told to."""
    script = "import sys, venv, ensurepip; print(sys.version_info >= (3, 10))"

    said = engine.docker(
        *("run", "--rm", "--network=host", python_image_here),
        *("sh", "-c", f"python -c '{script}' && python3 -m pip --version && git --version"),
    )

    assert said.stdout.startswith("True\npip ")


def test_privileged_as_the_vendors_write_it(engine: Engine, python_image_here: str) -> None:
    """What this machine cannot grant is left out of --privileged, and nothing else: shm, host network, all devices."""
    words = ("--privileged", "--cap-add=ALL", "--network=host", "--pid=host", "--shm-size=128g", "-v", "/dev:/dev")

    said = engine.docker("run", "--rm", *words, python_image_here, "grep", "CapBnd", "/proc/self/status")

    assert int(said.stdout.split()[1], 16) & (1 << 21), "SYS_ADMIN is among them"


def test_a_bridge_and_ports(engine: Engine, python_image_here: str) -> None:
    """A container without a word about its network gets a bridge and can be reached by a port."""
    name = "parts-port"

    engine.docker("run", "--detach", "--name", name, "--publish", "127.0.0.1::80", python_image_here, "sleep", "60")

    assert engine.docker("port", name).stdout.startswith("80/tcp -> 127.0.0.1:")
    engine.docker("rm", "--force", name)


def test_nothing_is_left() -> None:
    """An engine that ended leaves no folder, bridge, mount, cgroup or process."""
    interfaces = set(Path("/sys/class/net").iterdir())

    with running_engine() as made:
        assert made.docker("info").returncode == 0

    assert not made.folder.exists()
    assert set(Path("/sys/class/net").iterdir()) == interfaces
    assert made.folder.name not in Path("/proc/self/mounts").read_text()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{made.folder.name}"))
    assert not any(
        str(made.folder) in (own / "cmdline").read_text() for own in Path("/proc").glob("[0-9]*") if _lives(own)
    )


def _lives(own: Path) -> bool:
    try:
        return bool((own / "cmdline").read_text())
    except (OSError, UnicodeDecodeError):
        return False
