"""`envcheck train --on slurm` through a real Slurm: nodes are network namespaces, their cards a simulated machine's.

tests/launch/backends/slurm/test_slurm_300b.py has paddle's own launcher on eight of them.
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
from installers.recipes.recipes_file import load
from tests.launch.backends.slurm.slurm_parts import Cluster, cluster
from tests.launch.gates.test_gates_command import provisioned

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
# A launcher that stands in for paddle's: it says with what it was started, and makes steps.
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


def recipes(folder: Path) -> Path:
    """A folder with the recipe, whose program lies beside it."""
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
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes of Ascend, one of NVIDIA, two of Iluvatar; the recipe's software is on all of them."""
    folder = tmp_path_factory.mktemp("slurm")
    recipe = load(recipes(folder / "recipes") / "light.toml")
    provisioned(recipe, folder / "home" / "envcheck" / "environments" / "light")
    with cluster(folder, {"npu": (2, "npu:8"), "nv": (1, "gpu:h200:8"), "ilu": (2, "gpu:bi150:16")}) as made:
        yield made


@pytest.fixture
def slurm(site: Cluster) -> Iterator[Cluster]:
    """As it was at the beginning: all nodes well and free."""
    for name, machine in zip(site.names, ["atlas-800t-a2"] * 2 + ["h200x8"] + ["bi-v150x8"] * 2, strict=True):
        site.simulate(name, machine)
    yield site
    site.clean()


