"""A real Docker engine and registry for tests, and a small Debian with Python as an image.

    def test_something(engine: DockerEngine, registry: LocalRegistry, python_image: str) -> None: ...

`engine` and `registry` live as long as the session.  A test that needs a special one uses `start_engine(...)` or
`start_registry()`.  All files are in one folder below /tmp; the processes run in their own mount namespace and end
with the session, even if it is killed.  The folder of a killed session is removed by the next one.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.installers.images import image_parts
from tests.tiers import not_in_fast

WRAPPER = Path(__file__).with_name("runc_trimmed.py")
PREFIX = "envcheck-engine-"  # short: the path of a unix socket has at most 107 bytes
READY_S = 60.0  # a second on an idle machine
END_S = 6.0  # then by force
LAID_OVER = ("dev", "etc", "usr/lib", "usr/local", "var/log")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class DockerEngine:
    """A running dockerd; `docker_host` is for DOCKER_HOST, `root` its data folder, `pid` that of the daemon."""

    folder: Path
    root: Path
    pid: int

    @property
    def socket_path(self) -> Path:
        return self.folder / "s"

    @property
    def docker_host(self) -> str:
        return f"unix://{self.socket_path}"

    @property
    def log_path(self) -> Path:
        return self.folder / "log"

    @property
    def child_environment(self) -> dict[str, str]:
        """Return the environment of a child process for this engine, without stored credentials."""
        return {**os.environ, "DOCKER_HOST": self.docker_host, "DOCKER_CONFIG": str(self.folder)}

    def run_docker(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the docker command with this engine."""
        done = subprocess.run(
            ["docker", *words], env=self.child_environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert not check or done.returncode == 0, done.stderr
        return done


@dataclass(frozen=True)
class LocalRegistry:
    """A running registry; `address` is HOST:PORT, the first part of its image names."""

    folder: Path
    address: str
    pid: int

    @property
    def base_url(self) -> str:
        return f"http://{self.address}"


def find_engine_obstacle() -> str:
    """Return why no engine can be started here; "" if one can."""
    if os.geteuid() != 0:
        return "an engine of our own needs root"
    missing = [name for name in ("dockerd", "docker", "runc", "docker-registry", "ip") if not shutil.which(name)]
    if missing:
        return f"{', '.join(missing)} is not installed: tests/system-packages.sh"
    mount = ["unshare", "--mount", "--propagation", "slave", "mount", "-t", "tmpfs", "none", "/mnt"]
    refused = subprocess.run(mount, capture_output=True).returncode
    return "an engine of our own needs a machine that lets root mount" if refused else ""


def require_engine() -> None:
    """Skip the test if no engine can be started."""
    not_in_fast("a container engine")
    if why := find_engine_obstacle():
        pytest.skip(why)


@contextlib.contextmanager
def make_scratch() -> Iterator[Path]:
    """A folder with a short path, removed with everything mounted below it; it contains the owner's pid."""
    _sweep_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
    folder.chmod(0o711)  # whether somebody may use the engine, its socket decides
    (folder / "owner").write_text(str(os.getpid()))
    try:
        yield folder
    finally:
        _remove_folder(folder)


@contextlib.contextmanager
def start_engine(
    *options: str, root: Path | None = None, space: str = "", overlay: Path | None = None
) -> Iterator[DockerEngine]:
    """A dockerd with its own socket, data folder, bridge and cgroup; with `root` its data is stored there.

    With `space` it runs in this network namespace, without a bridge; with `overlay` it sees the files and device nodes
    of that folder among the machine's own.
    """
    require_engine()
    with make_scratch() as folder, contextlib.nullcontext("none") if space else _make_bridge() as bridge:
        data = root or folder / "data"
        words = (
            *("dockerd", "--data-root", str(data), "--exec-root", str(folder / "x"), "--pidfile", str(folder / "pid")),
            *("--host", f"unix://{folder / 's'}", "--bridge", bridge, "--iptables=false", "--ip6tables=false"),
            *("--ip-forward=false", "--ip-masq=false", "--cgroup-parent", f"/{folder.name}"),
            *("--add-runtime", f"trimmed={WRAPPER}", "--default-runtime", "trimmed", "--shutdown-timeout", "2"),
        )
        with _keep_etc_docker(), (folder / "log").open("wb") as log:
            there = ["nsenter", f"--net=/run/netns/{space}"] if space else []
            child = _start_process([*there, *_add_private_mounts([*words, *options], overlay)], log)
            try:
                _wait_for(lambda: _is_answering(folder / "s"), child, folder / "log")
                yield DockerEngine(folder, data, child.pid)
            finally:
                _remove_containers(folder / "s")
                child.kill()  # nothing of it is kept; asked to end, 20.10 at times waits for ever
                child.wait()
                _end_processes_below(folder)
                _remove_cgroup(folder.name)


@contextlib.contextmanager
def start_registry(host: str = "127.0.0.1", storage: Path | None = None, more: str = "") -> Iterator[LocalRegistry]:
    """An empty registry on a free port, without TLS, which engines accept on loopback only.

    `storage` is the data folder of another registry, `more` more YAML of its configuration, such as that of TLS.
    """
    require_engine()
    with make_scratch() as folder:
        address = f"{host}:{find_free_port()}"
        config = folder / "config.yml"
        config.write_text(
            f"version: 0.1\nlog: {{level: warn, accesslog: {{disabled: true}}}}\n"
            f"storage: {{filesystem: {{rootdirectory: {storage or folder / 'data'}}}, delete: {{enabled: true}}}}\n"
            f"http:\n  addr: '{address}'\n{more}"
        )
        with (folder / "log").open("wb") as log:
            child = _start_process(["docker-registry", "serve", str(config)], log)
            try:
                _wait_for(lambda: _is_serving(address), child, folder / "log")
                yield LocalRegistry(folder, address, child.pid)
            finally:
                _end_process(child)


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerEngine]:
    """The session's engine.  Tests use unique names for containers and tags."""
    with start_engine() as made:
        yield made


