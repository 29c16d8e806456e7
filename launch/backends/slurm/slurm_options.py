"""The Slurm options of `envcheck train`, validated, because they become lines of a script."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from launch.backends.slurm import sbatch_options
from launch.targets.train_request import TrainRequest

_NAME = re.compile(r"[\w.@+,-]{1,200}")
_TIME = re.compile(r"\d{1,6}(:\d{1,2}){0,2}|\d{1,5}-\d{1,2}(:\d{1,2}){0,2}|(?i:unlimited|infinite)")
_GRES = re.compile(r"[A-Za-z][\w.-]*(:[A-Za-z][\w.-]*)?(:\d{1,6})?")
_OPTION = re.compile(r"--[a-z][a-z-]*(=[^\s\"'\\#]+)?")  # no quotes and no #, which sbatch parses in its own way


@dataclass(frozen=True)
class SlurmOptions:
    """`partition` and `gres` have one value, or one per component of a job over mixed devices; () means not given."""

    partition: tuple[str, ...] = ()
    gres: tuple[str, ...] = ()
    time: str | None = None
    account: str | None = None
    sbatch: tuple[str, ...] = ()
    requeue_without_bad: bool = False
    drain: bool = False
    restart: int = 0


def parse_slurm_options(own: Mapping[str, Any], restart: int = 0) -> SlurmOptions:
    """Return the options; UsageError if sbatch would not accept a value.

    `restart`: how often Slurm may start the job again.
    """
    options = SlurmOptions(**own, restart=restart)
    for word, values, form in (
        ("--partition", options.partition, _NAME),
        ("--account", tuple(filter(None, [options.account])), _NAME),
        ("--time", tuple(filter(None, [options.time])), _TIME),
        ("--gres", options.gres, _GRES),
        ("--sbatch", options.sbatch, _OPTION),
    ):
        for value in values:
            if not form.fullmatch(value):
                raise UsageError(_("invalid value for {option}: {value!r}", option=word, value=value[:80]), NEXT[word])
    for value in options.sbatch:
        sbatch_options.check_sbatch_option(value)
    return options


NEXT = {
    "--partition": _("list the partitions with `sinfo -s`"),
    "--account": _("list your accounts with `sacctmgr show associations user=$USER`"),
    "--time": _("use minutes, H:MM:SS or DAYS-HOURS, for example --time 8:00:00"),
    "--gres": _("use the format of `sinfo -o %G`, for example --gres npu:16 or --gres gpu:h200:8"),
    "--sbatch": _("use --OPTION=VALUE, for example --sbatch --constraint=a2 --sbatch --reservation=mine"),
}
_ON_NODES = _("the run is on the nodes; `envcheck runs show --json` has its state")
REFUSED = {
    "rank": _("Slurm assigns the ranks"),
    "master": _("the first node of the job is the master"),
    "host": _("each node detects its own address"),
    "devices": _("Slurm selects the devices of each node"),
    "node_role": _("one job has all roles"),
    "provision": _("it would provision this machine, not the nodes; use `envcheck provision --hosts`"),
    "dashboard": _("the devices are not in this machine; follow the steps with `envcheck runs follow`"),
    **dict.fromkeys(("on_event", "webhook", "metrics_file"), _ON_NODES),
    "gates": _("each job runs the preflight checks on its nodes first"),
}


def refuse_unsupported_options(request: TrainRequest) -> None:
    """Raise UsageError for options of `envcheck train` that have no effect in a Slurm job."""
    for name, why in REFUSED.items():
        if getattr(request, name) != getattr(TrainRequest, name):  # rank 0 was given, too
            raise UsageError(
                _("--{option} cannot be used with --on slurm: {why}", option=name.replace("_", "-"), why=why),
                _("remove the option"),
            )
