"""sbatch's options as --sbatch may say them: which would break what the script promises, and what to say instead.

Gone through with the manual page of Slurm 22.05, and what 23.02 to 25.05 added.  What is not named here passes: sbatch
itself refuses what it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from envcheck.core.errors import UsageError

_LEAVE = "leave it out; --dry-run shows the script"
_GRES = ("the cards of a node are asked for by --gres", "for instance --gres npu:16, as sinfo -o %G has it")
_CARDS = ("the launcher of a node has all of its cards", _LEAVE)
_TASKS = ("each node has one launcher, and its number is the node's", _LEAVE)
_WHOLE = ("the job has its nodes to itself", _LEAVE)
_AGAIN = ("the script says whether it is put back", "--requeue-without-bad does so, without the bad nodes")
_LOG = ("the job's log lies in the folder of its run, where explain reads it", "--runs DIR names another folder")
_NUMBER = ("envcheck reads the job's number from what sbatch answers", _LEAVE)
_NOTHING = ("that submits no job", "--dry-run shows the script")
_CLUSTER = ("envcheck asks this cluster how the job stands", "submit it on a machine of the other cluster")
_USER = ("the folder of the run is yours alone", "submit it as that user")
# Option → (why it does not go into the script, what to do).
OURS: Mapping[str, tuple[str, str]] = {
    "nodes": ("the job says how many nodes it wants", "--nnodes says another number"),
    **dict.fromkeys(("ntasks", "ntasks-per-node", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket"), _TASKS),
    "distribution": _TASKS,
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "tres-per-task"), _GRES),
    **dict.fromkeys(("gpu-bind", "tres-bind"), _CARDS),
    **dict.fromkeys(("exclusive", "oversubscribe"), _WHOLE),
    **dict.fromkeys(("requeue", "no-requeue"), _AGAIN),
    "array": ("a job is one run, with one folder", "start envcheck train once for each"),
    "wrap": ("the script is envcheck's own", "--dry-run > FILE gives it, to change and to submit by hand"),
    **dict.fromkeys(("output", "error", "open-mode"), _LOG),
    **dict.fromkeys(("parsable", "quiet"), _NUMBER),
    **dict.fromkeys(("test-only", "help", "usage", "version"), _NOTHING),
    "wait": ("envcheck stays with the job by itself", "leave it out; --detach does not stay"),
    **dict.fromkeys(("clusters", "cluster-constraint"), _CLUSTER),
    "container": ("the script asks Slurm, which is not in that container", "the recipe names the training's own"),
    **dict.fromkeys(("uid", "gid"), _USER),
}
OWN = ("partition", "time", "account", "gres")  # what train has an option of its own for
# To the nodes' envcheck these are a Ctrl-C; any other signal ends it before it has written its record.
_SIGNAL = re.compile(r"(?:SIG)?(?:INT|TERM)(?:@\d{1,5})?|(?:2|15)(?:@\d{1,5})?")
# Variables that sbatch takes for an option, and that win over the script's own lines; by their names but for these.
_CALLED = {
    "array-inx": "array",
    "timelimit": "time",
    **dict.fromkeys(("mem-per-node", "mem-per-cpu", "mem-per-gpu"), "mem"),
}
_OF_A_JOB = ("SLURM_", "SLURMD_", "SRUN_")
_OF_A_SITE = ("SLURM_CONF", "SLURM_CLUSTERS")


def check(said: str) -> None:
    """UsageError for an option that the script cannot bear; sbatch takes the beginning of a name for the whole."""
    word, _, value = said.removeprefix("--").partition("=")
    if word in OWN:
        raise UsageError(f"--sbatch {said}: train has the option --{word} itself", f"say --{word} without --sbatch")
    meant = word if word in OURS else next((option for option in (*OURS, *OWN) if option.startswith(word)), "")
    if meant in OURS and meant == word:
        raise UsageError(f"--sbatch {said}: {OURS[meant][0]}", OURS[meant][1])
    if meant:
        raise UsageError(f"--sbatch {said} could mean --{meant}", "write the option's name whole")
    if word == "signal" and not _SIGNAL.fullmatch(value):
        raise UsageError(
            f"--sbatch {said}: that signal ends envcheck before the run's record is written",
            "for instance --sbatch --signal=TERM@300, which ends the run as Ctrl-C does",
        )


def around(environment: Mapping[str, str], script: str) -> dict[str, str]:
    """The environment of sbatch: without what would win over a line of the script, or say what it cannot bear.

    Nor what tells of the job in which somebody sits who submits from within one: srun would take it for its options
    (with SRUN_CPUS_PER_TASK a launcher has that many cores, with SLURM_MEM_PER_CPU srun gives up).
    """
    lines = {line[2:].partition("=")[0] for line in _lines(script)}
    within = _OF_A_JOB if "SLURM_JOB_ID" in environment else ()
    found = {name: value for name, value in environment.items() if _option(name) not in {*OURS, *lines}}
    return {name: value for name, value in found.items() if name in _OF_A_SITE or not name.startswith(within)}


def _lines(script: str) -> Iterable[str]:
    """Of sbatch, among those of the script."""
    return (line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH --"))


def _option(variable: str) -> str:
    """SBATCH_ARRAY_INX → array; "" for what is none of sbatch's."""
    if not variable.startswith("SBATCH_"):
        return ""
    name = variable.removeprefix("SBATCH_").lower().replace("_", "-")
    return _CALLED.get(name, name)
