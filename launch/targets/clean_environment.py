"""The environment of a training: what the recipe sets, and nothing that an earlier job or a secret left behind.

paddle.distributed.launch lets PADDLE_* variables win over its command line, waits for ever for peers that a left-over
list of endpoints names, and writes the whole environment into its log folder (envlog.N, backup_env.N.json).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from envcheck.core.secrets import blank_value
from envcheck.job.command import TrainingCommand

MARK = "ENVCHECK_RUN"  # the run's folder, in every process of a run: how its processes are found again
KEPT = ("PADDLE_PG_TIMEOUT", "PADDLE_HOME")  # a limit and a cache; all other PADDLE_* name a job
STALE = re.compile(
    r"PADDLE_\w+|(LOCAL_|NODE_|GROUP_|ROLE_)?RANK|(LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|NNODES|NPROC_PER_NODE"
    r"|MASTER_(ADDR|PORT)|POD_(IP|NAME)|PORT_RANGE|(DISTRIBUTED_)?TRAINER_\w+|DISTRIBUTED_TRAINER_ENDPOINTS"
    r"|PET_\w+"  # torchrun takes each of its options from PET_OPTION where the command line has none
    r"|FLAGS_(START_PORT|FIXED_PORT|selected_\w+|print_launcher_env)|TORCHELASTIC_\w+"
)
VISIBLE = re.compile(r"(CUDA|XPU|NPU|ILUVATAR_GPU|ASCEND_RT)_VISIBLE_DEVICES")

OURS = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONNOUSERSITE": "1",
    "GLOG_minloglevel": "1",
    # paddle 3.1 asks for ccache at every import, in every worker
    "PYTHONWARNINGS": "ignore::UserWarning:paddle.utils.cpp_extension.extension_utils",
}


@dataclass(frozen=True)
class CleanEnvironment:
    """`stale` and `secret` are the names of what was left out."""

    environment: Mapping[str, str]
    stale: tuple[str, ...]
    secret: tuple[str, ...]


def stale(base: Mapping[str, str], command: TrainingCommand, device: str) -> tuple[str, ...]:
    """Left-overs of another job; on the CPU a list of visible cards too, which makes the CPU wheel look for cards."""
    return tuple(name for name in sorted(base) if name in command.unset or _left_over(name, device))


def _left_over(name: str, device: str) -> bool:
    if device == "cpu" and VISIBLE.fullmatch(name):
        return True
    return bool(STALE.fullmatch(name)) and name not in KEPT


def clean(base: Mapping[str, str], command: TrainingCommand, device: str, mark: str) -> CleanEnvironment:
    """`base` without left-overs and secrets, with what the command sets; the recipe's own values win."""
    old = stale(base, command, device)
    secret = tuple(name for name in sorted(base) if name not in old and blank_value(name, base[name]) != base[name])
    left = {name: text for name, text in base.items() if name not in old and name not in secret}
    ahead = {name: ":".join(filter(None, (text, left.get(name)))) for name, text in command.prepend.items()}
    return CleanEnvironment({**OURS, **left, **command.environment, **ahead, MARK: mark}, old, secret)
