"""Hosts for fleet tests: network namespaces with a real sshd each, and a user who knows their keys."""

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

from envcheck.simulate import faults, simulated_run
from envcheck.simulate import machine_file as described
from tests.tiers import not_in_fast

ROOT = Path(__file__).parents[3]
# The usual preference of OpenSSH 9 costs 75 ms of computing on each side; these hosts share two cores.
QUICK = "KexAlgorithms curve25519-sha256"


def run_ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class SshHost:
    """A namespace with an address, a home, a simulated machine, and an sshd of its own."""

    def __init__(self, fleet: SshFleet, number: int) -> None:
        self.number, self.name = number, f"node{number:02d}"
        self.space, self.address = f"{fleet.tag}n{number}", f"{fleet.net}.{number}"
        self.folder = fleet.folder / self.name
        self.home, self.bin, self.sysroot = self.folder / "home", self.folder / "bin", self.folder / "machine"
        self.variables: dict[str, str] = {}
        self.settings: tuple[str, ...] = ()  # sshd settings, before the default ones
        self.before = ""  # shell commands before sshd starts, in its own mount namespace
        self.child: subprocess.Popen[bytes] | None = None

    def start_sshd(self, keys: Path) -> None:
        """Start sshd with the current variables; its children use the host's home and tools first."""
        given = {"HOME": self.home, "XDG_CACHE_HOME": self.home / ".cache", "ENVCHECK_SYSROOT": self.sysroot}
        own = {
            name: str(value) for name, value in {**given, "PATH": self._make_path(), **self.variables}.items() if value
        }
        lines = [
            *self.settings, f"ListenAddress {self.address}", f"HostKey {self.folder / 'key'}",
            f"AuthorizedKeysFile {keys}.pub",
            f"PidFile {self.folder / 'sshd.pid'}", "StrictModes no", "UsePAM no", "PasswordAuthentication no",
            "PermitRootLogin prohibit-password", "UseDNS no", "MaxStartups 200", "PrintMotd no",
            "SetEnv " + " ".join(f'"{name}={value}"' for name, value in own.items()),
        ]  # fmt: skip
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")
        inside = (
            f"hostname {self.name}; {self.before or ':'}; exec {_find_sshd()} -D -e -f {self.folder / 'sshd_config'}"
        )
        with (self.folder / "log").open("wb") as log:
            self.child = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.space}", "unshare", "-m", "-u", "--propagation", "private",
                 "sh", "-ec", inside], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def stop_sshd(self) -> None:
        """End sshd and everything it started, as if it had died."""
        if self.child is None:
            return
        for pid in subprocess.run(
            ["ip", "netns", "pids", self.space], capture_output=True, text=True, check=False
        ).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        self.child.wait()
        self.child = None

    def _make_path(self) -> str:
        return os.pathsep.join([str(self.bin), str(Path(sys.executable).parent), "/usr/bin", "/bin"])

    def write_tool(self, name: str, text: str) -> None:
        """Write a program that comes first on PATH."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def write_login_script(self, text: str) -> None:
        """Write a script that bash reads before commands over ssh."""
        (self.home / ".bashrc").write_text(text)

    def list_processes(self) -> list[int]:
        done = subprocess.run(["ip", "netns", "pids", self.space], capture_output=True, text=True, check=False)
        return [int(pid) for pid in done.stdout.split()]


class SshFleet:
    """Hosts on one bridge; `home` is that of a user whose ssh configuration names them all."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.tag = folder, f"ef{os.getpid() % 100000}"
        self.net = f"10.{120 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self.home, self.key = folder / "user", folder / "user" / ".ssh" / "id_test"
        self.hosts = [SshHost(self, n + 1) for n in range(size)]

    def start_hosts(self, machine: str) -> None:
        self.key.parent.mkdir(parents=True, mode=0o700)
        _generate_key(self.key)
        run_ip("link", "add", self.tag, "type", "bridge")
        run_ip("addr", "add", f"{self.net}.254/24", "dev", self.tag)
        run_ip("link", "set", self.tag, "up")
        for host in self.hosts:
            self._make_host(host, machine)
        self.write_known_hosts(self.hosts)
        self.configure_ssh()
        for host in self.hosts:
            host.start_sshd(self.key)
        for host in self.hosts:
            self.wait_for_sshd(host)

    def _make_host(self, host: SshHost, machine: str) -> None:
        for folder in (host.home, host.bin):
            folder.mkdir(parents=True)
        _generate_key(host.folder / "key")
        simulate_host(host, machine)
        run_ip("netns", "add", host.space)
        end = f"{self.tag}v{host.number}"
        run_ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", host.space)
        run_ip("link", "set", end, "master", self.tag, "up")
        run_ip("-n", host.space, "addr", "add", f"{host.address}/24", "dev", "eth0")
        run_ip("-n", host.space, "link", "set", "eth0", "up")
        run_ip("-n", host.space, "link", "set", "lo", "up")

    def write_known_hosts(self, hosts: Sequence[SshHost]) -> None:
        """Write the user's known_hosts, with the keys of these hosts."""
        lines = [f"{host.address} {' '.join((host.folder / 'key.pub').read_text().split()[:2])}" for host in hosts]
        (self.key.parent / "known_hosts").write_text("\n".join(lines) + "\n")

    def configure_ssh(self, more: str = "") -> None:
        """Put an ssh wrapper first on PATH that passes the configuration file, because ssh ignores HOME and uses the
        home in /etc/passwd.
        """
        blocks = [f"Host {host.name}\n  HostName {host.address}\n" for host in self.hosts]
        general = f"Host *\n  IdentityFile {self.key}\n  UserKnownHostsFile {self.key.parent}/known_hosts\n  {QUICK}\n"
        (self.key.parent / "config").write_text(more + "".join(blocks) + general)
        wrapper = self.home / "bin" / "ssh"
        wrapper.parent.mkdir(exist_ok=True)
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.key.parent}/config "$@"\n')
        wrapper.chmod(0o755)

    def wait_for_sshd(self, host: SshHost) -> None:
        import socket

        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection((host.address, 22), 1):
                return
            time.sleep(0.05)
        pytest.fail(f"{host.name} did not come up: {(host.folder / 'log').read_text()}", pytrace=False)

    def make_environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.home / "bin"), os.environ["PATH"]])
        return {**os.environ, "HOME": str(self.home), "PATH": path, "COLUMNS": "100"}

    def run_envcheck(self, *words: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "envcheck", *words], cwd=ROOT, env=self.make_environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def remove_hosts(self) -> None:
        for host in self.hosts:
            host.stop_sshd()
            subprocess.run(["ip", "netns", "delete", host.space], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", self.tag], check=False, capture_output=True)


def simulate_host(host: SshHost, machine: str, *wishes: str) -> None:
    """Turn the host into this machine, with these faults."""
    shutil.rmtree(host.sysroot, ignore_errors=True)
    ready = faults.apply_faults(described.load_machine(machine, None), [faults.parse_fault(wish) for wish in wishes])
    with simulated_run.write_machine_folder(ready, host.sysroot):
        pass


def _generate_key(path: Path) -> None:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(argv, check=True, capture_output=True)


def _find_sshd() -> str:
    return shutil.which("sshd", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])) or ""


@contextlib.contextmanager
def start_fleet(folder: Path, size: int, machine: str) -> Iterator[SshFleet]:
    """Start the hosts; skips if the machine does not support them."""
    not_in_fast("a fleet of hosts with sshd")
    if os.geteuid() or not shutil.which("ip") or not shutil.which("unshare") or not _find_sshd():
        pytest.skip("hosts as network namespaces want root, ip (iproute2), unshare and sshd")
    Path("/run/sshd").mkdir(exist_ok=True)
    made = SshFleet(folder, size)
    try:
        made.start_hosts(machine)
        yield made
    finally:
        made.remove_hosts()
