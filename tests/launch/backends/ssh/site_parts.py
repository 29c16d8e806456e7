"""A whole site for the tests: each node of a real Slurm answers to ssh, too, and has a root folder of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.envcheck.fleet.fleet_parts import QUICK
from tests.launch.backends.slurm.slurm_parts import SBIN, Cluster, wants

# Becomes a program ($3 ...) whose root folder $1 has the machine's own folders, save the two of a test, below $2.
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


class Site(Cluster):
    """`over` is the folder of what stands in each node's /workspace and /usr/local/Ascend."""

    def __init__(self, folder: Path, kinds: dict[str, tuple[int, str]]) -> None:
        super().__init__(folder, kinds)
        self.over, self.user = folder / "over", folder / "user"

    def up(self) -> None:
        """The Slurm, then a sshd in each node's network, with a root folder of its own, too."""
        self.user.mkdir()
        for key in ("id_test", "host_key"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(self.user / key)]
            subprocess.run(argv, check=True, capture_output=True)
        self.program("root-of", ROOT)
        super().up()
        self._know()
        for name in self.names:
            self._daemon(name, shutil.which("sshd", path=SBIN) or "", "-D", "-e", "-f", str(self._sshd_config(name)))
        self.wait(lambda: all(self.call("ssh", name, "true").returncode == 0 for name in self.names))

    def _daemon(self, name: str, *argv: str) -> int:
        if name == "ctl":
            return super()._daemon(name, *argv)
        root = self.folder / "root" / f"{name}-{Path(argv[0]).name}"
        root.mkdir(parents=True)
        return super()._daemon(name, str(self.folder / "root-of"), str(root), str(self.over), *argv)

    def _know(self) -> None:
        """ssh reads the configuration of the user in /etc/passwd, whatever HOME says: one of our own names the file."""
        key = " ".join((self.user / "host_key.pub").read_text().split()[:2])
        (self.user / "known_hosts").write_text("".join(f"{name} {key}\n" for name in self.names))
        words = f"Host *\n  IdentityFile {self.user}/id_test\n  UserKnownHostsFile {self.user}/known_hosts\n  {QUICK}\n"
        (self.user / "config").write_text(words)
        wrapper = self.user / "bin" / "ssh"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.user}/config "$@"\n')
        wrapper.chmod(0o755)

    def _sshd_config(self, name: str) -> Path:
        given = {"ENVCHECK_SYSROOT": self.folder / name / "machine", "PATH": self.environment()["PATH"]}
        given |= {"HOME": self.folder / "home", "ENVCHECK_HOME": self.folder / "home" / "envcheck"}
        path = self.folder / f"{name}.sshd"
        lines = [
            f"ListenAddress {self.address(name)}", f"HostKey {self.user}/host_key",
            f"AuthorizedKeysFile {self.user}/id_test.pub", "PidFile none", "StrictModes no", "UsePAM no",
            "PasswordAuthentication no", "PermitRootLogin prohibit-password", "UseDNS no", "PrintMotd no",
            "SetEnv " + " ".join(f'"{key}={value}"' for key, value in given.items()),
        ]  # fmt: skip
        path.write_text("\n".join(lines) + "\n")
        return path

    def environment(self) -> dict[str, str]:
        said = super().environment()
        return {**said, "PATH": os.pathsep.join([str(self.user / "bin"), said["PATH"]])}


@contextlib.contextmanager
def site(folder: Path, kinds: dict[str, tuple[int, str]]) -> Iterator[Site]:
    wants("sshd", "chroot")
    Path("/run/sshd").mkdir(exist_ok=True)
    made = Site(folder, kinds)
    try:
        made.up()
        yield made
    finally:
        made.down()
