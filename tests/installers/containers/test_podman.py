"""A real Podman through its Docker API, as root and as an ordinary user: provision, repeat, undo."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from envcheck.payload import pyz
from tests.installers.containers.user_parts import make_user
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


def run_as(
    user: pwd.struct_passwd, argv: list[str], env: dict[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=folder, env=env, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
        capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_an_ordinary_user_with_rootless_podman(registry: LocalRegistry, python_image: str, tmp_path: Path) -> None:
    """A user's own Podman provisions a recipe that it can run; what it cannot give is refused before the pull."""
    require_engine()
    for program in ("podman", "newuidmap"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed: tests/system-packages.sh")
    write_wheel(tmp_path / "index", "first", "1.0")
    write_wheel(tmp_path / "index", "second", "2.1")
    with make_user() as user, make_scratch() as folder, serve_index(tmp_path / "index") as index:
        folder.chmod(0o755)
        (work := folder / "w").mkdir()
        box = ContainerCommand(DockerEngine(folder, folder, 0), python_image, index.base_url, work)
        recipe = work / "recipes" / "boxed.toml"
        (work / "registries.conf").write_text(f'[[registry]]\nlocation = "{registry.address}"\ninsecure = true\n')
        (run := work / "run").mkdir(mode=0o700)
        (work / "envcheck.pyz").write_bytes(pyz.build_payload().data)  # the user may not read this checkout
        for path in (work, *work.rglob("*")):
            os.chown(path, user.pw_uid, user.pw_gid)
        own = {"HOME": user.pw_dir, "XDG_RUNTIME_DIR": str(run), "PATH": os.environ["PATH"]}
        own |= {"CONTAINERS_REGISTRIES_CONF": str(work / "registries.conf")}
        socket = f"unix://{work}/s"
        argv = ["podman", "--root", str(work / "data"), "--runroot", str(run / "c"), "--cgroup-manager", "cgroupfs"]
        argv += ["--runtime", str(WRAPPER), "system", "service", "--time=0", socket]
        env = {**own, "NO_COLOR": "1", "DOCKER_HOST": socket, "ENVCHECK_HOME": str(work / "home")}
        words = [shutil.which("python3", path="/usr/bin:/bin") or "python3", str(work / "envcheck.pyz")]
        command = [*words, *box.make_argv("--yes")[3:]]
        with (folder / "log").open("wb") as log:
            service = subprocess.Popen(
                argv, cwd=work, env=own, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
            try:
                wait_until((work / "s").exists, 60)
                plain = recipe.read_text()
                recipe.write_text(plain.replace('network = "host"', 'network = "host"\nulimits = { memlock = "-1" }'))
                refused = run_as(user, command, env, work)
                recipe.write_text(plain)
                done = run_as(user, command, env, work)
                again = run_as(user, command, env, work)
                undone = run_as(user, [*command, "--undo"], env, work)
            finally:
                service.terminate()
                service.wait()

    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "rootless Podman cannot give a container unlimited locked memory" in refused.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing to do" in again.stdout, again.stdout + again.stderr
    assert undone.returncode == 0, undone.stderr
