"""`envcheck train` over the real torchrun, as LLaMA-Factory and ms-swift start their workers: one node and two."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.launch.node_parts import Node
from tests.launch.test_train import left, record, variables

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
NODES = (
    '"--nnodes", "{{nodes}}", "--node_rank", "{{rank}}", "--master_addr", "{{master}}", "--master_port", "{{port}}", '
)
TRAINER = (
    '"--output_dir", "{{output}}", "--max_steps", "4", "--logging_steps", "1", "--save_strategy", "no", '
    '"--use_cpu", "true", "--report_to", "none", "--per_device_train_batch_size", "1"'
)
RECIPE = """
name = "torch"
title = "A small training by torchrun"
device = "cpu"
framework = "envcheck"
models = ["torch"]
source = "a test"
[hardware]
product = "any"
source = "a test"
[environment]
OMP_NUM_THREADS = "1"
{interface}
[[jobs]]
method = "lora"
title = "Two processes on each node"
source = "a test"
nodes = {nodes}
processes = 2
port = 29888
parallel = {{ data = {world} }}
launcher = ["{python}/torchrun", {where}"--nproc_per_node", "{{processes}}", "{program}"]
arguments = [{arguments}]
steps = {{ max = 5 }}
outputs = ["{{output}}"]
"""


class Torch:
    """The command with a recipe of its own, whose program torchrun starts."""

    def __init__(self, environment: Path, folder: Path, program: str, arguments: str, nodes: int = 1) -> None:
        self.folder = folder
        (folder / "recipes").mkdir()
        text = RECIPE.format(
            python=environment / "bin",
            program=HERE / program,
            arguments=arguments,
            nodes=nodes,
            world=2 * nodes,
            where=NODES.format() if nodes > 1 else '"--standalone", ',
            interface='GLOO_SOCKET_IFNAME = "eth0"' if nodes > 1 else "",
        )
        (folder / "recipes" / "torch.toml").write_text(text.replace("{{", "{").replace("}}", "}"))
        done = self.run("provision", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr

    def argv(self, verb: str, *more: str) -> list[str]:
        named = ("--recipe", "torch", "--recipes", str(self.folder / "recipes"))
        return [sys.executable, "-m", "envcheck", verb, *named, *more]

    def run(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        env = variables(self.folder / "home", PET_NNODES="7", MASTER_ADDR="10.9.9.9")  # another job's
        return subprocess.run(
            self.argv(verb, *more), cwd=self.folder, env=env, capture_output=True, text=True, timeout=150
        )

    @contextmanager
    def started(self, *more: str, node: Node | None = None) -> Iterator[subprocess.Popen[str]]:
        place = self.folder / node.name if node else self.folder
        place.mkdir(exist_ok=True)
        argv = self.argv("train", *more)
        with subprocess.Popen(
            node.argv(*argv) if node else argv,
            cwd=place,
            env=variables(self.folder / "home"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            try:
                yield child
            finally:
                child.kill()
                for process in left(place):
                    process.kill()


PLAIN = '"--steps", "5", "--output", "{{output}}"'


@pytest.fixture
def plain(torch_environment: Path, tmp_path: Path) -> Torch:
    return Torch(torch_environment, tmp_path, "torch_program.py", PLAIN)


def wait_for_step(folder: Path, child: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 240
    while not any("'step': 3" in log.read_text() for log in folder.glob("runs/*/log/launcher.log")):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < until
        time.sleep(0.2)


def worker(folder: Path, rank: str) -> psutil.Process:
    return next(p for p in left(folder) if p.environ().get("LOCAL_RANK") == rank)


def words(folder: Path) -> str:
    return "\n".join(log.read_text() for log in folder.glob("runs/*/log/launcher.log"))


def test_trainer_of_transformers(torch_environment: Path, tmp_path: Path) -> None:
    """A Trainer in two processes: its steps are read once each, and another job's variables are left out."""
    made = Torch(torch_environment, tmp_path, "trainer_program.py", TRAINER)
    done = made.run("train", "--json")

    assert done.returncode == 0, done.stderr + words(tmp_path)
    said = json.loads(done.stdout)
    assert [step for step, _ in said["loss"]] == [1, 2, 3, 4], words(tmp_path)
    assert all(3 < loss < 7 for _, loss in said["loss"])  # a guess among 128 tokens: ln 128 is 4.85
    assert {"PET_NNODES", "MASTER_ADDR"} <= set(said["left_out"]["stale"])
    assert left(tmp_path) == []


