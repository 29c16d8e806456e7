"""`envcheck train --on slurm` with a real Slurm: nodes are network namespaces with simulated devices.

tests/launch/backends/slurm/test_slurm_300b.py runs paddle's launcher on eight of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envcheck.cli import schemas
from installers.recipes.loader import load_recipe
from tests.launch.backends.slurm.slurm_parts import SlurmCluster, start_slurm
from tests.launch.gates.test_gates_command import make_environment

pytestmark = pytest.mark.real

RECIPE = """
name = "light"
title = "Steps without a framework"
device = "npu"
framework = "envcheck"
models = ["light"]
source = "a test"
[hardware]
product = "any"
cards = 8
source = "a test"
[[packages]]
name = "light"
specifier = "==1.0"
[[jobs]]
method = "lora"
title = "steps on two nodes"
source = "a test"
nodes = 2
processes = 8
port = 29777
parallel = {{ data = 16 }}
launcher = [{launcher}]
arguments = ["--steps", "5"]
steps = {{ max = 5 }}
[[jobs]]
method = "sft"
title = "more cards than a node of the site has"
source = "a test"
nodes = 2
processes = 16
cards = 16
parallel = {{ data = 32 }}
launcher = [{launcher}]
steps = {{ max = 5 }}
{roles}
"""
ROLE = """
[[jobs]]
method = "mixed"
role = "{role}"
device = "{role}"
title = "steps over two vendors"
source = "a test"
nodes = 2
processes = 8
rank = {rank}
port = 29778
parallel = {{ data = 16 }}
launcher = [{launcher}]
arguments = ["--steps", "3"]
steps = {{ max = 3 }}
"""
EXPORT = "PATH,HOME,ENVCHECK_HOME,SLURM_CONF"
WITHIN = ("SLURM_JOB_ID=1", "SLURM_MEM_PER_CPU=100", "SRUN_CPUS_PER_TASK=1")
# A substitute for paddle's launcher: prints its arguments and writes steps.
PROGRAM = """#!/bin/sh
echo "started $* as $(hostname)"
while [ $# -gt 0 ]; do
    case "$1" in --log_dir) log=$2 ;; --steps) steps=$2 ;; esac
    shift
done
n=0
while [ "$n" -lt "$steps" ]; do
    n=$((n + 1))
    echo "{\\"step\\": $n, \\"loss\\": 1.$((9 - n % 9))}" >> "$log/workerlog.0"
    sleep 0.05
done
"""


def write_recipes(folder: Path) -> Path:
    """Write the recipe and its program into a new folder."""
    folder.mkdir()
    program = folder / "program.sh"
    program.write_text(PROGRAM)
    words = ["/bin/sh", str(program), "--master", "{master}:{port}", "--rank", "{rank}", "--host", "{host}"]
    launcher = ", ".join(json.dumps(word) for word in (*words, "--log_dir", "{log_dir}"))
    roles = "".join(
        ROLE.format(role=role, rank=rank, launcher=launcher) for rank, role in enumerate(("nvidia", "iluvatar"))
    )
    (folder / "light.toml").write_text(RECIPE.format(launcher=launcher, roles=roles))
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Two Ascend nodes, one NVIDIA node, two Iluvatar nodes, with the software of the recipe."""
    folder = tmp_path_factory.mktemp("slurm")
    recipe = load_recipe(write_recipes(folder / "recipes") / "light.toml")
    make_environment(recipe, folder / "home" / "envcheck" / "environments" / "light")
    with start_slurm(folder, {"npu": (2, "npu:8"), "nv": (1, "gpu:h200:8"), "ilu": (2, "gpu:bi150:16")}) as made:
        yield made


