"""A real Docker engine and a real registry of the tests' own, and a small real Debian with a Python as an image.

    def test_something(engine: Engine, registry: Registry, python_image: str) -> None: ...

`engine` and `registry` live as long as the session.  A test that wants an odd one takes `running_engine(...)` or
`running_registry()`.  Everything stands in one folder below /tmp, runs in a mount namespace of its own, and ends with
us, even when we are killed; a folder that a killed session left is swept away by the next.
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
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Engine:
    """A running dockerd; `url` is what DOCKER_HOST wants, `root` its data, `pid` the daemon's own."""

    folder: Path
    root: Path
    pid: int

    @property
    def socket(self) -> Path:
        return self.folder / "s"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a child that shall use this engine, and nobody's stored credentials."""
        return {**os.environ, "DOCKER_HOST": self.url, "DOCKER_CONFIG": str(self.folder)}

    def docker(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """The docker command against this engine."""
        done = subprocess.run(
            ["docker", *words], env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert not check or done.returncode == 0, done.stderr
        return done


@dataclass(frozen=True)
class Registry:
    """A running registry; `address` is HOST:PORT, the first part of its images' names."""

    folder: Path
    address: str
    pid: int

    @property
    def url(self) -> str:
        return f"http://{self.address}"


def why_no_engine() -> str:
    """Why no engine can be started here; "" when one can."""
    if os.geteuid() != 0:
        return "an engine of our own needs root"
    missing = [name for name in ("dockerd", "docker", "runc", "docker-registry", "ip") if not shutil.which(name)]
    if missing:
        return f"{', '.join(missing)} is not installed: tests/system-packages.sh"
    mount = ["unshare", "--mount", "--propagation", "slave", "mount", "-t", "tmpfs", "none", "/mnt"]
    refused = subprocess.run(mount, capture_output=True).returncode
    return "an engine of our own needs a machine that lets root mount" if refused else ""


def needs_engine() -> None:
    """Skip the test where no engine can be started."""
    not_in_fast("a container engine")
    if why := why_no_engine():
        pytest.skip(why)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder with a short path, removed with all that is mounted below it; the owner's pid stands in it."""
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
    folder.chmod(0o711)  # whether somebody may use the engine, its socket decides
    (folder / "owner").write_text(str(os.getpid()))
    try:
        yield folder
    finally:
        _remove(folder)


@contextlib.contextmanager
def running_engine(*options: str, root: Path | None = None, space: str = "") -> Iterator[Engine]:
    """A dockerd with its own socket, data folder, bridge and cgroup; `root`: its data stand there instead.

    `space`: in this network namespace, without a bridge.
    """
    needs_engine()
    with scratch() as folder, contextlib.nullcontext("none") if space else _bridge() as bridge:
        data = root or folder / "data"
        words = (
            *("dockerd", "--data-root", str(data), "--exec-root", str(folder / "x"), "--pidfile", str(folder / "pid")),
            *("--host", f"unix://{folder / 's'}", "--bridge", bridge, "--iptables=false", "--ip6tables=false"),
            *("--ip-forward=false", "--ip-masq=false", "--cgroup-parent", f"/{folder.name}"),
            *("--add-runtime", f"trimmed={WRAPPER}", "--default-runtime", "trimmed", "--shutdown-timeout", "2"),
        )
        with _etc_docker(), (folder / "log").open("wb") as log:
            there = ["nsenter", f"--net=/run/netns/{space}"] if space else []
            child = _start([*there, *_with_private_mounts([*words, *options])], log)
            try:
                _wait_for(lambda: _answers(folder / "s"), child, folder / "log")
                yield Engine(folder, data, child.pid)
            finally:
                _remove_containers(folder / "s")
                child.kill()  # nothing of it is kept; asked to end, 20.10 at times waits for ever
                child.wait()
                _end_below(folder)
                _remove_cgroup(folder.name)


@contextlib.contextmanager
def running_registry() -> Iterator[Registry]:
    """An empty registry on a free port of loopback, without TLS, as engines take it from loopback alone."""
    needs_engine()
    with scratch() as folder:
        address = f"127.0.0.1:{free_port()}"
        config = folder / "config.yml"
        config.write_text(
            f"version: 0.1\nlog: {{level: warn, accesslog: {{disabled: true}}}}\n"
            f"storage: {{filesystem: {{rootdirectory: {folder / 'data'}}}, delete: {{enabled: true}}}}\n"
            f"http: {{addr: '{address}'}}\n"
        )
        with (folder / "log").open("wb") as log:
            child = _start(["docker-registry", "serve", str(config)], log)
            try:
                _wait_for(lambda: _serves(f"http://{address}/v2/"), child, folder / "log")
                yield Registry(folder, address, child.pid)
            finally:
                _end(child)


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The session's engine.  Tests give their containers and tags names of their own and leave others' alone."""
    with running_engine() as made:
        yield made


@pytest.fixture(scope="session")
def registry() -> Iterator[Registry]:
    """The session's registry, empty at first."""
    with running_registry() as made:
        yield made


@pytest.fixture(scope="session")
def python_image(registry: Registry) -> str:
    """A reference in the session's registry, not pulled yet: Debian with python3, pip, venv, git and a C++ runtime.

    `python` and `python3` are Debian's, pip may install into it as into the vendors' images.
    """
    reference = f"{registry.address}/envcheck/python:debian12"
    image_parts.push(reference, [image_parts.debian()], config=image_parts.PYTHON_CONFIG)
    return reference


@pytest.fixture(scope="session")
def python_image_here(engine: Engine, python_image: str) -> str:
    """The same, pulled into the session's engine."""
    engine.docker("pull", "--quiet", python_image)
    return python_image


def free_port() -> int:
    """A port of loopback that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(argv: Sequence[str], log: object) -> subprocess.Popen[bytes]:
    """In a session of its own; asked to end when the thread that started it ends."""
    libc = ctypes.CDLL(None)

    def follow_us() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    clean = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
    return subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=follow_us, env=clean
    )


def _with_private_mounts(argv: Sequence[str]) -> list[str]:
    """What the engine mounts, the machine does not see, and the engine's own files in /etc/docker go nowhere."""
    script = 'mount -t tmpfs none /etc/docker && exec "$@"'
    return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script, "sh", *argv]


@contextlib.contextmanager
def _etc_docker() -> Iterator[None]:
    """dockerd makes /etc/docker in any case."""
    folder, there = Path("/etc/docker"), Path("/etc/docker").is_dir()
    folder.mkdir(exist_ok=True)
    yield
    if not there:
        with contextlib.suppress(OSError):
            folder.rmdir()


@contextlib.contextmanager
def _bridge() -> Iterator[str]:
    """A bridge of our own.  Where the machine has a docker0, that one: any other word makes dockerd delete it."""
    if Path("/sys/class/net/docker0").exists():
        yield "docker0"
        return
    name = f"ec{os.getpid()}x{free_port()}"  # at most 15 letters; the owner's pid, for the sweep
    _ip("link", "add", name, "type", "bridge")
    try:
        _ip("address", "add", f"{_free_network()}.1/24", "dev", name)
        _ip("link", "set", name, "up")
        yield name
    finally:
        _ip("link", "delete", name)


def _free_network() -> str:
    """The first three numbers of a network that no interface of this machine has."""
    said = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=True).stdout
    words = (line.split() for line in said.splitlines())
    taken = [ipaddress.ip_network(word[3], strict=False) for word in words]
    start = os.getpid() % 200
    for number in [*range(start, 250), *range(start)]:
        wanted = ipaddress.ip_network(f"10.211.{number}.0/24")
        if not any(wanted.overlaps(network) for network in taken):
            return f"10.211.{number}"
    raise AssertionError("no network is free below 10.211")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _answers(path: Path) -> bool:
    """Whether an engine answers on the socket."""
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(2)
            link.connect(str(path))
            link.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
            return b" 200 " in link.recv(100)
    except OSError:
        return False


