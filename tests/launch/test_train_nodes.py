"""`envcheck train` on two nodes: network namespaces, paddle's launcher and gloo's collectives."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.launch.node_parts import NetworkNode
from tests.launch.test_train import list_remaining_processes, make_variables
from tests.tiers import thin_out

pytestmark = pytest.mark.real

RECIPE = """
name = "two-nodes"
title = "Our tiny model on two nodes"
device = "cpu"
framework = "envcheck"
models = ["two"]
source = "a test"
[hardware]
product = "any"
source = "a test"
[environment]
OMP_NUM_THREADS = "1"
GLOO_SOCKET_IFNAME = "eth0"
[[jobs]]
method = "lora"
title = "LoRA in four processes"
source = "a test"
nodes = 2
processes = 2
port = 29777
parallel = {{ data = 4 }}
launcher = [
  "{python}", "-m", "paddle.distributed.launch", "--nproc_per_node", "{{processes}}",
  "--nnodes", "{{nodes}}", "--master", "{{master}}:{{port}}", "--rank", "{{rank}}", "--host", "{{host}}",
  "--log_dir", "{{log_dir}}", "{{program}}",
]
arguments = [
  "--device", "cpu", "--steps", "5", "--batch", "2", "--seq", "16", "--output", "{{output}}", "--data", "{{data}}",
]
steps = {{ max = 5 }}
data = ["{{data}}"]
outputs = ["{{output}}"]
"""


class NodeTrainCommand:
    """The command on both nodes, each in its own folder."""

    def __init__(self, home: Path, recipes: Path) -> None:
        self.home, self.recipes = home, recipes

    def make_argv(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "envcheck", *more, "--recipe", "two-nodes", "--recipes", str(self.recipes)]

    @contextmanager
    def start_training(self, node: NetworkNode, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
        folder.mkdir(exist_ok=True)
        limit = () if "--gather" in more else ("--gather", "60")
        argv = node.make_argv(*self.make_argv("train", "--master", "10.77.0.1", *limit, *more))
        with subprocess.Popen(
            argv, cwd=folder, env=make_variables(self.home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            try:
                yield child
            finally:
                child.kill()
                for process in list_remaining_processes(folder):
                    process.kill()

    def run_on_both(
        self,
        pair: tuple[NetworkNode, NetworkNode],
        folder: Path,
        *more: tuple[str, ...],
        act: Callable[[], None] = lambda: None,
    ) -> list[tuple[int, str, str]]:
        """Start all commands together; return (exit code, standard output, standard error) of each."""
        with ExitStack() as stack:
            started = [
                stack.enter_context(self.start_training(node, folder / node.name, *words))
                for node, words in zip(pair, more, strict=True)
            ]
            try:
                act()
            except AssertionError as err:
                for child in started:
                    child.terminate()
                raise AssertionError(f"{err}: {[child.communicate(timeout=60) for child in started]}") from None
            told = [child.communicate(timeout=150) for child in started]
            return [(child.returncode, *words) for child, words in zip(started, told, strict=True)]


@pytest.fixture(scope="module")
def trainer(paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> NodeTrainCommand:
    """The recipe's environment is empty: its launcher is a Python with paddle."""
    folder = tmp_path_factory.mktemp("two-nodes")
    (folder / "recipes").mkdir()
    (folder / "recipes" / "two.toml").write_text(RECIPE.format(python=paddle_environment / "bin" / "python"))
    made = NodeTrainCommand(folder / "home", folder / "recipes")
    done = subprocess.run(
        made.make_argv("provision", "--yes"), env=make_variables(made.home), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def read_record(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("runs/*/run.json")
    said: dict[str, Any] = json.loads(path.read_text())
    return said


def wait_for_step(folder: Path, number: int, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if any(f'"step": {number},' in log.read_text() for log in folder.glob("runs/*/log/workerlog.0")):
            return
        time.sleep(0.2)
    raise AssertionError("no step was made")


Pair = tuple[NetworkNode, NetworkNode]


@pytest.mark.parametrize(
    "ranks",
    [((("--rank", "0"), ("--rank", "1"))), pytest.param(((), ()), marks=pytest.mark.extended)],
    ids=("given", "automatic"),
)
def test_two_nodes_train(
    trainer: NodeTrainCommand, nodes: Pair, tmp_path: Path, ranks: tuple[tuple[str, ...], ...]
) -> None:
    """Four processes on two nodes train one model, with given ranks and with ranks from the rendezvous."""
    ends = trainer.run_on_both(nodes, tmp_path, *ranks)

    assert [code for code, _, _ in ends] == [0, 0], ends
    first, second = (read_record(tmp_path / node.name) for node in nodes)
    assert [step for step, _ in first["loss"]] == [1, 2, 3, 4, 5]
    assert "joined: rank 1 (node-b, 10.77.0.2)" in ends[0][2]
    assert first["command"][first["command"].index("--rank") + 1] == "0"
    assert second["command"][second["command"].index("--rank") + 1] == "1"
    assert second["command"][second["command"].index("--host") + 1] == "10.77.0.2"


def test_a_node_is_missing(trainer: NodeTrainCommand, nodes: Pair, tmp_path: Path) -> None:
    """A single node ends at the time limit and names the missing one; nothing is started."""
    with trainer.start_training(nodes[0], tmp_path / "a", "--gather", "3") as child:
        _, err = child.communicate(timeout=300)

    assert child.returncode == 1, err
    assert "only 1 of 2 nodes joined within 3 s; missing: rank 1" in err
    assert not list(tmp_path.glob("a/runs/*/run.json"))


def test_two_equal_ranks(trainer: NodeTrainCommand, nodes: Pair, tmp_path: Path) -> None:
    """A second rank 0 is refused immediately; the first ends at the time limit."""
    ends = trainer.run_on_both(nodes, tmp_path, ("--rank", "0", "--gather", "5"), ("--rank", "0", "--gather", "100"))

    assert [code for code, _, _ in ends] == [1, 1], ends
    assert "missing: rank 1" in ends[0][2]
    assert "gate.master: 10.77.0.1 is not an address of this machine" in ends[1][2]


def test_other_commands(trainer: NodeTrainCommand, nodes: Pair, tmp_path: Path) -> None:
    """Nodes with different options are refused."""
    ends = trainer.run_on_both(nodes, tmp_path, (), ("--steps", "7"))

    assert [code for code, _, _ in ends] == [1, 1], ends
    assert all("nodes.job" in err and "rank 1 (node-b" in err for _, _, err in ends), ends


def test_a_name_that_means_loopback(trainer: NodeTrainCommand, nodes: Pair, tmp_path: Path) -> None:
    """A node whose name resolves to 127.0.0.1, with which paddle hangs, is refused."""
    before = (nodes[1].etc_folder / "hosts").read_text()
    nodes[1].write_hosts("127.0.0.1 localhost node-b\n")
    try:
        with trainer.start_training(nodes[1], tmp_path / "b", "--gather", "3") as child:
            _, err = child.communicate(timeout=60)
    finally:
        nodes[1].write_hosts(before)

    assert child.returncode == 1, err
    assert "gate.name" in err
    assert "127.0.0.1" in err


def test_a_loopback_name_with_host(trainer: NodeTrainCommand, nodes: Pair, tmp_path: Path) -> None:
    """With the right address in --host the name is only a note, and the nodes train."""
    before = (nodes[1].etc_folder / "hosts").read_text()
    nodes[1].write_hosts("127.0.0.1 localhost node-b\n")
    try:
        ends = trainer.run_on_both(nodes, tmp_path, (), ("--host", "10.77.0.2"))
    finally:
        nodes[1].write_hosts(before)

    assert [code for code, _, _ in ends] == [0, 0], ends
    assert "note: gate.name: the host name resolves to 127.0.0.1" in ends[1][2]


def test_a_closed_port(trainer: NodeTrainCommand, nodes: Pair, tmp_path: Path) -> None:
    """Behind a firewall that drops packets both end at the time limit; the outer node reports no response."""
    rule = ("INPUT", "-p", "tcp", "--dport", "29777", "-j", "DROP")
    subprocess.run(nodes[0].make_argv("iptables", "-A", *rule), check=True, capture_output=True)
    try:
        ends = trainer.run_on_both(nodes, tmp_path, ("--gather", "4"), ("--gather", "4"))
    finally:
        subprocess.run(nodes[0].make_argv("iptables", "-D", *rule), check=True, capture_output=True)

    assert [code for code, _, _ in ends] == [1, 1], ends
    assert "no response, possibly blocked by a firewall" in ends[1][2]
    assert "missing: rank 1" in ends[0][2]


def list_workers(folder: Path) -> list[psutil.Process]:
    """Return the worker processes of the run in this folder."""
    return [
        p
        for p in list_remaining_processes(folder)
        if {"-u"} <= set(p.cmdline()[:2]) and p.cmdline()[2].endswith("tiny.py")
    ]


@pytest.mark.parametrize("sign", thin_out(1, (signal.SIGKILL, signal.SIGSTOP)), ids=("killed", "hung"))
def test_a_worker_falls_out(trainer: NodeTrainCommand, nodes: Pair, tmp_path: Path, sign: signal.Signals) -> None:
    """A killed or hanging worker ends the run on both nodes; the other reports no failed worker of its own."""

    def act() -> None:
        wait_for_step(tmp_path / "node-a", 3)
        list_workers(tmp_path / "node-b")[0].send_signal(sign)

    more = ("--steps", "100000", "--limit", "stalled.seconds=5")
    ends = trainer.run_on_both(nodes, tmp_path, more, more, act=act)

    assert [code for code, _, _ in ends] == [5, 5], ends
    words = [err for _, _, err in ends]
    if sign is signal.SIGKILL:
        assert "worker 0 failed first, killed by SIGKILL" in words[1], words
        assert "no worker on this node failed first" in words[0], words
        assert "check the other nodes" in words[0], words
    else:  # node 0 reports the steps and detects the stall; the other node then loses its peers
        assert "watch.stalled: no progress: no step for" in words[0], words
        assert (list(tmp_path.glob("node-a/runs/*/log/stack.*"))) != []
        assert "no worker on this node failed first: worker 1 ended first" in words[1], words
        assert "node-b/runs" in words[1].split("workerlog.1")[0], words
    assert not list_remaining_processes(tmp_path)
