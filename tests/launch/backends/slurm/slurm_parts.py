"""A real Slurm for tests: slurmctld and one slurmd per node, each in its own network namespace."""

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

from envcheck.simulate import faults, simulated_run
from envcheck.simulate import machine_file as described
from tests.launch.node_parts import COLLECTIVES
from tests.tiers import not_in_fast

ROOT = Path(__file__).parents[4]
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "ip", "nsenter", "unshare")
SBIN = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
# A requeued job starts only after its old credential has expired: use the shortest time that Slurm accepts.
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


class SlurmCluster:
    """`kinds`: partition → (number of nodes, their Gres); nodes are numbered across partitions."""

    def __init__(self, folder: Path, kinds: dict[str, tuple[int, str]], more: str = "") -> None:
        self.folder, self.kinds, self.more = folder, kinds, more
        self.tag, self.net = f"es{os.getpid() % 100000}", f"10.{180 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        count = sum(count for count, _ in kinds.values())
        self.names = [f"node{number:02d}" for number in range(1, count + 1)]
        self.children: list[subprocess.Popen[bytes]] = []
        self.controller = 0

    def start_cluster(self) -> None:
        for name in ("run", "state", "spool", "log", "home"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._write_config()
        self._make_network()
        self._start_munge()
        self.controller = self._start_daemon("ctl", "slurmctld", "-D", "-c")
        for name in self.names:
            self._start_daemon(name, "slurmd", "-D", "-N", name)
        self.wait_until(lambda: self.read_states() == dict.fromkeys(self.names, "idle"))

    def _write_config(self) -> None:
        """Write slurm.conf, gres.conf, hosts, and the prologs that give each task the simulated machine of its node."""
        nodes, cards, names, first = [], [], list(self.names), True
        for partition, (count, gres) in self.kinds.items():
            mine, names = names[:count], names[count:]
            held = f" Gres={gres}" if gres else ""
            nodes += [
                f"NodeName={name} CPUs=16 RealMemory=1048576{held} State=UNKNOWN NodeAddr={self.find_address(name)}"
                for name in mine
            ]
            nodes += [f"PartitionName={partition} Nodes={','.join(mine)} State=UP{' Default=YES' * first}"]
            cards += [self._make_gres_line(name, gres) for name in mine if gres]
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
        hosts = [
            "127.0.0.1 localhost",
            f"{self.net}.254 ctl",
            *(f"{self.find_address(name)} {name}" for name in self.names),
        ]
        (self.folder / "hosts").write_text("\n".join(hosts) + "\n")
        self.write_program(
            "task-prolog", f'[ ! -d "{self.machine_path}" ] || echo "export ENVCHECK_SYSROOT={self.machine_path}"'
        )
        self.write_program("prolog", "exit 0")
        self.write_program("health", "exit 0")

    @property
    def machine_path(self) -> str:
        """The folder of a node's simulated machine, for a shell on the node."""
        return f"{self.folder}/$SLURMD_NODENAME/machine"

    def write_program(self, name: str, text: str) -> None:
        """Write a program of slurm.conf; replaced atomically, since slurmd may be starting it."""
        fresh = self.folder / f".{name}.new"
        fresh.write_text(f"#!/bin/sh\n{text}\n")
        fresh.chmod(0o755)
        fresh.replace(self.folder / name)

    def _make_gres_line(self, node: str, gres: str) -> str:
        """Return a line of gres.conf, and create its device files."""
        name, *kind, count = gres.split(":")
        (self.folder / "dev").mkdir(exist_ok=True)
        for number in range(int(count)):
            with contextlib.suppress(FileExistsError):
                os.mknod(self.folder / "dev" / f"{name}{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        typed = f"Type={kind[0]} " if kind else ""
        return f"NodeName={node} Name={name} {typed}File={self.folder}/dev/{name}[0-{int(count) - 1}]"

    def find_address(self, name: str) -> str:
        return f"{self.net}.{self.names.index(name) + 1}" if name in self.names else f"{self.net}.254"

    def _make_network(self) -> None:
        """Create one namespace per node, connected by a bridge in the controller's namespace; the host has no
        interfaces."""
        _run_ip("netns", "add", self.make_space_name("ctl"))
        _run_ip("-n", self.make_space_name("ctl"), "link", "add", "br0", "type", "bridge")
        _run_ip("-n", self.make_space_name("ctl"), "addr", "add", f"{self.net}.254/24", "dev", "br0")
        for up in ("br0", "lo"):
            _run_ip("-n", self.make_space_name("ctl"), "link", "set", up, "up")
        for number, name in enumerate(self.names):
            space, end = self.make_space_name(name), f"v{number}"
            _run_ip("netns", "add", space)
            _run_ip(
                "link",
                "add",
                end,
                "netns",
                self.make_space_name("ctl"),
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                space,
            )
            _run_ip("-n", self.make_space_name("ctl"), "link", "set", end, "master", "br0", "up")
            _run_ip("-n", space, "addr", "add", f"{self.find_address(name)}/24", "dev", "eth0")
            for up in ("eth0", "lo"):
                _run_ip("-n", space, "link", "set", up, "up")
            _run_ip("netns", "exec", space, "sysctl", "-qw", f"net.ipv4.ip_local_reserved_ports={COLLECTIVES}")

    def make_space_name(self, name: str) -> str:
        return f"{self.tag}-{name}"

    def _start_munge(self) -> None:
        key, run = self.folder / "munge.key", self.folder / "run"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        argv = ["munged", "--force", f"--key-file={key}", f"--socket={run}/munge.sock", f"--seed-file={run}/seed"]
        argv += [f"--pid-file={run}/munged.pid", f"--log-file={self.folder}/log/munged.log"]
        subprocess.run(argv, check=True, env={**os.environ, "PATH": SBIN}, capture_output=True)

    def _start_daemon(self, name: str, *argv: str) -> int:
        """Start a daemon in the namespaces of a node, with the names of the cluster in /etc/hosts."""
        inside = f'mount --bind {self.folder}/hosts /etc/hosts; hostname {name}; exec "$@"'
        words = [
            "nsenter",
            f"--net=/run/netns/{self.make_space_name(name)}",
            "unshare",
            "-m",
            "-u",
            "--propagation",
            "private",
        ]
        with (self.folder / "log" / f"{name}.out").open("wb") as log:
            child = subprocess.Popen(
                [*words, "sh", "-ec", inside, "sh", *argv], env=self.make_environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True, cwd=self.folder,
            )  # fmt: skip
        self.children.append(child)
        return child.pid

    def make_environment(self) -> dict[str, str]:
        own = {"SLURM_CONF": str(self.folder / "slurm.conf"), "HOME": str(self.folder / "home"), "COLUMNS": "120"}
        own |= {"ENVCHECK_HOME": str(self.folder / "home" / "envcheck")}
        return {**os.environ, **own, "PATH": os.pathsep.join([str(Path(sys.executable).parent), SBIN])}

    def make_argv(self, *words: str) -> list[str]:
        """Return the command line that runs `words` on the submit host."""
        return ["nsenter", f"--target={self.controller}", "--net", "--mount", "--uts", f"--wd={self.folder}", *words]

    def run_command(self, *words: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.make_argv(*words), env=self.make_environment(), stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def run_envcheck(self, *words: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        return self.run_command(sys.executable, "-m", "envcheck", *words, timeout_s=timeout_s)

    def simulate_node(self, name: str, machine: str, *wishes: str) -> None:
        """Give the node a simulated machine with these faults."""
        place = self.folder / name / "machine"
        shutil.rmtree(place, ignore_errors=True)
        ready = faults.apply_faults(
            described.load_machine(machine, None), [faults.parse_fault(wish) for wish in wishes]
        )
        with simulated_run.write_machine_folder(ready, place):
            pass

    def read_queue(self) -> str:
        return self.run_command("squeue", "-h", "-o", "%A %T %r %N").stdout.strip()

    def read_states(self) -> dict[str, str]:
        told = self.run_command("sinfo", "-h", "-N", "-o", "%N %t").stdout.split("\n")
        return dict(line.split() for line in told if line)

    def reset_cluster(self) -> None:
        """Cancel all jobs and resume all nodes."""
        self.write_program("prolog", "exit 0")
        self.write_program("health", "exit 0")
        self.run_command("scancel", "--user=root")
        self.wait_until(lambda: not self.read_queue())
        for name, state in self.read_states().items():
            if state.startswith(("drain", "drng", "down")):
                self.run_command("scontrol", "update", f"nodename={name}", "state=resume")
        for name in self.names:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def wait_until(self, true: Callable[[], bool], seconds: float = 300) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                pytest.fail(f"timed out: {self.read_queue()} {self.read_states()} {self.read_logs()}", pytrace=False)
            time.sleep(0.2)

    def read_logs(self) -> str:
        return "\n".join(f"{log.name}: {log.read_text()[-400:]}" for log in sorted((self.folder / "log").iterdir()))

    def stop_cluster(self) -> None:
        """Kill all processes in the namespaces, and munged."""
        for name in ("ctl", *self.names):
            space = self.make_space_name(name)
            found = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False)
            for pid in found.stdout.split():
                _kill_process(int(pid))
        for child in self.children:
            child.wait()
        with contextlib.suppress(OSError, ValueError):
            _kill_process(int((self.folder / "run" / "munged.pid").read_text()))
        for name in ("ctl", *self.names):
            subprocess.run(["ip", "netns", "delete", self.make_space_name(name)], check=False, capture_output=True)


def _kill_process(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _run_ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def require_slurm(*more: str) -> None:
    """Skip the test if Slurm or one of the programs in `more` is not installed, or without root."""
    not_in_fast("a Slurm")
    missing = [name for name in (*PROGRAMS, *more) if not shutil.which(name, path=SBIN)]
    if os.geteuid() or missing:
        pytest.skip(
            f"requires root and the packages slurm-wlm and munge; missing programs: {', '.join(missing) or 'none'}"
        )


@contextlib.contextmanager
def start_slurm(folder: Path, kinds: dict[str, tuple[int, str]], more: str = "") -> Iterator[SlurmCluster]:
    require_slurm()
    made = SlurmCluster(folder, kinds, more)
    try:
        made.start_cluster()
        yield made
    finally:
        made.stop_cluster()
