"""train --hosts over real ssh: the real launcher on two hosts, started, watched and stopped together."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from envcheck.cli import schemas
from envcheck.fleet import runner
from launch.backends.ssh import node_outcome
from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import SshFleet, SshHost
from tests.launch.test_train import list_remaining_processes, make_variables
from tests.launch.test_train_nodes import RECIPE

pytestmark = pytest.mark.real


class FleetJob:
    """Hosts with a shared home folder, of which most tests use two; `runs` is the folder of one test."""

    def __init__(self, fleet: SshFleet, home: Path, recipes: Path) -> None:
        self.fleet, self.home, self.recipes, self.runs = fleet, home, recipes, Path()

    def make_options(self, *more: str) -> tuple[str, ...]:
        chosen = ("--recipe", "two-nodes", "--recipes", str(self.recipes), "--runs", str(self.runs / "runs"))
        hosts = () if "--hosts" in more else ("--hosts", "node[01-02]")
        return ("train", *chosen, "--gather", "60", *hosts, *more)

    def run_command(self, *more: str) -> subprocess.CompletedProcess[str]:
        return self.fleet.run_envcheck(*self.make_options(*more), timeout_s=200)

    def start_command(self, *more: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "envcheck", *self.make_options(*more)]
        return subprocess.Popen(
            argv, cwd=fleet_parts.ROOT, env=self.fleet.make_environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def start_host(self, host: SshHost, names: str = "") -> None:
        """Start sshd on a host, with its own /etc/hosts."""
        host.stop_sshd()
        host.variables = {"ENVCHECK_SYSROOT": "", "ENVCHECK_HOME": str(self.home), "NO_COLOR": "1"}
        host.start_sshd(self.fleet.key)
        self.fleet.wait_for_sshd(host)
        path = host.folder / "hosts"
        known = "".join(f"{one.address} {one.name}\n" for one in self.fleet.hosts)
        path.write_text(names or f"127.0.0.1 localhost\n{known}")
        assert host.child
        argv = ["nsenter", "-t", str(host.child.pid), "-m", "mount", "--bind", str(path), "/etc/hosts"]
        subprocess.run(argv, check=True)

    def wait_for_step(self, child: subprocess.Popen[str]) -> None:
        """Wait until the first host has logged its second step."""
        end = time.monotonic() + 60
        while time.monotonic() < end and child.poll() is None:
            if any('"step": 2,' in log.read_text() for log in self.runs.glob("runs/node01/*/log/workerlog.0")):
                return
            time.sleep(0.2)
        child.kill()
        pytest.fail(f"no training step: {child.communicate()}", pytrace=False)

    def wait_for_checkpoint(self, child: subprocess.Popen[str]) -> None:
        """Wait until the first host has saved a checkpoint."""
        end = time.monotonic() + 90
        while time.monotonic() < end and child.poll() is None:
            if any(self.runs.glob("runs/node01/*/output/checkpoint-*")):
                return
            time.sleep(0.1)
        child.kill()
        pytest.fail(f"no checkpoint: {child.communicate()}", pytrace=False)

    def find_run_folder(self, host: SshHost) -> Path:
        """Return the folder of the host's run."""
        (path,) = (self.runs / "runs" / host.name).glob("*-two-nodes-*")
        return path