def _serves(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).status_code == 200
    except requests.RequestException:
        return False


def _wait_for(ready: Callable[[], bool], child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not ready():
        if child.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"it did not start:\n{log.read_text(errors='replace')[-2000:]}", pytrace=False)
        time.sleep(0.05)


def _remove_containers(path: Path) -> None:
    """By force: dockerd would wait for each of them."""
    argv = ["docker", "-H", f"unix://{path}"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        there = subprocess.run([*argv, "ps", "-aq"], capture_output=True, text=True, timeout=20).stdout.split()
        if there:
            subprocess.run([*argv, "rm", "--force", *there], capture_output=True, timeout=60)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _end_below(folder: Path) -> None:
    """Kill what was left of an engine: containerd by its pid file, shims by the folder in their command line."""
    for own in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (own / "cmdline").read_bytes()
            if (
                f"{folder}/".encode() in words
                and b"container" in words.split(b"\0")[0]
                and own.name != str(os.getpid())
            ):
                os.kill(int(own.name), signal.SIGKILL)


def _remove(folder: Path) -> None:
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for path in sorted((m for m in mounted if m.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", path], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=False, capture_output=True)


def _remove_cgroup(name: str) -> None:
    for top in [*Path("/sys/fs/cgroup").glob(name), *Path("/sys/fs/cgroup").glob(f"*/{name}")]:
        for path in sorted([top, *(p for p in top.rglob("*") if p.is_dir())], reverse=True):
            with contextlib.suppress(OSError):
                path.rmdir()


def _sweep() -> None:
    """What a session that was killed has left: its processes got its end as theirs, the rest goes here."""
    for bridge in Path("/sys/class/net").glob("ec*x*"):
        owner = re.fullmatch(r"ec(\d+)x\d+", bridge.name)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            with contextlib.suppress(subprocess.CalledProcessError):  # another session sweeps as well
                _ip("link", "delete", bridge.name)
    for folder in Path("/tmp").glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            owner = int((folder / "owner").read_text())
            if not Path(f"/proc/{owner}").exists():
                _end_below(folder)
                _remove_cgroup(folder.name)
                _remove(folder)
