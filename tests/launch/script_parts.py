"""Run job scripts with stand-ins for the training programs, which record their arguments."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from envcheck.job.command import BLANKS, TrainingCommand
from envcheck.job.shell_script import render_script as as_script

# What a job platform or an earlier run leaves behind; none of it may reach the program.
STALE = (
    "PADDLE_MASTER",
    "PADDLE_TRAINER_ID",
    "PADDLE_TRAINER_ENDPOINTS",
    "PADDLE_NNODES",
    "FLAGS_START_PORT",
    "POD_IP",
)
SAID = {"NODE_RANK": "1", "MASTER_ADDR": "192.0.2.1", "HOST_ADDR": "192.0.2.4", "SOCKET_IFNAMES": "eth0,eth1"}
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


def move_paths(value: Any, root: Path) -> Any:
    """Return the text with every absolute path moved below `root`."""
    if isinstance(value, str):
        return f"{root}{value}" if value.startswith(("/usr/", "/workspace", "/app")) else value
    if isinstance(value, tuple):
        return tuple(move_paths(item, root) for item in value)
    return {key: move_paths(item, root) for key, item in value.items()} if isinstance(value, dict) else value


def move_command(command: TrainingCommand, root: Path) -> TrainingCommand:
    fields = {each.name: getattr(command, each.name) for each in dataclasses.fields(command)}
    return TrainingCommand(**{name: move_paths(value, root) for name, value in fields.items()})


def prepare_files(command: TrainingCommand, root: Path) -> None:
    """Create the files that the job needs below a root with a blank and a quote in its name."""
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


def run_script(command: TrainingCommand, root: Path, **more: str) -> subprocess.CompletedProcess[str]:
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
class RecordedCall:
    """The arguments and environment of a stand-in."""

    argv: list[str]
    env: dict[str, str]
    cwd: str


def read_recorded_call(root: Path) -> RecordedCall:
    """Return what the stand-in of a job's program recorded."""
    argv, env = ((root / "record" / name).read_text().split("\0")[:-1] for name in ("argv", "env"))
    cwd = (root / "record" / "cwd").read_text().rstrip("\n")
    return RecordedCall(argv, dict(line.split("=", 1) for line in env), cwd)


def fill_tokens(text: str, seen: dict[str, str]) -> str:
    """Return the value of a placeholder: the user's, or the folder created by the script."""
    for token, blank in BLANKS.items():
        text = text.replace(f"{{{token}}}", seen.get(blank.variable, ""))
    return text
