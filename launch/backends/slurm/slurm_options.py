"""What a person says of Slurm on the command line of train, checked: it becomes lines of a script."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core.errors import UsageError
from launch.backends.slurm import sbatch_options
from launch.targets.request import TrainRequest

_NAME = re.compile(r"[\w.@+,-]{1,200}")
_TIME = re.compile(r"\d{1,6}(:\d{1,2}){0,2}|\d{1,5}-\d{1,2}(:\d{1,2}){0,2}|(?i:unlimited|infinite)")
_GRES = re.compile(r"[A-Za-z][\w.-]*(:[A-Za-z][\w.-]*)?(:\d{1,6})?")
_OPTION = re.compile(r"--[a-z][a-z-]*(=[^\s\"'\\#]+)?")  # sbatch reads quotes and # in its own way: none of them


@dataclass(frozen=True)
class SlurmOptions:
    """`partition` and `gres` have one word, or one for each component of a job over mixed cards; () is "not said"."""

    partition: tuple[str, ...] = ()
    gres: tuple[str, ...] = ()
    time: str | None = None
    account: str | None = None
    sbatch: tuple[str, ...] = ()
    requeue_without_bad: bool = False
    drain: bool = False


def read(own: Mapping[str, Any]) -> SlurmOptions:
    """UsageError for what is none of Slurm's words."""
    wish = SlurmOptions(**own)
    for word, values, form in (
        ("--partition", wish.partition, _NAME),
        ("--account", tuple(filter(None, [wish.account])), _NAME),
        ("--time", tuple(filter(None, [wish.time])), _TIME),
        ("--gres", wish.gres, _GRES),
        ("--sbatch", wish.sbatch, _OPTION),
    ):
        for value in values:
            if not form.fullmatch(value):
                raise UsageError(f"{word} {value[:80]!r} is nothing that sbatch would take", NEXT[word])
    for value in wish.sbatch:
        sbatch_options.check(value)
    return wish


NEXT = {
    "--partition": "sinfo -s lists the partitions",
    "--account": "sacctmgr show associations user=$USER lists yours",
    "--time": "minutes, H:MM:SS or DAYS-HOURS: --time 8:00:00",
    "--gres": "as sinfo -o %G has it: --gres npu:16, --gres gpu:h200:8",
    "--sbatch": "for instance --sbatch --constraint=a2 --sbatch --reservation=mine",
}
REFUSED = {
    "rank": "Slurm numbers the nodes",
    "master": "the first node of the job leads",
    "host": "each node finds its own address",
    "node_role": "all roles of the job go in one job",
    "provision": "the nodes are not this machine: envcheck provision --hosts makes them fit",
    "watch": "the cards are not in this machine: envcheck runs follow shows the steps",
    "gates": "the gates are those of the nodes: each job walks them there first",
}


def refuse(request: TrainRequest) -> None:
    """UsageError for what has no meaning in a job of Slurm's."""
    for name, why in REFUSED.items():
        value = getattr(request, name)
        if value is not None and value is not False:  # rank 0 is one, too
            raise UsageError(f"--{name.replace('_', '-')} has no place in --on slurm: {why}", "leave it out")
