"""A cluster for tests: each node of a real Slurm also has an sshd and its own root folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.envcheck.fleet.fleet_parts import QUICK
from tests.launch.backends.slurm.slurm_parts import SBIN, SlurmCluster, require_slurm

# Runs a program ($3 ...) with root folder $1: the folders of the host, except for two folders of the test below $2.
ROOT = """
set -eu
root=$1 over=$2; shift 2
mount -t tmpfs none "$root"
for path in /*; do
    if [ -L "$path" ]; then cp -P "$path" "$root"; elif [ -d "$path" ]; then
        mkdir -p "$root$path"; mount --rbind "$path" "$root$path"
    fi
done
mount -t tmpfs none "$root/usr/local"
for path in /usr/local/*; do
    if [ -L "$path" ]; then cp -P "$path" "$root$path"; elif [ -d "$path" ]; then
        mkdir -p "$root$path"; mount --rbind "$path" "$root$path"
    fi
done
for path in /workspace /usr/local/Ascend; do
    mkdir -p "$root$path" "$over$path"; mount --bind "$over$path" "$root$path"
done
exec chroot "$root" "$@"
"""


class SlurmSite(SlurmCluster):
    """`over` has the content of /workspace and /usr/local/Ascend of all nodes."""

    def __init__(self, folder: Path, kinds: dict[str, tuple[int, str]]) -> None:
        super().__init__(folder, kinds)
        self.over, self.user = folder / "over", folder / "user"

    def start_cluster(self) -> None:
        """Start Slurm, then an sshd on each node."""
        self.user.mkdir()
        for key in ("id_test", "host_key"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(self.user / key)]
            subprocess.run(argv, check=True, capture_output=True)
        self.write_program("root-of", ROOT)
        super().start_cluster()
        self._configure_ssh()
        for name in self.names:
            self._start_daemon(
                name, shutil.which("sshd", path=SBIN) or "", "-D", "-e", "-f", str(self._write_sshd_config(name))
            )
        self.wait_until(lambda: all(self.run_command("ssh", name, "true").returncode == 0 for name in self.names))

    def _start_daemon(self, name: str, *argv: str) -> int:
        if name == "ctl":
            return super()._start_daemon(name, *argv)
        root = self.folder / "root" / f"{name}-{Path(argv[0]).name}"
        root.mkdir(parents=True)
        return super()._start_daemon(name, str(self.folder / "root-of"), str(root), str(self.over), *argv)

    def _configure_ssh(self) -> None:
        """Write an ssh wrapper with a configuration file: ssh ignores HOME and uses the home folder in /etc/passwd."""
        key = " ".join((self.user / "host_key.pub").read_text().split()[:2])
        (self.user / "known_hosts").write_text("".join(f"{name} {key}\n" for name in self.names))
        words = f"Host *\n  IdentityFile {self.user}/id_test\n  UserKnownHostsFile {self.user}/known_hosts\n  {QUICK}\n"
        (self.user / "config").write_text(words)
        wrapper = self.user / "bin" / "ssh"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.user}/config "$@"\n')
        wrapper.chmod(0o755)

    def _write_sshd_config(self, name: str) -> Path:
        given = {"ENVCHECK_SYSROOT": self.folder / name / "machine", "PATH": self.make_environment()["PATH"]}
        given |= {"HOME": self.folder / "home", "ENVCHECK_HOME": self.folder / "home" / "envcheck"}
        path = self.folder / f"{name}.sshd"
        lines = [
            f"ListenAddress {self.find_address(name)}", f"HostKey {self.user}/host_key",
            f"AuthorizedKeysFile {self.user}/id_test.pub", "PidFile none", "StrictModes no", "UsePAM no",
            "PasswordAuthentication no", "PermitRootLogin prohibit-password", "UseDNS no", "PrintMotd no",
            "SetEnv " + " ".join(f'"{key}={value}"' for key, value in given.items()),
        ]  # fmt: skip
        path.write_text("\n".join(lines) + "\n")
        return path

    def make_environment(self) -> dict[str, str]:
        inherited = super().make_environment()
        return {**inherited, "PATH": os.pathsep.join([str(self.user / "bin"), inherited["PATH"]])}


@contextlib.contextmanager
def start_site(folder: Path, kinds: dict[str, tuple[int, str]]) -> Iterator[SlurmSite]:
    require_slurm("sshd", "chroot")
    Path("/run/sshd").mkdir(exist_ok=True)
    made = SlurmSite(folder, kinds)
    try:
        made.start_cluster()
        yield made
    finally:
        made.stop_cluster()