def test_worker_that_is_killed(plain: Torch, tmp_path: Path) -> None:
    """The killed one is named, not its peer that lost the connection, nor torchrun's own status."""
    with plain.started("--steps", "100000") as child:
        wait_for_step(tmp_path, child)
        worker(tmp_path, "1").kill()
        _, err = child.communicate(timeout=90)

    assert child.returncode == 5, err
    assert "worker 1 failed first, ended by SIGKILL" in err
    failed = record(tmp_path)["first_failed_worker"]
    assert (failed["rank"], failed["code"]) == (1, -9)
    assert left(tmp_path) == []


def test_worker_that_fails(torch_environment: Path, tmp_path: Path) -> None:
    """A worker's own last words, though all write into one log, and not those of the one that lost it."""
    made = Torch(torch_environment, tmp_path, "torch_program.py", f'{PLAIN}, "--fails", "1"')
    done = made.run("train", "--steps", "1000")

    assert done.returncode == 5, done.stderr
    failed = record(tmp_path)["first_failed_worker"]
    assert (failed["rank"], failed["code"]) == (1, 1)
    assert failed["lines"][-1] == "ValueError: this rank has had enough"
    assert "worker 1 failed first, with code 1" in done.stderr
    assert "  | ValueError: this rank has had enough" in done.stderr


@pytest.mark.extended
def test_worker_that_fails_without_its_rank(torch_environment: Path, tmp_path: Path) -> None:
    """Words that nothing says are this worker's are told all the same, and that the workers share the log."""
    made = Torch(torch_environment, tmp_path, "torch_program.py", f'{PLAIN}, "--fails", "1", "--bare"')
    done = made.run("train", "--steps", "1000")

    assert done.returncode == 5, done.stderr
    failed = record(tmp_path)["first_failed_worker"]
    assert (failed["rank"], failed["code"], failed["shared"]) == (1, 1, True)
    assert "ValueError: this rank has had enough" in failed["lines"]
    assert "the last words in the log that the workers share" in done.stderr
    assert "  | ValueError: this rank has had enough" in done.stderr


@pytest.mark.extended
def test_interrupt(plain: Torch, tmp_path: Path) -> None:
    """Ctrl-C ends torchrun and its workers, and nothing is left."""
    with plain.started("--steps", "100000") as child:
        wait_for_step(tmp_path, child)
        running = left(tmp_path)
        child.send_signal(signal.SIGINT)
        code = child.wait(300)

    assert len(running) >= 3
    assert (code, record(tmp_path)["state"]) == (130, "interrupted")
    assert left(tmp_path) == []


def test_two_nodes(torch_environment: Path, nodes: tuple[Node, Node], tmp_path: Path) -> None:
    """Four processes on two nodes add up as one job, with the ranks that the meeting gave."""
    made = Torch(torch_environment, tmp_path, "torch_program.py", PLAIN, nodes=2)
    master = ("--master", nodes[0].address)
    with made.started(*master, node=nodes[0]) as first, made.started(*master, node=nodes[1]) as second:
        ends = [child.communicate(timeout=120) for child in (first, second)]

    assert (first.returncode, second.returncode) == (0, 0), ends
    losses = [loss for _, loss in record(tmp_path / "node-a")["loss"]]
    assert len(losses) == 5
    assert losses[-1] < losses[0]
    told = "".join(log.read_text() for log in tmp_path.glob("node-b/runs/*/log/launcher.log"))
    assert "rank 2 of 4: the sum of the ranks is 6" in told
    assert "rank 3 of 4: the sum of the ranks is 6" in told


@pytest.mark.extended
def test_two_nodes_and_a_worker_is_killed(torch_environment: Path, nodes: tuple[Node, Node], tmp_path: Path) -> None:
    """The node of the killed worker names it by its number there; the other says that none of its own failed by
    itself."""
    made = Torch(torch_environment, tmp_path, "torch_program.py", PLAIN, nodes=2)
    more = ("--master", nodes[0].address, "--steps", "100000")
    with made.started(*more, node=nodes[0]) as first, made.started(*more, node=nodes[1]) as second:
        wait_for_step(tmp_path / "node-a", first)
        worker(tmp_path / "node-b", "1").kill()
        words = [child.communicate(timeout=120)[1] for child in (first, second)]

    assert (first.returncode, second.returncode) == (5, 5), words
    assert "worker 1 failed first, ended by SIGKILL" in words[1], words
    assert "no worker here failed by itself" in words[0], words
    assert left(tmp_path) == []