@pytest.fixture(scope="session")
def registry() -> Iterator[LocalRegistry]:
    """The session's registry, initially empty."""
    with start_registry() as made:
        yield made


@pytest.fixture(scope="session")
def python_image(registry: LocalRegistry) -> str:
    """A reference in the session's registry, not pulled yet: Debian with python3, pip, venv, git and a C++ runtime.

    `python` and `python3` are Debian's; pip may install into it, as in the vendors' images.
    """
    reference = f"{registry.address}/envcheck/python:debian12"
    image_parts.push_image(reference, [image_parts.load_debian()], config=image_parts.PYTHON_CONFIG)
    return reference


@pytest.fixture(scope="session")
def python_image_here(engine: DockerEngine, python_image: str) -> str:
    """The same image, pulled into the session's engine."""
    engine.run_docker("pull", "--quiet", python_image)
    return python_image


def find_free_port() -> int:
    """Return a loopback port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start_process(argv: Sequence[str], log: object) -> subprocess.Popen[bytes]:
    """Start a process in its own session; it gets a signal when the thread that started it ends."""
    libc = ctypes.CDLL(None)

    def follow_us() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    clean = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
    return subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=follow_us, env=clean
    )


def _add_private_mounts(argv: Sequence[str], overlay: Path | None = None) -> list[str]:
    """Start a mount namespace: mounts of the engine are invisible to the machine, and /etc/docker is its own."""
    laid = [name for name in LAID_OVER if overlay and (overlay / name).is_dir()]
    mounts = [f"mount -t overlay -o lowerdir={overlay}/{name}:/{name} none /{name}" for name in laid]
    mounts += (
        ["mount -t devpts -o ptmxmode=0666 none /dev/pts", "mount -t tmpfs none /dev/shm"] if "dev" in laid else []
    )
    script = " && ".join([*mounts, 'mount -t tmpfs none /etc/docker && exec "$@"'])
    return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script, "sh", *argv]


@contextlib.contextmanager
def _keep_etc_docker() -> Iterator[None]:
    """dockerd always creates /etc/docker."""
    folder, there = Path("/etc/docker"), Path("/etc/docker").is_dir()
    folder.mkdir(exist_ok=True)
    yield
    if not there:
        with contextlib.suppress(OSError):
            folder.rmdir()


@contextlib.contextmanager
def _make_bridge() -> Iterator[str]:
    """Return a bridge name.  If the machine has docker0, use that: with any other option dockerd would delete it."""
    if Path("/sys/class/net/docker0").exists():
        yield "docker0"
        return
    name = f"ec{os.getpid()}x{find_free_port()}"  # at most 15 letters; the owner's pid, for the sweep
    _run_ip("link", "add", name, "type", "bridge")
    try:
        _run_ip("address", "add", f"{_find_free_network()}.1/24", "dev", name)
        _run_ip("link", "set", name, "up")
        yield name
    finally:
        _run_ip("link", "delete", name)


def _find_free_network() -> str:
    """Return the first three numbers of a network that no interface of this machine uses."""
    said = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=True).stdout
    words = (line.split() for line in said.splitlines())
    taken = [ipaddress.ip_network(word[3], strict=False) for word in words]
    start = os.getpid() % 200
    for number in [*range(start, 250), *range(start)]:
        wanted = ipaddress.ip_network(f"10.211.{number}.0/24")
        if not any(wanted.overlaps(network) for network in taken):
            return f"10.211.{number}"
    raise AssertionError("no network is free below 10.211")


def _run_ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _is_answering(path: Path) -> bool:
    """Return whether an engine answers on the socket."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(2)
            link.connect(str(path))
            link.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
            return b" 200 " in link.recv(100)
    except OSError:
        return False


