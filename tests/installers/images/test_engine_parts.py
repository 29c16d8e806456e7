"""The engine, registry and image for tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.installers.images.engine_parts import DockerEngine, start_engine

pytestmark = pytest.mark.real


def test_the_image_has_a_python(engine: DockerEngine, python_image_here: str) -> None:
    """A container of the image runs Python, has pip, venv and git, and sees the host's loopback if requested."""
    script = "import sys, venv, ensurepip; print(sys.version_info >= (3, 10))"

    said = engine.run_docker(
        *("run", "--rm", "--network=host", python_image_here),
        *("sh", "-c", f"python -c '{script}' && python3 -m pip --version && git --version"),
    )

    assert said.stdout.startswith("True\npip ")


def test_privileged_as_the_vendors_write_it(engine: DockerEngine, python_image_here: str) -> None:
    """Only what this machine cannot grant is removed from --privileged: shm, host network and devices stay."""
    words = ("--privileged", "--cap-add=ALL", "--network=host", "--pid=host", "--shm-size=128g", "-v", "/dev:/dev")

    said = engine.run_docker("run", "--rm", *words, python_image_here, "grep", "CapBnd", "/proc/self/status")

    assert int(said.stdout.split()[1], 16) & (1 << 21), "SYS_ADMIN is among them"


def test_a_bridge_and_ports(engine: DockerEngine, python_image_here: str) -> None:
    """A container without network options gets a bridge, and its ports can be reached."""
    name = "parts-port"

    engine.run_docker("run", "--detach", "--name", name, "--publish", "127.0.0.1::80", python_image_here, "sleep", "60")

    assert engine.run_docker("port", name).stdout.startswith("80/tcp -> 127.0.0.1:")
    engine.run_docker("rm", "--force", name)


def test_nothing_is_left() -> None:
    """An engine that ended leaves no folder, bridge, mount, cgroup or process."""
    own = f"ec{os.getpid()}x*"  # bridges of this process: other engines come and go meanwhile
    bridges = set(Path("/sys/class/net").glob(own))

    with start_engine() as made:
        assert made.run_docker("info").returncode == 0

    assert not made.folder.exists()
    assert set(Path("/sys/class/net").glob(own)) == bridges
    assert made.folder.name not in Path("/proc/self/mounts").read_text()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{made.folder.name}"))
    assert not any(
        str(made.folder) in (own / "cmdline").read_text() for own in Path("/proc").glob("[0-9]*") if _is_alive(own)
    )


def _is_alive(own: Path) -> bool:
    try:
        return bool((own / "cmdline").read_text())
    except (OSError, UnicodeDecodeError):
        return False
