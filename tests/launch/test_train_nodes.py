"""`envcheck train` on two nodes: network namespaces, the real launcher, and gloo's collectives between them."""

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

from tests.launch.node_parts import Node
from tests.launch.test_train import left, variables
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


class Trainer:
    """The command on one of the nodes, each in a folder of its own."""

    def __init__(self, home: Path, recipes: Path) -> None:
        self.home, self.recipes = home, recipes

    def argv(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "envcheck", *more, "--recipe", "two-nodes", "--recipes", str(self.recipes)]

    @contextmanager
    def start(self, node: Node, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
        folder.mkdir(exist_ok=True)
        limit = () if "--gather" in more else ("--gather", "60")
        argv = node.argv(*self.argv("train", "--master", "10.77.0.1", *limit, *more))
        with subprocess.Popen(
            argv, cwd=folder, env=variables(self.home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            try:
                yield child
            finally:
                child.kill()
                for process in left(folder):
                    process.kill()

    def both(
        self, pair: tuple[Node, Node], folder: Path, *more: tuple[str, ...], act: Callable[[], None] = lambda: None
    ) -> list[tuple[int, str, str]]:
        """(exit code, standard output, standard error) of each, started together."""
        with ExitStack() as stack:
            started = [
                stack.enter_context(self.start(node, folder / node.name, *words))
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
def trainer(paddle_environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """The recipe's own environment is empty: its launcher is the Python that has a paddle."""
    folder = tmp_path_factory.mktemp("two-nodes")
    (folder / "recipes").mkdir()
    (folder / "recipes" / "two.toml").write_text(RECIPE.format(python=paddle_environment / "bin" / "python"))
    made = Trainer(folder / "home", folder / "recipes")
    done = subprocess.run(
        made.argv("provision", "--yes"), env=variables(made.home), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def record(folder: Path) -> dict[str, Any]:
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


Pair = tuple[Node, Node]


@pytest.mark.parametrize(
    "ranks",
    [((("--rank", "0"), ("--rank", "1"))), pytest.param(((), ()), marks=pytest.mark.extended)],
    ids=("given", "automatic"),
)
def test_two_nodes_train(trainer: Trainer, nodes: Pair, tmp_path: Path, ranks: tuple[tuple[str, ...], ...]) -> None:
    """Four processes on two nodes train as one, with ranks that were given and with those that the meeting gives."""
    ends = trainer.both(nodes, tmp_path, *ranks)

    assert [code for code, _, _ in ends] == [0, 0], ends
    first, second = (record(tmp_path / node.name) for node in nodes)
    assert [step for step, _ in first["loss"]] == [1, 2, 3, 4, 5]
    assert "(node-b, 10.77.0.2) is here" in ends[0][2]
    assert first["command"][first["command"].index("--rank") + 1] == "0"
    assert second["command"][second["command"].index("--rank") + 1] == "1"
    assert second["command"][second["command"].index("--host") + 1] == "10.77.0.2"


def test_a_node_is_missing(trainer: Trainer, nodes: Pair, tmp_path: Path) -> None:
    """The one that came ends at its own limit and says who is missing, and nothing was started."""
    with trainer.start(nodes[0], tmp_path / "a", "--gather", "3") as child:
        _, err = child.communicate(timeout=300)

    assert child.returncode == 1, err
    assert "1 of 2 nodes came within 3 s: rank 1 missing" in err
    assert not list(tmp_path.glob("a/runs/*/run.json"))


def test_two_equal_ranks(trainer: Trainer, nodes: Pair, tmp_path: Path) -> None:
    """A second rank 0 is refused at once, and who waits for rank 1 ends at its limit."""
    ends = trainer.both(nodes, tmp_path, ("--rank", "0", "--gather", "5"), ("--rank", "0", "--gather", "100"))

    assert [code for code, _, _ in ends] == [1, 1], ends
    assert "rank 1 missing" in ends[0][2]
    assert "gate.master: 10.77.0.1 is no address of this machine" in ends[1][2]


def test_other_commands(trainer: Trainer, nodes: Pair, tmp_path: Path) -> None:
    """Nodes that were started with different options are no job."""
    ends = trainer.both(nodes, tmp_path, (), ("--steps", "7"))

    assert [code for code, _, _ in ends] == [1, 1], ends
    assert all("nodes.job" in err and "rank 1 (node-b" in err for _, _, err in ends), ends


def test_a_name_that_means_loopback(trainer: Trainer, nodes: Pair, tmp_path: Path) -> None:
    """A node whose own name leads to 127.0.0.1, at which paddle waits for ever, is refused before."""
    before = (nodes[1].etc / "hosts").read_text()
    nodes[1].hosts("127.0.0.1 localhost node-b\n")
    try:
        with trainer.start(nodes[1], tmp_path / "b", "--gather", "3") as child:
            _, err = child.communicate(timeout=60)
    finally:
        nodes[1].hosts(before)

    assert child.returncode == 1, err
    assert "gate.name" in err
    assert "127.0.0.1" in err


def test_a_name_that_means_loopback_beside_a_host(trainer: Trainer, nodes: Pair, tmp_path: Path) -> None:
    """Where --host says the address that is right, the launcher is told it: the name is a note, and the nodes train."""
    before = (nodes[1].etc / "hosts").read_text()
    nodes[1].hosts("127.0.0.1 localhost node-b\n")
    try:
        ends = trainer.both(nodes, tmp_path, (), ("--host", "10.77.0.2"))
    finally:
        nodes[1].hosts(before)

    assert [code for code, _, _ in ends] == [0, 0], ends
    assert "note: gate.name: the own name resolves to 127.0.0.1" in ends[1][2]


def test_a_closed_port(trainer: Trainer, nodes: Pair, tmp_path: Path) -> None:
    """Behind a firewall that drops, both end at their limit, and the outer one says that nothing answers."""
    rule = ("INPUT", "-p", "tcp", "--dport", "29777", "-j", "DROP")
    subprocess.run(nodes[0].argv("iptables", "-A", *rule), check=True, capture_output=True)
    try:
        ends = trainer.both(nodes, tmp_path, ("--gather", "4"), ("--gather", "4"))
    finally:
        subprocess.run(nodes[0].argv("iptables", "-D", *rule), check=True, capture_output=True)

    assert [code for code, _, _ in ends] == [1, 1], ends
    assert "no answer, as behind a firewall" in ends[1][2]
    assert "rank 1 missing" in ends[0][2]


def workers(folder: Path) -> list[psutil.Process]:
    """Of the run in this folder, the processes that train."""
    return [p for p in left(folder) if {"-u"} <= set(p.cmdline()[:2]) and p.cmdline()[2].endswith("tiny.py")]


@pytest.mark.parametrize("sign", thin_out(1, (signal.SIGKILL, signal.SIGSTOP)), ids=("killed", "hung"))
def test_a_worker_falls_out(trainer: Trainer, nodes: Pair, tmp_path: Path, sign: signal.Signals) -> None:
    """A worker that is killed, or that hangs, on one node ends the run on both, each with its own words: who was
    killed, that there is no progress, and on the other node that no worker there failed by itself."""

    def act() -> None:
        wait_for_step(tmp_path / "node-a", 3)
        workers(tmp_path / "node-b")[0].send_signal(sign)

    more = ("--steps", "100000", "--limit", "stalled.seconds=5")
    ends = trainer.both(nodes, tmp_path, more, more, act=act)

    assert [code for code, _, _ in ends] == [5, 5], ends
    words = [err for _, _, err in ends]
    if sign is signal.SIGKILL:
        assert "worker 0 failed first, ended by SIGKILL" in words[1], words
        assert "no worker here failed by itself" in words[0], words
        assert "look on the other nodes" in words[0], words
    else:  # node 0 tells the steps, so it sees that there are none; the other one loses its peers then
        assert "watch.stalled: no progress: no step for" in words[0], words
        assert (list(tmp_path.glob("node-a/runs/*/log/stack.*"))) != []
        assert "no worker here failed by itself: worker 1 was the first to end" in words[1], words
        assert "node-b/runs" in words[1].split("workerlog.1")[0], words
    assert not left(tmp_path)
