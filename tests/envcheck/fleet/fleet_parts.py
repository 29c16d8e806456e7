"""Hosts for the tests of many machines: network namespaces with a real sshd each, and a user who knows their keys."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from envcheck.simulate import faults, session
from envcheck.simulate import machine_file as described
from tests.tiers import not_in_fast

ROOT = Path(__file__).parents[3]
# The usual preference of OpenSSH 9 costs 75 ms of computing on each side; these hosts share two cores.
QUICK = "KexAlgorithms curve25519-sha256"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Host:
    """One namespace: an address, a home, a machine that is simulated, and a sshd that knows nothing of the others."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self.number, self.name = number, f"node{number:02d}"
        self.space, self.address = f"{fleet.tag}n{number}", f"{fleet.net}.{number}"
        self.folder = fleet.folder / self.name
        self.home, self.bin, self.sysroot = self.folder / "home", self.folder / "bin", self.folder / "machine"
        self.variables: dict[str, str] = {}
        self.settings: tuple[str, ...] = ()  # of its sshd, before the usual ones
        self.before = ""  # what a shell does where the sshd will be: mounts are its own
        self.child: subprocess.Popen[bytes] | None = None

    def start(self, keys: Path) -> None:
        """The sshd, with the variables as they are now; its children see its own home and tools first."""
        given = {"HOME": self.home, "XDG_CACHE_HOME": self.home / ".cache", "ENVCHECK_SYSROOT": self.sysroot}
        own = {name: str(value) for name, value in {**given, "PATH": self._path(), **self.variables}.items() if value}
        lines = [
            *self.settings, f"ListenAddress {self.address}", f"HostKey {self.folder / 'key'}",
            f"AuthorizedKeysFile {keys}.pub",
            f"PidFile {self.folder / 'sshd.pid'}", "StrictModes no", "UsePAM no", "PasswordAuthentication no",
            "PermitRootLogin prohibit-password", "UseDNS no", "MaxStartups 200", "PrintMotd no",
            "SetEnv " + " ".join(f'"{name}={value}"' for name, value in own.items()),
        ]  # fmt: skip
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")
        inside = f"hostname {self.name}; {self.before or ':'}; exec {_sshd()} -D -e -f {self.folder / 'sshd_config'}"
        with (self.folder / "log").open("wb") as log:
            self.child = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.space}", "unshare", "-m", "-u", "--propagation", "private",
                 "sh", "-ec", inside], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        """As if its sshd had died, with what it had started."""
        if self.child is None:
            return
        for pid in subprocess.run(
            ["ip", "netns", "pids", self.space], capture_output=True, text=True, check=False
        ).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        self.child.wait()
        self.child = None

    def _path(self) -> str:
        return os.pathsep.join([str(self.bin), str(Path(sys.executable).parent), "/usr/bin", "/bin"])

    def tool(self, name: str, text: str) -> None:
        """A program that is found before all others."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def login_script(self, text: str) -> None:
        """bash reads it before a command that comes by ssh."""
        (self.home / ".bashrc").write_text(text)

    def running(self) -> list[int]:
        done = subprocess.run(["ip", "netns", "pids", self.space], capture_output=True, text=True, check=False)
        return [int(pid) for pid in done.stdout.split()]


class Fleet:
    """Hosts on one bridge; `home` is that of a user whose ssh configuration knows them all by name."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.tag = folder, f"ef{os.getpid() % 100000}"
        self.net = f"10.{120 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self.home, self.key = folder / "user", folder / "user" / ".ssh" / "id_test"
        self.hosts = [Host(self, n + 1) for n in range(size)]

    def up(self, machine: str) -> None:
        self.key.parent.mkdir(parents=True, mode=0o700)
        _keygen(self.key)
        ip("link", "add", self.tag, "type", "bridge")
        ip("addr", "add", f"{self.net}.254/24", "dev", self.tag)
        ip("link", "set", self.tag, "up")
        for host in self.hosts:
            self._make(host, machine)
        self.know(self.hosts)
        self.configure()
        for host in self.hosts:
            host.start(self.key)
        for host in self.hosts:
            self.wait(host)

    def _make(self, host: Host, machine: str) -> None:
        for folder in (host.home, host.bin):
            folder.mkdir(parents=True)
        _keygen(host.folder / "key")
        simulate(host, machine)
        ip("netns", "add", host.space)
        end = f"{self.tag}v{host.number}"
        ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", host.space)
        ip("link", "set", end, "master", self.tag, "up")
        ip("-n", host.space, "addr", "add", f"{host.address}/24", "dev", "eth0")
        ip("-n", host.space, "link", "set", "eth0", "up")
        ip("-n", host.space, "link", "set", "lo", "up")

    def know(self, hosts: Sequence[Host]) -> None:
        """The user's known_hosts, with the keys of these."""
        lines = [f"{host.address} {' '.join((host.folder / 'key.pub').read_text().split()[:2])}" for host in hosts]
        (self.key.parent / "known_hosts").write_text("\n".join(lines) + "\n")

    def configure(self, more: str = "") -> None:
        """ssh reads the configuration of the user's entry in /etc/passwd, whatever HOME says: an ssh of our own first
        on PATH, as sites have wrappers, names the file."""
        blocks = [f"Host {host.name}\n  HostName {host.address}\n" for host in self.hosts]
        general = f"Host *\n  IdentityFile {self.key}\n  UserKnownHostsFile {self.key.parent}/known_hosts\n  {QUICK}\n"
        (self.key.parent / "config").write_text(more + "".join(blocks) + general)
        wrapper = self.home / "bin" / "ssh"
        wrapper.parent.mkdir(exist_ok=True)
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.key.parent}/config "$@"\n')
        wrapper.chmod(0o755)

    def wait(self, host: Host) -> None:
        import socket

        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection((host.address, 22), 1):
                return
            time.sleep(0.05)
        pytest.fail(f"{host.name} did not come up: {(host.folder / 'log').read_text()}", pytrace=False)

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.home / "bin"), os.environ["PATH"]])
        return {**os.environ, "HOME": str(self.home), "PATH": path, "COLUMNS": "100"}

    def run(self, *words: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "envcheck", *words], cwd=ROOT, env=self.environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def down(self) -> None:
        for host in self.hosts:
            host.stop()
            subprocess.run(["ip", "netns", "delete", host.space], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", self.tag], check=False, capture_output=True)


def simulate(host: Host, machine: str, *wishes: str) -> None:
    """The host becomes this machine, with these faults."""
    shutil.rmtree(host.sysroot, ignore_errors=True)
    ready = faults.apply(described.load(machine, None), [faults.asked(wish) for wish in wishes])
    with session.written(ready, host.sysroot):
        pass


def _keygen(path: Path) -> None:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(argv, check=True, capture_output=True)


def _sshd() -> str:
    return shutil.which("sshd", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])) or ""


@contextlib.contextmanager
def fleet(folder: Path, size: int, machine: str) -> Iterator[Fleet]:
    """Skips where a machine cannot have such hosts."""
    not_in_fast("a fleet of hosts with sshd")
    if os.geteuid() or not shutil.which("ip") or not shutil.which("unshare") or not _sshd():
        pytest.skip("hosts as network namespaces want root, ip (iproute2), unshare and sshd")
    Path("/run/sshd").mkdir(exist_ok=True)
    made = Fleet(folder, size)
    try:
        made.up(machine)
        yield made
    finally:
        made.down()