@pytest.fixture
def slurm(site: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster with all nodes healthy and idle."""
    for name, machine in zip(site.names, ["atlas-800t-a2"] * 2 + ["h200x8"] + ["bi-v150x8"] * 2, strict=True):
        site.simulate_node(name, machine)
    yield site
    site.reset_cluster()


def run_train(
    slurm: SlurmCluster, *more: str, method: str = "lora", around: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """`around`: additional environment variables, NAME=VALUE."""
    own = ("--recipe", "light", "--method", method, "--recipes", str(slurm.folder / "recipes"))
    argv = (sys.executable, "-m", "envcheck", "train", "--on", "slurm", *own, *more)
    return slurm.run_command("env", *around, *argv, timeout_s=120)


def list_runs(slurm: SlurmCluster) -> list[Path]:
    return sorted(path.parent for path in slurm.folder.glob("runs/*/run.json"))


def read_record(slurm: SlurmCluster) -> dict[str, Any]:
    """Return the record of the newest run."""
    record: dict[str, Any] = json.loads((list_runs(slurm)[-1] / "run.json").read_text())
    return record


def read_log(slurm: SlurmCluster) -> str:
    return (list_runs(slurm)[-1] / "log" / "slurm.log").read_text()


@dataclass
class FollowProcess:
    """A running `envcheck runs follow` and the file with its output."""

    child: subprocess.Popen[bytes]
    output: Path


@contextlib.contextmanager
def start_following(slurm: SlurmCluster, run: Path) -> Iterator[FollowProcess]:
    handle, name = tempfile.mkstemp(dir=slurm.folder, prefix="follow-")
    argv = slurm.make_argv(sys.executable, "-m", "envcheck", "runs", "follow", run.name)
    child = subprocess.Popen(
        argv, env=slurm.make_environment(), stdin=subprocess.DEVNULL, stdout=handle, stderr=subprocess.STDOUT
    )
    os.close(handle)
    try:
        yield FollowProcess(child, Path(name))
    finally:
        child.kill()
        child.wait()


def read_heard(one: FollowProcess) -> str:
    return one.output.read_text()


def test_a_job_runs(slurm: SlurmCluster) -> None:
    """Two nodes run the preflight checks and the rendezvous, and each starts a launcher with the rank and master
    address from Slurm; the job is one finished run whose steps were reported. Also with an --export of few variables,
    and with SBATCH_ARRAY_INX set."""
    done = run_train(slurm, f"--sbatch=--export={EXPORT}", around=["SBATCH_ARRAY_INX=1-2"])

    assert done.returncode == 0, done.stderr + read_log(slurm)
    assert "step 5 of 5" in done.stderr
    record = read_record(slurm)
    assert (record["state"], [part["state"] for part in record["slurm"]["parts"]]) == ("succeeded", ["succeeded"] * 2)
    assert [step for step, _ in record["loss"]] == [1, 2, 3, 4, 5]
    jsonschema.validate(record, json.loads(schemas.render_schema("run")))
    started = [path.read_text() for path in sorted(list_runs(slurm)[-1].glob("node-*/*/log/launcher.log"))]
    assert len(started) == 2
    for rank, (name, text) in enumerate(zip(("node01", "node02"), started, strict=True)):
        where = f"--master {slurm.find_address('node01')}:29777 --rank {rank} --host {slurm.find_address(name)}"
        assert where in text and f"as {name}" in text


def test_nodes_that_can_never_take_the_job(slurm: SlurmCluster) -> None:
    """If no node has enough devices, nothing is queued and no folder is created: exit code 1, with the nodes and their
    finding. --dry-run shows the script, also with exit code 1."""
    before = list_runs(slurm)
    shown = run_train(slurm, "--dry-run", "--port", "29778", method="sft")
    done = run_train(slurm, "--json", "--port", "29778", method="sft")
    record = json.loads(done.stdout)

    assert (done.returncode, record["state"], record["blocked_by"]) == (1, "refused", ["cards"]), done.stderr
    assert "blocked: light-sft needs 2 nodes that meet its requirements; found: npu 0/2, nv 0/1, ilu 0/2" in done.stderr
    assert "failed   node[01-02]: job.cards: " in done.stderr
    assert done.stderr.endswith("envcheck: the job was not submitted\n")
    assert (slurm.read_queue(), list_runs(slurm)) == ("", before)
    jsonschema.validate(record, json.loads(schemas.render_schema("train-slurm")))
    assert (shown.returncode, shown.stdout.startswith("#!/usr/bin/env bash\n")) == (1, True)
    assert "failed   node[01-02]: job.cards: " in shown.stderr


def test_hosts_of_a_partition(slurm: SlurmCluster) -> None:
    """--hosts @slurm:PARTITION selects the nodes of a partition from sinfo."""
    done = slurm.run_envcheck(
        "doctor", "--hosts", "@slurm:npu,@slurm:ilu", "--exclude", "node04", "--host-timeout", "5", "--json"
    )

    assert list(json.loads(done.stdout)["hosts"]) == ["node01", "node02", "node05"], done.stderr


def test_a_bad_node_ends_the_job(slurm: SlurmCluster) -> None:
    """A node that lost a device ends the job before the training, and is named with its finding, also by explain."""
    slurm.simulate_node("node02", "atlas-800t-a2", "card-lost=3")
    done = run_train(slurm)
    why = slurm.run_envcheck("explain", list_runs(slurm)[-1].name)

    assert done.returncode == 1, done.stderr
    assert "envcheck: 1 of 2 nodes failed the preflight checks: node02" in done.stderr
    assert "node02: gate.devices:" in done.stderr
    record = read_record(slurm)
    assert (record["state"], record["exit"]["code"], record["slurm"]["parts"]) == ("refused", 1, [])
    assert "node01" not in record["error"]
    assert "node02" in why.stdout and "--requeue-without-bad" in why.stdout, why
    assert not list(list_runs(slurm)[-1].glob("node-*/*/log"))
    assert {state.rstrip("*") for state in slurm.read_states().values()} <= {"idle", "comp"}


def test_jobs_that_wait_run_and_are_cancelled(slurm: SlurmCluster) -> None:
    """A pending job is listed with Slurm's reason; a running one is stopped on all nodes. `follow` waits for a job,
    reports its steps, and exits like the job; Ctrl-C ends only `follow`. Also when submitting from inside a job, or
    with variables that make squeue filter jobs."""
    first = run_train(slurm, "--detach", "--steps", "100000")
    done = [first, *(run_train(slurm, "--detach", "--json", around=WITHIN) for _ in range(2))]
    assert [one.returncode for one in done] == [0, 0, 0], [one.stderr for one in done]
    trains, waits, never = list_runs(slurm)[-3:]
    slurm.wait_until(lambda: len(list(trains.glob("node-*/*/log/workerlog.0"))) == 2)

    listed = slurm.run_command("env", "SQUEUE_PARTITION=nv", sys.executable, "-m", "envcheck", "runs").stdout
    page = slurm.run_envcheck("runs", "show", waits.name).stdout
    with (
        start_following(slurm, trains) as left,
        start_following(slurm, trains) as stays,
        start_following(slurm, waits) as comes,
    ):
        slurm.wait_until(
            lambda: (
                all(" of 100000, loss" in read_heard(one) for one in (left, stays))
                and "is pending" in read_heard(comes)
            )
        )
        left.child.send_signal(signal.SIGINT)
        codes = [left.child.wait(300)]
        still = slurm.run_envcheck("runs", "show", trains.name, "--json").stdout
        unbegun = slurm.run_envcheck("runs", "stop", never.name, "--yes")
        stopped = slurm.run_envcheck("runs", "stop", trains.name, "--yes")
        codes += [one.child.wait(120) for one in (stays, comes)]

    assert [line.split()[1] for line in listed.splitlines()[1:4]] == ["queued", "queued", "running"]
    assert "is pending: Resources" in page or "is pending: Priority" in page, page
    assert f"the run continues; stop it with envcheck runs stop {trains.name}" in read_heard(left)
    assert (json.loads(still)["state"], codes) == ("running", [130, 130, 0]), [*map(read_heard, (left, stays, comes))]
    assert stopped.returncode == 0 and "stopped (exit code 130)" in stopped.stdout, stopped
    assert "2 nodes stopped" in stopped.stdout and "2 nodes stopped" in read_heard(stays)
    assert "state       succeeded (exit code 0)" in read_heard(comes) and "step 5 of 5, loss" in read_heard(comes)
    assert (
        read_heard(comes).index("is pending:")
        < read_heard(comes).index("is running on node[01-02]")
        < read_heard(comes).index("step 5")
    )
    assert (unbegun.returncode, json.loads((never / "run.json").read_text())["state"]) == (0, "stopped")


def test_two_vendors_and_a_bad_node(slurm: SlurmCluster) -> None:
    """Each role is a component in its own partition with its own devices; NVIDIA is the master. A bad node is drained
    with a reason, and the job is requeued without it."""
    slurm.simulate_node("node04", "bi-v150x8", "driver-old")
    done = run_train(
        slurm, "--partition", "nv", "--partition", "ilu", "--requeue-without-bad", "--drain", method="mixed"
    )

    assert done.returncode == 0, done.stderr + read_log(slurm)
    script = (list_runs(slurm)[-1] / "job.sbatch").read_text()
    assert "--gres=gpu:h200:8" in script and "--gres=gpu:bi150:8" in script and "#SBATCH hetjob" in script
    assert "the job was requeued and excludes node04" in read_log(slurm)
    nvidia, iluvatar = (
        next(list_runs(slurm)[-1].glob(f"node-{rank}/*/log/launcher.log")).read_text() for rank in (0, 1)
    )
    assert f"--master {slurm.find_address('node03')}:29778 --rank 0" in nvidia and "as node03" in nvidia
    assert f"--master {slurm.find_address('node03')}:29778 --rank 1" in iluvatar and "as node05" in iluvatar
    reason = slurm.run_command("sinfo", "-R", "-h", "-o", "%E|%N").stdout
    assert reason.startswith("envcheck: driver.version: driver 3.1.0 is older than ") and reason.endswith("|node04\n")
