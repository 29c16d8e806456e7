"""`envcheck train` with torchrun, as used by LLaMA-Factory and ms-swift: one node and two."""

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

from tests.launch.node_parts import NetworkNode
from tests.launch.test_train import list_remaining_processes, make_variables, read_record

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


class TorchTraining:
    """The command with a recipe whose program torchrun starts."""

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
        done = self.run_command("provision", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr

    def make_argv(self, verb: str, *more: str) -> list[str]:
        named = ("--recipe", "torch", "--recipes", str(self.folder / "recipes"))
        return [sys.executable, "-m", "envcheck", verb, *named, *more]

    def run_command(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        env = make_variables(self.folder / "home", PET_NNODES="7", MASTER_ADDR="10.9.9.9")  # another job's
        return subprocess.run(
            self.make_argv(verb, *more), cwd=self.folder, env=env, capture_output=True, text=True, timeout=150
        )

    @contextmanager
    def start_training(self, *more: str, node: NetworkNode | None = None) -> Iterator[subprocess.Popen[str]]:
        place = self.folder / node.name if node else self.folder
        place.mkdir(exist_ok=True)
        argv = self.make_argv("train", *more)
        with subprocess.Popen(
            node.make_argv(*argv) if node else argv,
            cwd=place,
            env=make_variables(self.folder / "home"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            try:
                yield child
            finally:
                child.kill()
                for process in list_remaining_processes(place):
                    process.kill()


PLAIN = '"--steps", "5", "--output", "{{output}}"'


@pytest.fixture
def plain(torch_environment: Path, tmp_path: Path) -> TorchTraining:
    return TorchTraining(torch_environment, tmp_path, "torch_program.py", PLAIN)


def wait_for_step(folder: Path, child: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 240
    while not any("'step': 3" in log.read_text() for log in folder.glob("runs/*/log/launcher.log")):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < until
        time.sleep(0.2)


def find_worker(folder: Path, rank: str) -> psutil.Process:
    return next(p for p in list_remaining_processes(folder) if p.environ().get("LOCAL_RANK") == rank)


def read_launcher_log(folder: Path) -> str:
    return "\n".join(log.read_text() for log in folder.glob("runs/*/log/launcher.log"))


def test_trainer_of_transformers(torch_environment: Path, tmp_path: Path) -> None:
    """Trainer in two processes: each step is read once; variables of another job are removed."""
    made = TorchTraining(torch_environment, tmp_path, "trainer_program.py", TRAINER)
    done = made.run_command("train", "--json")

    assert done.returncode == 0, done.stderr + read_launcher_log(tmp_path)
    said = json.loads(done.stdout)
    assert [step for step, _ in said["loss"]] == [1, 2, 3, 4], read_launcher_log(tmp_path)
    assert all(3 < loss < 7 for _, loss in said["loss"])  # a guess among 128 tokens: ln 128 is 4.85
    assert {"PET_NNODES", "MASTER_ADDR"} <= set(said["dropped_variables"]["stale"])
    assert list_remaining_processes(tmp_path) == []


def test_worker_that_is_killed(plain: TorchTraining, tmp_path: Path) -> None:
    """The killed worker is named, not its peer that lost the connection, nor torchrun's exit code."""
    with plain.start_training("--steps", "100000") as child:
        wait_for_step(tmp_path, child)
        find_worker(tmp_path, "1").kill()
        _, err = child.communicate(timeout=90)

    assert child.returncode == 5, err
    assert "worker 1 failed first, killed by SIGKILL" in err
    failed = read_record(tmp_path)["first_failed_worker"]
    assert (failed["rank"], failed["code"]) == (1, -9)
    assert list_remaining_processes(tmp_path) == []


def test_worker_that_fails(torch_environment: Path, tmp_path: Path) -> None:
    """The output of the failed worker is shown although all workers share one log."""
    made = TorchTraining(torch_environment, tmp_path, "torch_program.py", f'{PLAIN}, "--fails", "1"')
    done = made.run_command("train", "--steps", "1000")

    assert done.returncode == 5, done.stderr
    failed = read_record(tmp_path)["first_failed_worker"]
    assert (failed["rank"], failed["code"]) == (1, 1)
    assert failed["lines"][-1] == "ValueError: this rank has had enough"
    assert "worker 1 failed first, exit code 1" in done.stderr
    assert "  | ValueError: this rank has had enough" in done.stderr


@pytest.mark.extended
def test_worker_that_fails_without_its_rank(torch_environment: Path, tmp_path: Path) -> None:
    """Output without a rank is shown with a note that the workers share the log."""
    made = TorchTraining(torch_environment, tmp_path, "torch_program.py", f'{PLAIN}, "--fails", "1", "--bare"')
    done = made.run_command("train", "--steps", "1000")

    assert done.returncode == 5, done.stderr
    failed = read_record(tmp_path)["first_failed_worker"]
    assert (failed["rank"], failed["code"], failed["shared"]) == (1, 1, True)
    assert "ValueError: this rank has had enough" in failed["lines"]
    assert "last output in the log shared by all workers:" in done.stderr
    assert "  | ValueError: this rank has had enough" in done.stderr


@pytest.mark.extended
def test_interrupt(plain: TorchTraining, tmp_path: Path) -> None:
    """Ctrl-C ends torchrun and its workers; no process remains."""
    with plain.start_training("--steps", "100000") as child:
        wait_for_step(tmp_path, child)
        running = list_remaining_processes(tmp_path)
        child.send_signal(signal.SIGINT)
        code = child.wait(300)

    assert len(running) >= 3
    assert (code, read_record(tmp_path)["state"]) == (130, "stopped")
    assert list_remaining_processes(tmp_path) == []


def test_two_nodes(torch_environment: Path, nodes: tuple[NetworkNode, NetworkNode], tmp_path: Path) -> None:
    """Four processes on two nodes work as one job, with ranks from the rendezvous."""
    made = TorchTraining(torch_environment, tmp_path, "torch_program.py", PLAIN, nodes=2)
    master = ("--master", nodes[0].address)
    with made.start_training(*master, node=nodes[0]) as first, made.start_training(*master, node=nodes[1]) as second:
        ends = [child.communicate(timeout=120) for child in (first, second)]

    assert (first.returncode, second.returncode) == (0, 0), ends
    losses = [loss for _, loss in read_record(tmp_path / "node-a")["loss"]]
    assert len(losses) == 5
    assert losses[-1] < losses[0]
    told = "".join(log.read_text() for log in tmp_path.glob("node-b/runs/*/log/launcher.log"))
    assert "rank 2 of 4: the sum of the ranks is 6" in told
    assert "rank 3 of 4: the sum of the ranks is 6" in told


@pytest.mark.extended
def test_two_nodes_and_a_worker_is_killed(
    torch_environment: Path, nodes: tuple[NetworkNode, NetworkNode], tmp_path: Path
) -> None:
    """The node of the killed worker names its local rank; the other reports no failed worker of its own."""
    made = TorchTraining(torch_environment, tmp_path, "torch_program.py", PLAIN, nodes=2)
    more = ("--master", nodes[0].address, "--steps", "100000")
    with made.start_training(*more, node=nodes[0]) as first, made.start_training(*more, node=nodes[1]) as second:
        wait_for_step(tmp_path / "node-a", first)
        find_worker(tmp_path / "node-b", "1").kill()
        words = [child.communicate(timeout=120)[1] for child in (first, second)]

    assert (first.returncode, second.returncode) == (5, 5), words
    assert "worker 1 failed first, killed by SIGKILL" in words[1], words
    assert "no worker on this node failed first" in words[0], words
    assert list_remaining_processes(tmp_path) == []


def test_own_command_of_torchrun(torch_environment: Path, tmp_path: Path) -> None:
    """`train -- torchrun ...` runs two processes on the CPU as typed, and ends in a record with the loss curve."""
    command = [str(torch_environment / "bin" / "torchrun"), "--standalone", "--nproc_per_node", "2"]
    command += [str(HERE / "torch_program.py"), "--steps", "5", "--output", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "envcheck", "train", "--json", "--", *command],
        cwd=tmp_path,
        env=make_variables(tmp_path / "home", OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr + read_launcher_log(tmp_path)
    said = json.loads(done.stdout)
    assert (said["state"], said["command"], said["plan"]["processes"]) == ("succeeded", command, 2)
    assert [step for step, _ in said["loss"]] == [1, 2, 3, 4, 5]
    assert list(tmp_path.glob("runs/*/loss.svg"))
    assert list_remaining_processes(tmp_path) == []
