"""Which options of sbatch `--sbatch` accepts: options that conflict with the script are rejected, with an alternative.

Checked against the manual page of sbatch 22.05 and the options added in 23.02 to 25.05. Other options are passed on;
sbatch rejects those that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _

_REMOVE = _("remove it; --dry-run shows the script")
_GRES = (_("devices are requested with --gres"), _("use for example --gres npu:16, in the format of `sinfo -o %G`"))
_CARDS = (_("the launcher of a node needs all of its devices"), _REMOVE)
_TASKS = (_("each node runs one launcher, and its task number is the rank of the node"), _REMOVE)
_WHOLE = (_("the job requests whole nodes"), _REMOVE)
_AGAIN = (
    _("the script sets whether the job may be requeued"),
    _("use --requeue-without-bad to requeue without the failed nodes"),
)
_LOG = (
    _("`envcheck explain` reads the job log in the run folder"),
    _("choose another folder for runs with --runs DIR"),
)
_NUMBER = (_("envcheck reads the job id from the output of sbatch"), _REMOVE)
_NOTHING = (_("this option submits no job"), _("use --dry-run to show the script"))
_CLUSTER = (_("envcheck reads the job state from this cluster"), _("submit the job on a host of the other cluster"))
_USER = (_("only you can write to the run folder"), _("submit the job as that user"))
# Option → (why it is rejected, what to do).
REFUSED_OPTIONS: Mapping[str, tuple[Message, Message]] = {
    "nodes": (_("the recipe sets the number of nodes"), _("set another number with --nnodes")),
    **dict.fromkeys(("ntasks", "ntasks-per-node", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket"), _TASKS),
    "distribution": _TASKS,
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "tres-per-task"), _GRES),
    **dict.fromkeys(("gpu-bind", "tres-bind"), _CARDS),
    **dict.fromkeys(("exclusive", "oversubscribe"), _WHOLE),
    **dict.fromkeys(("requeue", "no-requeue"), _AGAIN),
    "array": (_("a job is one run with one folder"), _("run `envcheck train` once for each job")),
    "wrap": (_("envcheck writes the script"), _("to edit it, save it with --dry-run > FILE and submit it with sbatch")),
    **dict.fromkeys(("output", "error", "open-mode"), _LOG),
    **dict.fromkeys(("parsable", "quiet"), _NUMBER),
    **dict.fromkeys(("test-only", "help", "usage", "version"), _NOTHING),
    "wait": (_("envcheck follows the job until it ends"), _("remove it; --detach submits without following")),
    **dict.fromkeys(("clusters", "cluster-constraint"), _CLUSTER),
    "container": (
        _("the script needs the Slurm commands, which are not in that container"),
        _("remove it; the recipe sets the container of the training"),
    ),
    **dict.fromkeys(("uid", "gid"), _USER),
}
TRAIN_OPTIONS = ("partition", "time", "account", "gres")  # these are options of `envcheck train` too
# envcheck treats these signals as Ctrl-C; any other one ends it before the record of the run is written.
_SIGNAL = re.compile(r"(?:SIG)?(?:INT|TERM)(?:@\d{1,5})?|(?:2|15)(?:@\d{1,5})?")
# Input environment variables of sbatch override #SBATCH lines. Their names are those of the options, except for these.
_CALLED = {
    "array-inx": "array",
    "timelimit": "time",
    **dict.fromkeys(("mem-per-node", "mem-per-cpu", "mem-per-gpu"), "mem"),
}
_OF_A_JOB = ("SLURM_", "SLURMD_", "SRUN_")
_OF_A_SITE = ("SLURM_CONF", "SLURM_CLUSTERS")


def check_sbatch_option(option: str) -> None:
    """Raise UsageError if an option, or an abbreviation of its name, conflicts with the script."""
    word, _unused, value = option.removeprefix("--").partition("=")
    if word in TRAIN_OPTIONS:
        raise UsageError(
            _("--sbatch {option}: --{word} is an option of `envcheck train`", option=option, word=word),
            _("pass --{word} without --sbatch", word=word),
        )
    meant = (
        word
        if word in REFUSED_OPTIONS
        else next((name for name in (*REFUSED_OPTIONS, *TRAIN_OPTIONS) if name.startswith(word)), "")
    )
    if meant in REFUSED_OPTIONS and meant == word:
        reason, next_step = REFUSED_OPTIONS[meant]
        raise UsageError(_("--sbatch {option} is not supported: {reason}", option=option, reason=reason), next_step)
    if meant:
        raise UsageError(
            _("--sbatch {option} is ambiguous: it could mean --{meant}", option=option, meant=meant),
            _("write the full name of the option"),
        )
    if word == "signal" and not _SIGNAL.fullmatch(value):
        raise UsageError(
            _("--sbatch {option}: this signal ends envcheck before the record of the run is written", option=option),
            _("use for example --sbatch --signal=TERM@300, which stops the run like Ctrl-C"),
        )


def build_sbatch_environment(environment: Mapping[str, str], script: str) -> dict[str, str]:
    """Return the environment for sbatch without variables that override the script or set a rejected option.

    When submitting from inside a job, the variables of that job are removed too: srun takes them as its options (with
    SRUN_CPUS_PER_TASK the launcher gets that many cores, with SLURM_MEM_PER_CPU srun fails).
    """
    lines = {line[2:].partition("=")[0] for line in _list_script_options(script)}
    within = _OF_A_JOB if "SLURM_JOB_ID" in environment else ()
    found = {
        name: value
        for name, value in environment.items()
        if _variable_to_option(name) not in {*REFUSED_OPTIONS, *lines}
    }
    return {name: value for name, value in found.items() if name in _OF_A_SITE or not name.startswith(within)}


def _list_script_options(script: str) -> Iterable[str]:
    """Yield the sbatch options of the script, without '#SBATCH --'."""
    return (line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH --"))


def _variable_to_option(variable: str) -> str:
    """Return the option of an input variable: SBATCH_ARRAY_INX → array; "" for other variables."""
    if not variable.startswith("SBATCH_"):
        return ""
    name = variable.removeprefix("SBATCH_").lower().replace("_", "-")
    return _CALLED.get(name, name)
