"""Scripts run by bash among stand-ins of the training programs, which write down what they were started with."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from envcheck.job.command import BLANKS, TrainingCommand
from envcheck.job.script import script as as_script

# What a job platform or an earlier run leaves behind; none of it may reach the program.
STALE = (
    "PADDLE_MASTER",
    "PADDLE_TRAINER_ID",
    "PADDLE_TRAINER_ENDPOINTS",
    "PADDLE_NNODES",
    "FLAGS_START_PORT",
    "POD_IP",
)
SAID = {"NODE_RANK": "3", "MASTER_ADDR": "192.0.2.1", "HOST_ADDR": "192.0.2.4", "SOCKET_IFNAMES": "eth0,eth1"}
PROGRAMS = ("python", "python3", "torchrun", "swift", "llamafactory-cli", "erniekit", "paddleformers-cli")
STAND_IN = """#!/bin/sh
printf '%s\\0' "$(basename "$0")" "$@" > "$RECORD/argv"
env -0 > "$RECORD/env"
pwd > "$RECORD/cwd"
exit 7
"""
# As the vendors' own: it reads variables that may not exist, fails on the way, and sets paths.
SET_ENV = """
if [ "$NEVER_SET_BEFORE" = x ]; then echo never; fi
false
export PYTHONPATH=/toolkit/python:$PYTHONPATH
export FLAGS_npu_jit_compile=1
"""


def moved(value: Any, root: Path) -> Any:
    """The same with every absolute path below `root`, so that the real paths need not exist."""
    if isinstance(value, str):
        return f"{root}{value}" if value.startswith(("/usr/", "/workspace", "/app")) else value
    if isinstance(value, tuple):
        return tuple(moved(item, root) for item in value)
    return {key: moved(item, root) for key, item in value.items()} if isinstance(value, dict) else value


def elsewhere(command: TrainingCommand, root: Path) -> TrainingCommand:
    fields = {each.name: getattr(command, each.name) for each in dataclasses.fields(command)}
    return TrainingCommand(**{name: moved(value, root) for name, value in fields.items()})


def prepare(command: TrainingCommand, root: Path) -> None:
    """The folders and files that the job needs, below a root with a blank and a quote in its name."""
    (root / "bin").mkdir(parents=True)
    for name in PROGRAMS:
        (root / "bin" / name).write_text(STAND_IN)
        (root / "bin" / name).chmod(0o755)
    (root / "record").mkdir()
    workdir = Path(command.workdir or root / "here")
    for path in (root / "here", workdir):
        path.mkdir(parents=True, exist_ok=True)
    for text in command.requires:
        path = workdir / text.replace("{adapter}", str(root / "adapter"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for text in command.scripts:
        Path(text).parent.mkdir(parents=True, exist_ok=True)
        Path(text).write_text(SET_ENV)


def run(command: TrainingCommand, root: Path, **more: str) -> subprocess.CompletedProcess[str]:
    base = dict.fromkeys((*STALE, *command.unset), "left over")
    own = {"PATH": f"{root / 'bin'}:{os.environ['PATH']}", "RECORD": str(root / "record"), "HOME": str(root)}
    script = root / "job.sh"
    script.write_text(as_script(command))
    return subprocess.run(
        [shutil.which("bash") or "bash", str(script)],
        env={**base, **own, **SAID, "ADAPTER_DIR": str(root / "adapter"), **more},
        cwd=root / "here",
        capture_output=True,
        text=True,
        timeout=60,
    )


@dataclasses.dataclass(frozen=True)
class Heard:
    """What a stand-in was started with."""

    argv: list[str]
    env: dict[str, str]
    cwd: str


def heard(root: Path) -> Heard:
    """What the stand-in of a job's program wrote down."""
    argv, env = ((root / "record" / name).read_text().split("\0")[:-1] for name in ("argv", "env"))
    cwd = (root / "record" / "cwd").read_text().rstrip("\n")
    return Heard(argv, dict(line.split("=", 1) for line in env), cwd)


def filled(text: str, seen: dict[str, str]) -> str:
    """What stands where a token was: what the user said, or the folder that the script made."""
    for token, blank in BLANKS.items():
        text = text.replace(f"{{{token}}}", seen.get(blank.variable, ""))
    return text
