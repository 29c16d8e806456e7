"""The environment of a training: the recipe's variables, without leftovers of other jobs and without secrets.

paddle.distributed.launch prefers PADDLE_* variables to its command line, waits forever for peers in a leftover list of
endpoints, and writes the whole environment into its log folder (envlog.N, backup_env.N.json).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from envcheck.core.secrets import redact_variable
from envcheck.job.command import TrainingCommand
from envcheck.vendors import VENDORS

MARK = "ENVCHECK_RUN"  # the run folder, set in every process of a run to find them again
KEPT_VARIABLES = ("PADDLE_PG_TIMEOUT", "PADDLE_HOME")  # a time limit and a cache; all other PADDLE_* describe a job
STALE = re.compile(
    r"PADDLE_\w+|(LOCAL_|NODE_|GROUP_|ROLE_)?RANK|(LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|NNODES|NPROC_PER_NODE"
    r"|MASTER_(ADDR|PORT)|POD_(IP|NAME)|PORT_RANGE|(DISTRIBUTED_)?TRAINER_\w+|DISTRIBUTED_TRAINER_ENDPOINTS"
    r"|PET_\w+"  # torchrun reads options from PET_OPTION if the command line lacks them
    r"|FLAGS_(START_PORT|FIXED_PORT|selected_\w+|print_launcher_env)|TORCHELASTIC_\w+"
)
# Lists of visible devices: the vendors' own, and those that paddle reads for its device types.
VISIBLE = frozenset(
    name
    for vendor in VENDORS.values()
    for name in (vendor.visible_env, f"{vendor.device_type.upper()}_VISIBLE_DEVICES")
    if name
)

OWN_VARIABLES = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONNOUSERSITE": "1",
    "GLOG_minloglevel": "1",
    # paddle's launcher looks for free ports in 35100:64000, most of which the kernel gives to connections meanwhile
    # (32768:60999); Kubernetes' node ports begin at 30000.
    "PORT_RANGE": "20000:29000",
    # paddle 3.1 warns about a missing ccache at every import in every worker
    "PYTHONWARNINGS": "ignore::UserWarning:paddle.utils.cpp_extension.extension_utils",
}


@dataclass(frozen=True)
class CleanEnvironment:
    """The environment; `stale` and `secret` are the names of removed variables."""

    environment: Mapping[str, str]
    stale: tuple[str, ...]
    secret: tuple[str, ...]


def list_stale_variables(base: Mapping[str, str], command: TrainingCommand, device: str) -> tuple[str, ...]:
    """Return variables of another job; on the CPU also visible-device lists, which make CPU wheels look for cards."""
    return tuple(name for name in sorted(base) if name in command.unset or _is_left_over(name, device))


def _is_left_over(name: str, device: str) -> bool:
    if device == "cpu" and name in VISIBLE:
        return True
    return bool(STALE.fullmatch(name)) and name not in KEPT_VARIABLES


def clean_variables(base: Mapping[str, str], command: TrainingCommand, device: str, mark: str) -> CleanEnvironment:
    """Return `base` without leftovers and secrets, with the command's variables, which override it."""
    if command.keeps_environment:
        unbuffered = {"PYTHONUNBUFFERED": "1"}  # else the log of a program comes in blocks, and so do its steps
        return CleanEnvironment({**unbuffered, **base, **command.environment, MARK: mark}, (), ())
    old = list_stale_variables(base, command, device)
    secret = tuple(name for name in sorted(base) if name not in old and redact_variable(name, base[name]) != base[name])
    left = {name: text for name, text in base.items() if name not in old and name not in secret}
    ahead = {name: ":".join(filter(None, (text, left.get(name)))) for name, text in command.prepend.items()}
    return CleanEnvironment({**OWN_VARIABLES, **left, **command.environment, **ahead, MARK: mark}, old, secret)