@pytest.fixture(scope="module")
def made(paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetJob]:
    folder = tmp_path_factory.mktemp("job")
    (folder / "recipes").mkdir()
    (folder / "recipes" / "two.toml").write_text(RECIPE.format(python=paddle_environment / "bin" / "python"))
    argv = [
        sys.executable,
        "-m",
        "envcheck",
        "provision",
        "--recipe",
        "two-nodes",
        "--recipes",
        str(folder / "recipes"),
    ]
    done = subprocess.run(
        [*argv, "--yes"], env=make_variables(folder / "home"), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with fleet_parts.start_fleet(folder / "fleet", 3, "cpu") as fleet:
        job = FleetJob(fleet, folder / "home", folder / "recipes")
        for host in fleet.hosts:
            job.start_host(host)
        yield job


@pytest.fixture
def job(made: FleetJob, tmp_path: Path) -> Iterator[FleetJob]:
    made.runs = tmp_path
    yield made
    for process in list_remaining_processes(tmp_path):
        process.kill()


def read_until(child: subprocess.Popen[str], text: str) -> str:
    """Return what the command prints up to the line with that text."""
    found = ""
    for line in child.stderr or ():
        found += line
        if text in line:
            return found
    pytest.fail(f"not printed: {text}\n{found}", pytrace=False)


def read_losses(log: str) -> list[float]:
    """Return the mean loss over all ranks per step, from the log of rank 0."""
    return [float(found) for found in re.findall(r'"loss": ([\d.]+)', log)]


def test_two_hosts_train(job: FleetJob) -> None:
    """Each host gets its rank and the master address; the loss falls and all ranks end with equal weights. With
    --fanout 1 the hosts start one after the other and run together."""
    done = job.run_command("--steps", "12", "--json", "--fanout", "1")
    document = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    jsonschema.validate(document, schemas.build_schema("train-hosts"))
    assert {name: (one["rank"], one["state"]) for name, one in document["hosts"].items()} == {
        "node01": (0, "succeeded"),
        "node02": (1, "succeeded"),
    }
    assert "node01: joined: rank 1 (node02, " in done.stderr
    command = document["hosts"]["node02"]["record"]["command"]
    assert command[command.index("--master") + 1] == f"{job.fleet.hosts[0].address}:29777"
    log = (job.find_run_folder(job.fleet.hosts[0]) / "log" / "workerlog.0").read_text()
    losses = read_losses(log)
    assert len(losses) == 12
    assert sum(losses[-4:]) < sum(losses[:4])
    assert '"ranks": 4, "equal": true' in log


def test_hosts_that_were_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a host has failed, hosts that --fanout held back are not contacted and are not reported as the cause."""
    (tmp_path / "ssh").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexit 255\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    stops = runner.StopRequests()
    order = runner.FleetCommand({f"host-{n}": ("train",) for n in range(1, 5)}, fanout=2, together=True)
    did = runner.run_commands(order, lambda host, line: None, lambda one: stops.schedule_stops(0.0), stops)
    nodes = [node_outcome.build_node_outcome(one, rank) for rank, one in enumerate(did)]
    asked = (tmp_path / "asked").read_text()

    assert [(one.host, one.state) for one in nodes[2:]] == [("host-3", "not-started"), ("host-4", "not-started")]
    assert {one.state for one in nodes[:2]} == {"unreached"}
    assert [f"host-{n}" in asked for n in range(1, 5)] == [True, True, False, False]


def test_a_closed_gate_on_one_host(job: FleetJob) -> None:
    """A host whose name resolves to loopback fails its check: it is named, and nothing starts on any host. An invalid
    command line is reported once for all hosts, exit code 2."""
    second = job.fleet.hosts[1]
    job.start_host(second, "127.0.0.1 localhost node02\n")
    try:
        done = job.run_command()
        none = job.fleet.run_envcheck(
            "train", "--recipe", "tiny-cpu", "--limit", "none-such.s=1", "--hosts", "node[01-02]", "--port", "29555"
        )
    finally:
        job.start_host(second)

    assert none.returncode == 2
    assert "failed   node[01-02]: fleet.command: " in none.stderr and "none-such" in none.stderr, none.stderr
    assert done.returncode == 1, done.stderr
    assert "failed   node02: gate.name: " in done.stderr
    assert "the training was not started on any host" in done.stderr
    assert not list(job.runs.glob("runs/*/*-two-nodes-*"))


def test_a_host_dies(job: FleetJob) -> None:
    """A host that dies during the run ends the run on the other one, and is reported as the cause."""
    child = job.start_command("--steps", "100000", "--limit", "stalled.seconds=60")
    job.wait_for_step(child)
    job.fleet.hosts[1].stop_sshd()
    _, err = child.communicate(timeout=150)
    running = list_remaining_processes(job.runs)
    job.start_host(job.fleet.hosts[1])

    assert child.returncode == 5, err
    assert "disconnected  node02: " in err
    assert "cause         node02 (rank 1) failed first and made the other hosts stop" in err
    assert running == []


@pytest.mark.extended
def test_a_cut_network(job: FleetJob) -> None:
    """A host behind a cut network is lost after a minute without an answer, and ends its own processes."""
    host = job.fleet.hosts[1]
    with job.start_command("--steps", "100000", "--limit", "stalled.seconds=600") as child:
        job.wait_for_step(child)
        fleet_parts.run_ip("-n", host.space, "link", "set", "eth0", "down")
        try:
            _, err = child.communicate(timeout=400)
            end = time.monotonic() + 400
            while list_remaining_processes(job.runs) and time.monotonic() < end:
                time.sleep(1)
            running = list_remaining_processes(job.runs)
        finally:
            host.stop_sshd()
            fleet_parts.run_ip("-n", host.space, "link", "set", "eth0", "up")
            job.start_host(host)

    assert child.returncode == 5, err
    assert "disconnected  node02: " in err
    assert running == []


def test_restart_after_a_host_died(job: FleetJob) -> None:
    """--restart waits for the lost host, and continues on the same hosts from the checkpoint of the first one."""
    with job.start_command("--steps", "150", "--limit", "stalled.seconds=60", "--restart", "1", "--json") as child:
        job.wait_for_checkpoint(child)
        job.fleet.hosts[1].stop_sshd()
        earlier = read_until(child, "restart 1 of 1: node02: connection lost")
        job.start_host(job.fleet.hosts[1])
        out, err = child.communicate(timeout=300)
    document = json.loads(out)

    assert child.returncode == 0, earlier + err
    jsonschema.validate(document, schemas.build_schema("train-hosts"))
    assert document["restarts"] == [{"host": "node02", "fault": "connection lost"}]
    assert {one["state"] for one in document["hosts"].values()} == {"succeeded"}
    for one in document["hosts"].values():
        assert Path(one["record"]["resumed_from"]["checkpoint"]).name.startswith("checkpoint-")
    assert list_remaining_processes(job.runs) == []


@pytest.mark.extended
def test_restart_without_the_host_that_died(job: FleetJob) -> None:
    """With --min-nodes the lost master is left out: the two others run again, with ranks and a master of their own."""
    more = ("--limit", "stalled.seconds=60", "--restart", "2", "--min-nodes", "2", "--hosts", "node[01-03]")
    with job.start_command("--steps", "150", *more, "--json") as child:
        job.wait_for_checkpoint(child)
        job.fleet.hosts[0].stop_sshd()
        out, err = child.communicate(timeout=300)
    job.start_host(job.fleet.hosts[0])
    document = json.loads(out)

    assert child.returncode == 0, err
    assert "left out: node01; continues on 2 hosts" in err
    assert {name: (one["rank"], one["state"]) for name, one in document["hosts"].items()} == {
        "node02": (0, "succeeded"),
        "node03": (1, "succeeded"),
    }
    assert [one["host"] for one in document["restarts"]] == ["node01"]
    assert list_remaining_processes(job.runs) == []


def test_no_restart_after_a_fault_of_the_program(job: FleetJob) -> None:
    """A job whose own program fails is not started again."""
    done = job.run_command("--steps", "12", "--restart", "2", "--json", "--", "--batch", "-1")

    assert done.returncode == 5, done.stderr
    assert json.loads(done.stdout)["restarts"] == []
    assert "restart 1" not in done.stderr


def test_ctrl_c(job: FleetJob) -> None:
    """Ctrl-C stops the run on every host; each has the record of an interrupted run, and no process is left."""
    child = job.start_command("--steps", "100000")
    job.wait_for_step(child)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=100)

    assert child.returncode == 130, err
    assert "stopped       node[01-02]" in err, err
    assert all((job.find_run_folder(host) / "run.json").exists() for host in job.fleet.hosts[:2])
    assert list_remaining_processes(job.runs) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--model", "nosuch"), "no recipe matches --model nosuch"),
        (("--recipe", "nosuch"), "unknown recipe 'nosuch'"),
        (("--model", "21b", "--method", "x"), "no recipe matches --model 21b --method x"),
    ],
)
def test_an_unknown_job_is_rejected_locally(options: tuple[str, ...], error: str) -> None:
    """A job without a recipe is rejected before any host is contacted."""
    argv = [sys.executable, "-m", "envcheck", "train", "--hosts", "node[1-2]", "--dry-run", *options]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr
