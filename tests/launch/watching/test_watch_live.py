"""Cards that become unhealthy during `envcheck train` on a simulated machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envcheck.simulate import faults, machine_file, simulated_run
from tests.tiers import thin_out

pytestmark = pytest.mark.slow

ENVCHECK = (sys.executable, "-m", "envcheck")
RECIPE = """
name = "turning"
title = "Steps of a test"
device = "npu"
framework = "envcheck"
models = ["tiny"]
source = "a test"
interpreter = { value = "python3", source = "a test" }
python = { value = ">=3.8", source = "a test" }

[hardware]
product = "Ascend 910B"
source = "a test"
cards = { value = 2, source = "a test" }
memory_gib = { value = 2, source = "a test" }

[[jobs]]
method = "lora"
title = "steps"
source = "a test"
processes = 2
launcher = ["{python}", "{data}"]
data = ["{data}"]
outputs = ["{output}"]
steps = { max = 2000 }
"""
PROGRAM = """
import time
for step in range(1, 2001):
    print(f"[    INFO] - loss: {5 - step / 1000}, learning_rate: 1e-05, global_step: {step}", flush=True)
    time.sleep(0.1)
"""


@dataclass
class WatchedRun:
    """An active run in `folder` on the simulated machine in `there`."""

    folder: Path
    there: Path
    home: Path
    process: subprocess.Popen[str] | None = None

    def start_run(self, *more: str) -> None:
        argv = [*ENVCHECK, "train", "--recipe", "turning", "--recipes", str(self.home / "own"), *more]
        argv += ["--data", "program.py"]
        env = simulated_run.make_environment(self.there) | {"ENVCHECK_HOME": str(self.home)}
        self.process = subprocess.Popen(argv, cwd=self.folder, env=env, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 120
        while "global_step: 3\n" not in self.read_log() and time.monotonic() < until and self.process.poll() is None:
            time.sleep(0.1)

    def read_log(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("runs/*/log/*.log"))

    def change_machine(self, *wishes: str) -> None:
        """Add faults to the simulated machine."""
        made = faults.apply_faults(
            machine_file.load_machine("atlas-800t-a2"), [faults.parse_fault(wish) for wish in wishes]
        )
        with simulated_run.write_machine_folder(made, self.folder / "turned") as other:
            for path in sorted((other / "answers" / "npu-smi").iterdir()):
                new = path.with_suffix(".new")
                shutil.copy(path, new)
                new.replace(self.there / "answers" / "npu-smi" / path.name)

    def finish_run(self) -> tuple[int, str, dict[str, Any]]:
        assert self.process
        _, told = self.process.communicate(timeout=120)
        (record,) = self.folder.glob("runs/*/run.json")
        return self.process.returncode, told, json.loads(record.read_text())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe's environment: only a Python."""
    folder = tmp_path_factory.mktemp("turning")
    (folder / "own").mkdir()
    (folder / "own/turning.toml").write_text(RECIPE)
    with simulated_run.write_machine_folder(machine_file.load_machine("atlas-800t-a2"), folder / "there") as there:
        argv = [*ENVCHECK, "provision", "--recipe", "turning", "--recipes", "own", "--yes"]
        env = simulated_run.make_environment(there) | {"ENVCHECK_HOME": str(folder)}
        subprocess.run(argv, cwd=folder, env=env, check=True, capture_output=True)
    return folder


@pytest.fixture
def bench(tmp_path: Path, home: Path) -> Iterator[WatchedRun]:
    """Eight idle 910B cards; the job uses the first two."""
    (tmp_path / "program.py").write_text(PROGRAM)
    with simulated_run.write_machine_folder(machine_file.load_machine("atlas-800t-a2"), tmp_path / "there") as there:
        bench = WatchedRun(tmp_path, there, home)
        yield bench
    if bench.process and bench.process.poll() is None:
        bench.process.terminate()
        bench.process.wait(30)


@pytest.mark.parametrize(
    ("wishes", "name", "words"),
    thin_out(
        1,
        [
            (("health-alarm=1",), "health", ("a card became unhealthy", "card 1 changed from OK to Alarm")),
            (("memory-held=61500",), "memory", ("memory is almost exhausted", "card 0 uses 9", "GiB of 64 GiB")),
        ],
    ),
)
def test_card_turns(bench: WatchedRun, wishes: tuple[str, ...], name: str, words: tuple[str, ...]) -> None:
    """A card that becomes unhealthy or full ends the run: exit code 5, evidence and record."""
    bench.start_run()
    bench.change_machine(*wishes)
    code, told, said = bench.finish_run()

    assert code == 5, told
    for part in (f"watch.{name}: ", "stopped by a stop rule after", "next: ", f"--no-stop {name}", *words):
        assert part in told
    assert (said["state"], said["exit"]["code"], said["stopped"]["name"]) == ("stopped", 5, f"watch.{name}")
    assert words[1] in said["stopped"]["seen"]
    assert 3 <= said["loss"][-1][0] < 2000


def test_a_constant_loss_is_told_while_it_runs(bench: WatchedRun) -> None:
    """A warning is shown during the run and recorded, and with --stop it ends the run."""
    (bench.folder / "program.py").write_text(PROGRAM.replace("5 - step / 1000", "5.545"))
    bench.start_run("--stop", "flat", "--devices", "2,3")
    code, told, said = bench.finish_run()

    assert code == 5, told
    assert "devices 2-3: selected with --devices" in told
    assert "watch.flat: the loss does not change: 5.545 in 30 lines of the log" in told
    assert [found["name"] for found in said["warnings"]] == ["watch.flat"]
    assert said["stopped"]["name"] == "watch.flat"
    assert said["plan"]["devices"] == [2, 3]
