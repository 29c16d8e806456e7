"""A real Slurm for the tests: slurmctld and a slurmd for each node, every one in a network namespace of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envcheck.simulate import faults, session
from envcheck.simulate import machine_file as described
from tests.launch.node_parts import COLLECTIVES
from tests.tiers import not_in_fast

ROOT = Path(__file__).parents[4]
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "ip", "nsenter", "unshare")
SBIN = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
# The credential of a job that is put back has to run out before it starts again: as short as Slurm takes it.
CONF = """
ClusterName={tag}
SlurmctldHost=ctl({net}.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock,cred_expire=5
CredType=cred/munge
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1,nohold_on_prolog_fail
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
TaskProlog={folder}/task-prolog
Prolog={folder}/prolog
HealthCheckProgram={folder}/health
HealthCheckInterval=2
KillWait=10
GresTypes=npu,gpu
{more}
{nodes}
"""


class Cluster:
    """`kinds` are the partitions: name → (nodes of it, their Gres); nodes are numbered through."""

    def __init__(self, folder: Path, kinds: dict[str, tuple[int, str]], more: str = "") -> None:
        self.folder, self.kinds, self.more = folder, kinds, more
        self.tag, self.net = f"es{os.getpid() % 100000}", f"10.{180 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        count = sum(count for count, _ in kinds.values())
        self.names = [f"node{number:02d}" for number in range(1, count + 1)]
        self.children: list[subprocess.Popen[bytes]] = []
        self.controller = 0

    def up(self) -> None:
        for name in ("run", "state", "spool", "log", "home"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._write()
        self._network()
        self._munge()
        self.controller = self._daemon("ctl", "slurmctld", "-D", "-c")
        for name in self.names:
            self._daemon(name, "slurmd", "-D", "-N", name)
        self.wait(lambda: self.states() == dict.fromkeys(self.names, "idle"))

    def _write(self) -> None:
        """slurm.conf, gres.conf, names, and what gives each task the machine of its node."""
        nodes, cards, names, first = [], [], list(self.names), True
        for partition, (count, gres) in self.kinds.items():
            mine, names = names[:count], names[count:]
            held = f" Gres={gres}" if gres else ""
            nodes += [
                f"NodeName={name} CPUs=16 RealMemory=1048576{held} State=UNKNOWN NodeAddr={self.address(name)}"
                for name in mine
            ]
            nodes += [f"PartitionName={partition} Nodes={','.join(mine)} State=UP{' Default=YES' * first}"]
            cards += [self._cards(name, gres) for name in mine if gres]
            first = False
        settings = {
            "tag": self.tag,
            "net": self.net,
            "folder": self.folder,
            "more": self.more,
            "nodes": "\n".join(nodes),
        }
        (self.folder / "slurm.conf").write_text(CONF.format(**settings))
        (self.folder / "gres.conf").write_text("\n".join(cards) + "\n")
        hosts = ["127.0.0.1 localhost", f"{self.net}.254 ctl", *(f"{self.address(name)} {name}" for name in self.names)]
        (self.folder / "hosts").write_text("\n".join(hosts) + "\n")
        self.program("task-prolog", f'[ ! -d "{self.machine}" ] || echo "export ENVCHECK_SYSROOT={self.machine}"')
        self.program("prolog", "exit 0")
        self.program("health", "exit 0")

    @property
    def machine(self) -> str:
        """The folder of a node's machine, as its own shell reads it."""
        return f"{self.folder}/$SLURMD_NODENAME/machine"

    def program(self, name: str, text: str) -> None:
        """One of those that slurm.conf names; replaced whole, since slurmd may be starting it."""
        fresh = self.folder / f".{name}.new"
        fresh.write_text(f"#!/bin/sh\n{text}\n")
        fresh.chmod(0o755)
        fresh.replace(self.folder / name)

    def _cards(self, node: str, gres: str) -> str:
        """A line of gres.conf, with device files as Slurm wants them."""
        name, *kind, count = gres.split(":")
        (self.folder / "dev").mkdir(exist_ok=True)
        for number in range(int(count)):
            with contextlib.suppress(FileExistsError):
                os.mknod(self.folder / "dev" / f"{name}{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        typed = f"Type={kind[0]} " if kind else ""
        return f"NodeName={node} Name={name} {typed}File={self.folder}/dev/{name}[0-{int(count) - 1}]"

    def address(self, name: str) -> str:
        return f"{self.net}.{self.names.index(name) + 1}" if name in self.names else f"{self.net}.254"

    def _network(self) -> None:
        """All ends of cables in the controller's namespace, on one bridge: the machine itself sees none of it."""
        _ip("netns", "add", self.space("ctl"))
        _ip("-n", self.space("ctl"), "link", "add", "br0", "type", "bridge")
        _ip("-n", self.space("ctl"), "addr", "add", f"{self.net}.254/24", "dev", "br0")
        for up in ("br0", "lo"):
            _ip("-n", self.space("ctl"), "link", "set", up, "up")
        for number, name in enumerate(self.names):
            space, end = self.space(name), f"v{number}"
            _ip("netns", "add", space)
            _ip("link", "add", end, "netns", self.space("ctl"), "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("-n", self.space("ctl"), "link", "set", end, "master", "br0", "up")
            _ip("-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            for up in ("eth0", "lo"):
                _ip("-n", space, "link", "set", up, "up")
            _ip("netns", "exec", space, "sysctl", "-qw", f"net.ipv4.ip_local_reserved_ports={COLLECTIVES}")

    def space(self, name: str) -> str:
        return f"{self.tag}-{name}"

    def _munge(self) -> None:
        key, run = self.folder / "munge.key", self.folder / "run"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        argv = ["munged", "--force", f"--key-file={key}", f"--socket={run}/munge.sock", f"--seed-file={run}/seed"]
        argv += [f"--pid-file={run}/munged.pid", f"--log-file={self.folder}/log/munged.log"]
        subprocess.run(argv, check=True, env={**os.environ, "PATH": SBIN}, capture_output=True)

    def _daemon(self, name: str, *argv: str) -> int:
        """In the name's namespaces, with the cluster's names in /etc/hosts."""
        inside = f'mount --bind {self.folder}/hosts /etc/hosts; hostname {name}; exec "$@"'
        words = ["nsenter", f"--net=/run/netns/{self.space(name)}", "unshare", "-m", "-u", "--propagation", "private"]
        with (self.folder / "log" / f"{name}.out").open("wb") as log:
            child = subprocess.Popen(
                [*words, "sh", "-ec", inside, "sh", *argv], env=self.environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True, cwd=self.folder,
            )  # fmt: skip
        self.children.append(child)
        return child.pid

    def environment(self) -> dict[str, str]:
        own = {"SLURM_CONF": str(self.folder / "slurm.conf"), "HOME": str(self.folder / "home"), "COLUMNS": "120"}
        own |= {"ENVCHECK_HOME": str(self.folder / "home" / "envcheck")}
        return {**os.environ, **own, "PATH": os.pathsep.join([str(Path(sys.executable).parent), SBIN])}

    def argv(self, *words: str) -> list[str]:
        """As on the machine where jobs are submitted."""
        return ["nsenter", f"--target={self.controller}", "--net", "--mount", "--uts", f"--wd={self.folder}", *words]

    def call(self, *words: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words), env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip

    def envcheck(self, *words: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        return self.call(sys.executable, "-m", "envcheck", *words, timeout_s=timeout_s)

    def simulate(self, name: str, machine: str, *wishes: str) -> None:
        """The node becomes this machine, with these faults."""
        place = self.folder / name / "machine"
        shutil.rmtree(place, ignore_errors=True)
        ready = faults.apply(described.load(machine, None), [faults.asked(wish) for wish in wishes])
        with session.written(ready, place):
            pass

    def queue(self) -> str:
        return self.call("squeue", "-h", "-o", "%A %T %r %N").stdout.strip()

    def states(self) -> dict[str, str]:
        told = self.call("sinfo", "-h", "-N", "-o", "%N %t").stdout.split("\n")
        return dict(line.split() for line in told if line)

    def clean(self) -> None:
        """No job, and every node in use, as at the beginning."""
        self.program("prolog", "exit 0")
        self.program("health", "exit 0")
        self.call("scancel", "--user=root")
        self.wait(lambda: not self.queue())
        for name, state in self.states().items():
            if state.startswith(("drain", "drng", "down")):
                self.call("scontrol", "update", f"nodename={name}", "state=resume")
        for name in self.names:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def wait(self, true: Callable[[], bool], seconds: float = 300) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                pytest.fail(f"it did not come: {self.queue()} {self.states()} {self.logs()}", pytrace=False)
            time.sleep(0.2)

    def logs(self) -> str:
        return "\n".join(f"{log.name}: {log.read_text()[-400:]}" for log in sorted((self.folder / "log").iterdir()))

    def down(self) -> None:
        """Whatever lives in the namespaces, and munged."""
        for name in ("ctl", *self.names):
            space = self.space(name)
            found = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False)
            for pid in found.stdout.split():
                _kill(int(pid))
        for child in self.children:
            child.wait()
        with contextlib.suppress(OSError, ValueError):
            _kill(int((self.folder / "run" / "munged.pid").read_text()))
        for name in ("ctl", *self.names):
            subprocess.run(["ip", "netns", "delete", self.space(name)], check=False, capture_output=True)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def wants(*more: str) -> None:
    """Skips where a machine cannot have a Slurm of its own with `more` programs."""
    not_in_fast("a Slurm")
    missing = [name for name in (*PROGRAMS, *more) if not shutil.which(name, path=SBIN)]
    if os.geteuid() or missing:
        pytest.skip(f"a Slurm of our own wants root, and {', '.join(missing) or 'nothing else'}: slurm-wlm, munge")


@contextlib.contextmanager
def cluster(folder: Path, kinds: dict[str, tuple[int, str]], more: str = "") -> Iterator[Cluster]:
    wants()
    made = Cluster(folder, kinds, more)
    try:
        made.up()
        yield made
    finally:
        made.down()