def _is_serving(address: str) -> bool:
    try:
        return requests.get(f"http://{address}/v2/", timeout=2).status_code in (200, 400)  # 400: TLS is expected
    except requests.RequestException:
        return False


def _wait_for(ready: Callable[[], bool], child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not ready():
        if child.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"it did not start:\n{log.read_text(errors='replace')[-2000:]}", pytrace=False)
        time.sleep(0.05)


def _remove_containers(path: Path) -> None:
    """Remove all containers by force; otherwise dockerd would wait for each of them."""
    argv = ["docker", "-H", f"unix://{path}"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        there = subprocess.run([*argv, "ps", "-aq"], capture_output=True, text=True, timeout=20).stdout.split()
        if there:
            subprocess.run([*argv, "rm", "--force", *there], capture_output=True, timeout=60)


def _end_process(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _end_processes_below(folder: Path) -> None:
    """Kill what an engine left: containerd by its pid file, shims by the folder in their command line."""
    for own in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (own / "cmdline").read_bytes()
            if (
                f"{folder}/".encode() in words
                and b"container" in words.split(b"\0")[0]
                and own.name != str(os.getpid())
            ):
                os.kill(int(own.name), signal.SIGKILL)


def _remove_folder(folder: Path) -> None:
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for path in sorted((m for m in mounted if m.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", path], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=False, capture_output=True)


def _remove_cgroup(name: str) -> None:
    for top in [*Path("/sys/fs/cgroup").glob(name), *Path("/sys/fs/cgroup").glob(f"*/{name}")]:
        for path in sorted([top, *(p for p in top.rglob("*") if p.is_dir())], reverse=True):
            with contextlib.suppress(OSError):
                path.rmdir()


def _sweep_leftovers() -> None:
    """Remove what a killed session left; its processes have already ended with it."""
    for bridge in Path("/sys/class/net").glob("ec*x*"):
        owner = re.fullmatch(r"ec(\d+)x\d+", bridge.name)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            with contextlib.suppress(subprocess.CalledProcessError):  # another session sweeps as well
                _run_ip("link", "delete", bridge.name)
    for folder in Path("/tmp").glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            owner = int((folder / "owner").read_text())
            if not Path(f"/proc/{owner}").exists():
                _end_processes_below(folder)
                _remove_cgroup(folder.name)
                _remove_folder(folder)