def train(
    slurm: Cluster, *more: str, method: str = "lora", around: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """`around` are further variables."""
    own = ("--recipe", "light", "--method", method, "--recipes", str(slurm.folder / "recipes"))
    argv = (sys.executable, "-m", "envcheck", "train", "--on", "slurm", *own, *more)
    return slurm.call("env", *around, *argv, timeout_s=120)


def runs(slurm: Cluster) -> list[Path]:
    return sorted(path.parent for path in slurm.folder.glob("runs/*/run.json"))


def record(slurm: Cluster) -> dict[str, Any]:
    """That of the newest run."""
    said: dict[str, Any] = json.loads((runs(slurm)[-1] / "run.json").read_text())
    return said


def log(slurm: Cluster) -> str:
    return (runs(slurm)[-1] / "log" / "slurm.log").read_text()


@dataclass
class Following:
    """An `envcheck runs follow`, and where its words go."""

    child: subprocess.Popen[bytes]
    said: Path


@contextlib.contextmanager
def following(slurm: Cluster, run: Path) -> Iterator[Following]:
    handle, name = tempfile.mkstemp(dir=slurm.folder, prefix="follow-")
    argv = slurm.argv(sys.executable, "-m", "envcheck", "runs", "follow", run.name)
    child = subprocess.Popen(
        argv, env=slurm.environment(), stdin=subprocess.DEVNULL, stdout=handle, stderr=subprocess.STDOUT
    )
    os.close(handle)
    try:
        yield Following(child, Path(name))
    finally:
        child.kill()
        child.wait()


def heard(one: Following) -> str:
    return one.said.read_text()


def test_a_job_runs(slurm: Cluster) -> None:
    """Two nodes look at themselves, meet, and start a launcher each, with the ranks and the address that Slurm gave;
    the job is one run, finished, and its steps were told as they came.  So it is where the site's --export hands on a
    few variables alone, and where sbatch's own variable asks for an array."""
    done = train(slurm, f"--sbatch=--export={EXPORT}", around=["SBATCH_ARRAY_INX=1-2"])

    assert done.returncode == 0, done.stderr + log(slurm)
    assert "step 5 of 5" in done.stderr
    said = record(slurm)
    assert (said["state"], [part["state"] for part in said["slurm"]["parts"]]) == ("finished", ["finished"] * 2)
    assert [step for step, _ in said["loss"]] == [1, 2, 3, 4, 5]
    jsonschema.validate(said, json.loads(schemas.text("run")))
    started = [path.read_text() for path in sorted(runs(slurm)[-1].glob("node-*/*/log/launcher.log"))]
    assert len(started) == 2
    for rank, (name, text) in enumerate(zip(("node01", "node02"), started, strict=True)):
        where = f"--master {slurm.address('node01')}:29777 --rank {rank} --host {slurm.address(name)}"
        assert where in text and f"as {name}" in text


def test_nodes_that_can_never_take_the_job(slurm: Cluster) -> None:
    """Where no node has as many cards as the job needs nothing is queued and no folder is made: exit code 1, with the
    nodes and the judge's own sentence.  The script can be read all the same, with exit code 1."""
    before = runs(slurm)
    shown = train(slurm, "--dry-run", method="sft")
    done = train(slurm, "--json", method="sft")
    said = json.loads(done.stdout)

    assert (done.returncode, said["state"], said["blocked_by"]) == (1, "refused", ["cards"]), done.stderr
    assert "blocked: light-sft needs 2 nodes that meet its requirements; found: npu 0/2, nv 0/1, ilu 0/2" in done.stderr
    assert "fail    node[01-02]: job.cards: " in done.stderr
    assert done.stderr.endswith("envcheck: nothing was submitted\n")
    assert (slurm.queue(), runs(slurm)) == ("", before)
    jsonschema.validate(said, json.loads(schemas.text("train-slurm")))
    assert (shown.returncode, shown.stdout.startswith("#!/usr/bin/env bash\n")) == (1, True)
    assert "fail    node[01-02]: job.cards: " in shown.stderr


def test_hosts_of_a_partition(slurm: Cluster) -> None:
    """--hosts @slurm:PARTITION are that partition's nodes, as sinfo has them."""
    done = slurm.envcheck(
        "doctor", "--hosts", "@slurm:npu,@slurm:ilu", "--exclude", "node04", "--deadline", "5", "--json"
    )

    assert list(json.loads(done.stdout)["hosts"]) == ["node01", "node02", "node05"], done.stderr


def test_a_bad_node_ends_the_job(slurm: Cluster) -> None:
    """A node that lost a card ends the job before anything started, and is named with what it saw, by explain too."""
    slurm.simulate("node02", "atlas-800t-a2", "card-lost=3")
    done = train(slurm)
    why = slurm.envcheck("explain", runs(slurm)[-1].name)

    assert done.returncode == 1, done.stderr
    assert "envcheck: 1 of 2 nodes are not fit: node02" in done.stderr
    assert "node02: gate.devices:" in done.stderr
    said = record(slurm)
    assert (said["state"], said["exit"]["code"], said["slurm"]["parts"]) == ("refused", 1, [])
    assert "node01" not in said["error"]
    assert "node02" in why.stdout and "--requeue-without-bad" in why.stdout, why
    assert not list(runs(slurm)[-1].glob("node-*/*/log"))
    assert {state.rstrip("*") for state in slurm.states().values()} <= {"idle", "comp"}


def test_jobs_that_wait_run_and_are_cancelled(slurm: Cluster) -> None:
    """A job that waits is seen to, with Slurm's reason; one that trains is stopped as on one machine, on all nodes.
    `follow` waits with a job, tells its steps as they come, and ends as the job does; Ctrl-C ends it alone.  Nothing of
    that hangs on whether one submits from within a job, or has squeue show a part of the queue."""
    first = train(slurm, "--detach", "--steps", "100000")
    done = [first, *(train(slurm, "--detach", "--json", around=WITHIN) for _ in range(2))]
    assert [one.returncode for one in done] == [0, 0, 0], [one.stderr for one in done]
    trains, waits, never = runs(slurm)[-3:]
    slurm.wait(lambda: len(list(trains.glob("node-*/*/log/workerlog.0"))) == 2)

    listed = slurm.call("env", "SQUEUE_PARTITION=nv", sys.executable, "-m", "envcheck", "runs").stdout
    page = slurm.envcheck("runs", "show", waits.name).stdout
    with following(slurm, trains) as left, following(slurm, trains) as stays, following(slurm, waits) as comes:
        slurm.wait(lambda: all(" of 100000, loss" in heard(one) for one in (left, stays)) and "waits" in heard(comes))
        left.child.send_signal(signal.SIGINT)
        codes = [left.child.wait(300)]
        still = slurm.envcheck("runs", "show", trains.name, "--json").stdout
        unbegun = slurm.envcheck("runs", "stop", never.name, "--yes")
        stopped = slurm.envcheck("runs", "stop", trains.name, "--yes")
        codes += [one.child.wait(120) for one in (stays, comes)]

    assert [line.split()[1] for line in listed.splitlines()[1:4]] == ["queued", "queued", "running"]
    assert "waits: Resources" in page or "waits: Priority" in page, page
    assert f"the run goes on; envcheck runs stop {trains.name} ends it" in heard(left)
    assert (json.loads(still)["state"], codes) == ("running", [130, 130, 0]), [*map(heard, (left, stays, comes))]
    assert stopped.returncode == 0 and "interrupted (exit 130)" in stopped.stdout, stopped
    assert "2 nodes interrupted" in stopped.stdout and "2 nodes interrupted" in heard(stays)
    assert "state       finished (exit 0)" in heard(comes) and "step 5 of 5, loss" in heard(comes)
    assert heard(comes).index("waits:") < heard(comes).index("runs on node[01-02]") < heard(comes).index("step 5")
    assert (unbegun.returncode, json.loads((never / "run.json").read_text())["state"]) == (0, "interrupted")


def test_two_vendors_and_a_bad_node(slurm: Cluster) -> None:
    """Each role is a component in its own partition, with its own cards, NVIDIA leading.  A bad node is out of use,
    with the reason for an operator, and the job goes on by itself: that node's component shuns it."""
    slurm.simulate("node04", "bi-v150x8", "card-lost=3")
    done = train(slurm, "--partition", "nv", "--partition", "ilu", "--requeue-without-bad", "--drain", method="mixed")

    assert done.returncode == 0, done.stderr + log(slurm)
    script = (runs(slurm)[-1] / "job.sbatch").read_text()
    assert "--gres=gpu:h200:8" in script and "--gres=gpu:bi150:8" in script and "#SBATCH hetjob" in script
    assert "the job is back in the queue, and shuns node04" in log(slurm)
    nvidia, iluvatar = (next(runs(slurm)[-1].glob(f"node-{rank}/*/log/launcher.log")).read_text() for rank in (0, 1))
    assert f"--master {slurm.address('node03')}:29778 --rank 0" in nvidia and "as node03" in nvidia
    assert f"--master {slurm.address('node03')}:29778 --rank 1" in iluvatar and "as node05" in iluvatar
    reason = slurm.call("sinfo", "-R", "-h", "-o", "%E|%N").stdout
    assert reason == "envcheck: devices.count: lspci 16, /dev 16, ixsmi 15|node04\n"
