"""Doctor's next step on this machine, executed as printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.real
def test_the_next_step_of_a_provisioned_machine_runs(paddle_home: Path, tmp_path: Path) -> None:
    """The last command that doctor prints trains the provisioned recipe."""
    env = {**os.environ, "ENVCHECK_HOME": str(paddle_home), "PYTHONPATH": str(ROOT)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "envcheck", *words]
        return subprocess.run(
            argv, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
        )

    told = run("doctor", "--device", "cpu", "--only", "host.memory")
    (line,) = re.findall(r"^Next: (envcheck .*)$", told.stdout, re.M)

    done = run(*shlex.split(line)[1:])

    assert line == "envcheck train --recipe tiny-cpu --method lora"
    assert done.returncode == 0, done.stderr
