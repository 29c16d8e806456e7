"""The worker that failed first, despite launcher exit codes 241, 247 and 7, with both paddle versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envcheck.job.command import render_command
from installers.recipes.recipe import Hardware, Recipe, RecipeJob
from launch.run import launcher, process_tree
from launch.run.host_stage import HostStage
from launch.targets import clean_environment
from tests.launch.real_parts import PaddleEnvironment
from tests.tiers import thin_out

pytestmark = pytest.mark.real

PROGRAM = """
import os, signal, sys, time
rank = os.environ["PADDLE_TRAINER_ID"]
print("worker", rank, "began", flush=True)
{does}
time.sleep(300)
"""
EXITS = 'if rank == "{rank}":\n    time.sleep({after})\n    print("mine", rank, flush=True)\n    os._exit({code})'
# The higher rank first; the other one when that has gone for a second, however late it began itself.
BOTH = """
from pathlib import Path
gone = Path(__file__).with_name("gone")
if rank == "1":
    time.sleep(1)
    gone.touch()
    os._exit(5)
while not gone.exists():
    time.sleep(0.02)
time.sleep(1)
print("mine", rank, flush=True)
os._exit(3)
"""
KILLED = 'if rank == "{rank}":\n    time.sleep(1)\n    os.kill(os.getpid(), signal.SIGKILL)'
LAUNCH = ("{python}", "-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--log_dir", "{log_dir}")


def run_training(paddle: PaddleEnvironment, run: Path, does: str) -> launcher.TrainingEnd:
    (run / "log").mkdir()
    (run / "program.py").write_text(PROGRAM.format(does=does))
    job = RecipeJob("sft", "", (*LAUNCH, str(run / "program.py")), processes=2)
    recipe = Recipe("own", "", "cpu", "envcheck", ("x",), Hardware("any"), (job,))
    made = render_command(recipe, job, {"python": str(paddle.python_path), "log_dir": str(run / "log")})
    tidy = clean_environment.clean_variables(os.environ, made, "cpu", str(run))
    return launcher.launch_training(HostStage(recipe, None), made, tidy, run, lambda step: None, 120)


# Each with the statuses of the launcher: 241 besides where it is slow, and we end it for not noticing.
CASES = {
    # rank 0 is healthy, and it is rank 0's end by SIGTERM that the launcher reports: -15, as a byte 241
    "fails": (EXITS.format(rank=1, after=1, code=7), {241, 7}, 1, 7),
    # -9 as a byte is 247
    "killed": (KILLED.format(rank=0), {247, 241}, 0, -9),
    "killed beside a healthy one": (KILLED.format(rank=1), {247, 241}, 1, -9),
    # both fail, the higher one first, before the launcher has looked: it names the lower one
    "both": (BOTH, {3, 5, 241}, 1, 5),
}


@pytest.mark.parametrize(
    ("version", "case"), thin_out(2, [*(("3.1", case) for case in CASES), ("3.3", "fails"), ("3.3", "both")])
)
def test_first_failed_worker(paddles: dict[str, PaddleEnvironment], version: str, case: str, tmp_path: Path) -> None:
    """The worker that failed first is named with its exit code and output, whatever the launcher's exit code is."""
    does, statuses, rank, code = CASES[case]
    end = run_training(paddles[version], tmp_path, does)

    assert end.how == "failed"
    assert end.failed
    assert (end.failed.rank, end.failed.code, end.failed.log) == (rank, code, f"workerlog.{rank}")
    assert any(f"worker {rank} began" in line for line in end.failed.lines)
    assert (end.status or 0) % 256 in statuses
    assert process_tree.find_survivors(tmp_path) == []
