"""train --hosts over real ssh: the real launcher on two hosts, started, watched and ended together."""

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
from launch.backends.ssh import node
from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import Fleet, Host
from tests.launch.test_train import left, variables
from tests.launch.test_train_nodes import RECIPE

pytestmark = pytest.mark.real


class Job:
    """Two hosts that share a home, as clusters do; `runs` is a folder of this test's."""

    def __init__(self, fleet: Fleet, home: Path, recipes: Path) -> None:
        self.fleet, self.home, self.recipes, self.runs = fleet, home, recipes, Path()

    def words(self, *more: str) -> tuple[str, ...]:
        chosen = ("--recipe", "two-nodes", "--recipes", str(self.recipes), "--runs", str(self.runs / "runs"))
        return ("train", *chosen, "--gather", "60", "--hosts", "node[01-02]", *more)

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return self.fleet.run(*self.words(*more), timeout_s=200)

    def start(self, *more: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "envcheck", *self.words(*more)]
        return subprocess.Popen(
            argv, cwd=fleet_parts.ROOT, env=self.fleet.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def begin(self, host: Host, names: str = "") -> None:
        """Its sshd, and an /etc/hosts of its own."""
        host.stop()
        host.variables = {"ENVCHECK_SYSROOT": "", "ENVCHECK_HOME": str(self.home), "NO_COLOR": "1"}
        host.start(self.fleet.key)
        self.fleet.wait(host)
        path = host.folder / "hosts"
        known = "".join(f"{one.address} {one.name}\n" for one in self.fleet.hosts)
        path.write_text(names or f"127.0.0.1 localhost\n{known}")
        assert host.child
        argv = ["nsenter", "-t", str(host.child.pid), "-m", "mount", "--bind", str(path), "/etc/hosts"]
        subprocess.run(argv, check=True)

    def wait_for_step(self, child: subprocess.Popen[str]) -> None:
        """Until the first host tells of its second step."""
        end = time.monotonic() + 60
        while time.monotonic() < end and child.poll() is None:
            if any('"step": 2,' in log.read_text() for log in self.runs.glob("runs/node01/*/log/workerlog.0")):
                return
            time.sleep(0.2)
        child.kill()
        pytest.fail(f"no step was made: {child.communicate()}", pytrace=False)

    def folder(self, host: Host) -> Path:
        """Of its run."""
        (path,) = (self.runs / "runs" / host.name).glob("*-two-nodes")
        return path


@pytest.fixture(scope="module")
def made(paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
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
    done = subprocess.run([*argv, "--yes"], env=variables(folder / "home"), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    with fleet_parts.fleet(folder / "fleet", 2, "cpu") as fleet:
        job = Job(fleet, folder / "home", folder / "recipes")
        for host in fleet.hosts:
            job.begin(host)
        yield job


@pytest.fixture
def job(made: Job, tmp_path: Path) -> Iterator[Job]:
    made.runs = tmp_path
    yield made
    for process in left(tmp_path):
        process.kill()


def losses(log: str) -> list[float]:
    """The mean over all ranks, step by step, as rank 0 tells it."""
    return [float(found) for found in re.findall(r'"loss": ([\d.]+)', log)]


def test_two_hosts_train(job: Job) -> None:
    """Each host gets its rank and the master's address; the loss falls over the ranks of both, which end equal.  With
    --fanout 1 they begin one after the other, and go on together."""
    done = job.run("--steps", "12", "--json", "--fanout", "1")
    said = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    jsonschema.validate(said, schemas.schema("train-hosts"))
    assert {name: (one["rank"], one["state"]) for name, one in said["hosts"].items()} == {
        "node01": (0, "finished"),
        "node02": (1, "finished"),
    }
    assert "node01: rank 1 (node02, " in done.stderr
    command = said["hosts"]["node02"]["record"]["command"]
    assert command[command.index("--master") + 1] == f"{job.fleet.hosts[0].address}:29777"
    log = (job.folder(job.fleet.hosts[0]) / "log" / "workerlog.0").read_text()
    told = losses(log)
    assert len(told) == 12
    assert sum(told[-4:]) < sum(told[:4])
    assert '"ranks": 4, "equal": true' in log


def test_hosts_that_had_no_turn_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once one has ended badly, those that --fanout held back are asked no more, and are not named as the first."""
    (tmp_path / "ssh").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexit 255\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    stops = runner.Stops()
    order = runner.Order({f"host-{n}": ("train",) for n in range(1, 5)}, fanout=2, together=True)
    did = runner.do(order, lambda host, line: None, lambda one: stops.later(0.0), stops)
    nodes = [node.ended(one, rank) for rank, one in enumerate(did)]
    asked = (tmp_path / "asked").read_text()

    assert [(one.host, one.state) for one in nodes[2:]] == [("host-3", "not-begun"), ("host-4", "not-begun")]
    assert {one.state for one in nodes[:2]} == {"unreached"}
    assert [f"host-{n}" in asked for n in range(1, 5)] == [True, True, False, False]


def test_a_closed_gate_on_one_host(job: Job) -> None:
    """A host whose own name leads to loopback closes its gate: it is named, and nothing starts on any host; what is no
    job is told once, exit code 2."""
    second = job.fleet.hosts[1]
    job.begin(second, "127.0.0.1 localhost node02\n")
    try:
        done = job.run()
        none = job.fleet.run("train", "--recipe", "tiny-cpu", "--limit", "none-such.s=1", "--hosts", "node[01-02]")
    finally:
        job.begin(second)

    assert none.returncode == 2
    assert "fail    node[01-02]: fleet.command: " in none.stderr and "none-such" in none.stderr, none.stderr
    assert done.returncode == 1, done.stderr
    assert "fail    node02: gate.name: " in done.stderr
    assert "nothing was started on any host" in done.stderr
    assert not list(job.runs.glob("runs/*/*-two-nodes"))


def test_a_host_dies(job: Job) -> None:
    """A host that is rebooted in the middle ends the run on the other one, and is named as the first."""
    child = job.start("--steps", "100000", "--limit", "stalled.seconds=60")
    job.wait_for_step(child)
    job.fleet.hosts[1].stop()
    _, err = child.communicate(timeout=150)
    running = left(job.runs)
    job.begin(job.fleet.hosts[1])

    assert child.returncode == 5, err
    assert "lost        node02: " in err
    assert "first       node02 (rank 1); the others ended since it did" in err
    assert running == []


def test_ctrl_c(job: Job) -> None:
    """Ctrl-C here ends the run on every host; each has its record of an interrupted run, and no process is left."""
    child = job.start("--steps", "100000")
    job.wait_for_step(child)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=100)

    assert child.returncode == 130, err
    assert "interrupted node[01-02]" in err, err
    assert all((job.folder(host) / "run.json").exists() for host in job.fleet.hosts)
    assert left(job.runs) == []


@pytest.mark.parametrize("asked", [("--model", "nosuch"), ("--recipe", "nosuch"), ("--model", "21b", "--method", "x")])
def test_a_job_that_nobody_knows_is_refused_here(asked: tuple[str, ...]) -> None:
    """What no recipe has is on no host either: no host is asked, nor shown a command for it."""
    argv = [sys.executable, "-m", "envcheck", "train", "--hosts", "node[1-2]", "--dry-run", *asked]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no recipe" in done.stderr
