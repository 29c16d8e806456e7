"""A real Podman, as root, through its Docker API: provision, repeat, undo."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.installers.images.engine_parts import WRAPPER, DockerEngine, LocalRegistry, make_scratch, require_engine
from tests.installers.provision_helpers import serve_index, wait_until, write_wheel
from tests.installers.test_container_provision import ContainerCommand

pytestmark = pytest.mark.extended


@pytest.fixture
def podman(registry: LocalRegistry) -> Iterator[DockerEngine]:
    """Podman's service with storage of its own; it accepts the test's registry without TLS."""
    require_engine()
    if not shutil.which("podman"):
        pytest.skip("podman is not installed: tests/system-packages.sh")
    with make_scratch() as folder:
        registries = folder / "registries.conf"
        registries.write_text(f'[[registry]]\nlocation = "{registry.address}"\ninsecure = true\n')
        own = ("--root", str(folder / "data"), "--runroot", str(folder / "run"), "--cgroup-manager", "cgroupfs")
        argv = ["podman", *own, "--runtime", str(WRAPPER), "system", "service", "--time=0", f"unix://{folder / 's'}"]
        env = {**os.environ, "CONTAINERS_REGISTRIES_CONF": str(registries)}
        with (folder / "log").open("wb") as log:
            service = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                wait_until((folder / "s").exists, 60)
                yield DockerEngine(folder, folder / "data", service.pid)
            finally:
                service.terminate()
                service.wait()


def test_provision_repeat_undo(podman: DockerEngine, python_image: str, tmp_path: Path) -> None:
    """The container is made as planned, a second run does nothing, an undo leaves nothing."""
    write_wheel(tmp_path / "index", "first", "1.0")
    write_wheel(tmp_path / "index", "second", "2.1")
    with serve_index(tmp_path / "index") as index:
        box = ContainerCommand(podman, python_image, index.base_url, tmp_path)
        done = box.run_command("--yes")
        again = box.run_command("--yes")
        undone = box.run_command("--yes", "--undo")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing to do" in again.stdout, again.stdout + again.stderr
    assert undone.returncode == 0, undone.stderr
    assert cast("str", podman.run_docker("ps", "-aq").stdout) == ""
    assert podman.run_docker("images", "-q").stdout == ""
