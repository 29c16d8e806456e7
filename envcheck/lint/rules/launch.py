"""How a training is started: nodes, ranks, the master's address, counts that have to agree."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path

from envcheck.lint import options
from envcheck.lint.jobs import Job
from envcheck.lint.model import Remark, Script, Use, Word
from envcheck.lint.paper import Paper, number
from envcheck.lint.rules.common import fail, graded, unknown, warn

_LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[?::1\]?|0\.0\.0\.0)(:\d+)?")
# On a batch script's own shell 0, whatever the task.
_TASKS = ("SLURM_NODEID", "SLURM_PROCID")
_OF_TASK = re.compile(r'"?\$\{?(?:' + "|".join(_TASKS) + r')\}?"?')
_ADDRESS = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3})(?::(\d+))?")


def _several(job: Job) -> bool:
    return job.trains and (job.nodes or 0) > 1


def _rendezvous(job: Job) -> bool:
    """torchrun's own meeting place gives out the ranks."""
    backend = job.says("rdzv_backend")
    return bool(backend and backend.value != "static") or bool(job.says("hostfile", "ips", "deepspeed_hostfile"))


def _carried(job: Job) -> bool:
    """srun, mpirun or ssh starts it on each node: what stands there is worked out on each."""
    return job.command.elsewhere or (
        bool(job.command.words)
        and job.command.words[0].text.rpartition("/")[2]
        in (
            "srun",
            "mpirun",
            "mpiexec",
            "pdsh",
            "deepspeed",
        )
    )


def _alike(job: Job) -> bool:
    """srun, mpirun or a loop of ssh hands it the same words and variables on each node, and all can be seen."""
    words = job.command.texts()
    carried = not job.command.elsewhere and words and words[0].rpartition("/")[2] in ("srun", "mpirun", "mpiexec")
    others = any(
        re.match(r"--export\b|-x$|-genv|-env|-w|--nodelist|-N ?1$|--nodes=1$|-r$|--relative", w) for w in words
    )
    return job.command.everywhere or (bool(carried) and not others)


def _told_inside(paper: Paper, job: Job) -> bool:
    """Its container gets a number of nodes, all that it gets can be seen, and none of it is taken from outside."""
    container = paper.container_of(job)
    if container is None or container.open or container.has("--env-file"):
        return False
    names = {name for name, _, _ in container.environment}
    taken = any("=" not in word.text for word in container.all("-e", "--env"))
    return not taken and bool(names & set(job.launcher.variables.get("nodes", ())))


def rank_missing(paper: Paper) -> Iterator[Remark]:
    for job in paper.jobs:
        if (
            not _several(job)
            or job.open
            or _rendezvous(job)
            or (_carried(job) and not (_told_inside(paper, job) or (_alike(job) and job.launcher.rank_severe)))
            or job.launcher.name in ("deepspeed", "python")
            or told_elsewhere(paper, job)
        ):
            continue
        if job.says("standalone"):
            seen = f"--standalone is for one node, and here are {job.nodes}: each trains for itself"
            yield fail(job.told("nodes") or job, seen, "Take --standalone away, and name the first node's address.")
            continue
        told = job.told("rank")
        how = "" if {"RANK", "NODE_RANK"} & set(job.command.environment) else _how(job, "rank")
        if told is None and job.launcher.variables.get("rank") and _from_outside(job, "rank"):
            continue
        if told is None and how:
            place = job.told("nodes") or job
            if job.program is None and job.launcher.program:
                do = "Write it here, or --machine_rank N beside --config_file."
                yield warn(place, f"{job.nodes} machines, and machine_rank is not here", do)
            elif job.launcher.rank_severe:
                usual = job.launcher.rank_default or 0
                seen = f"{job.nodes} nodes, and none is told its number: each takes itself for node {usual}"
                if job.command.name == "srun":
                    how = f"{how.removesuffix('N').removeprefix('export ')}$SLURM_NODEID"
                    yield fail(place, seen, f"srun bash -c '... {how} ...' in single quotes: each node's own number.")
                else:
                    yield fail(place, seen, f"{how}, another on each node.")
            else:
                seen = f"{job.nodes} nodes without a rank: chance counts them, and pipeline stages and logs with them"
                yield warn(place, seen, f"{how}, and --host where a node's own name means loopback.")


def told_elsewhere(paper: Paper, job: Job) -> bool:
    """accelerate's own file says more, and it is not to be had; without one the user's own counts."""
    if job.launcher.name != "accelerate" or any(given.key for given in job.own):
        return False
    return job.says("config_file") is not None or bool(paper.machine.exists(_DEFAULTS))


_DEFAULTS = str(Path("~/.cache/huggingface/accelerate/default_config.yaml").expanduser())


def _from_outside(job: Job, role: str) -> bool:
    """The script looks at the variable, so somebody sets it."""
    names = set(job.launcher.variables.get(role, ()))
    return any(use.name in names for use in job.script.uses)


def _how(job: Job, role: str) -> str:
    names = job.launcher.options.get(role, ())
    if names:
        return f"--{names[0]} N"
    variables = job.launcher.variables.get(role, ())
    return f"export {variables[0]}=N" if variables else ""


def rank_fixed(paper: Paper) -> Iterator[Remark]:
    """A number that stands in the script is the same on each node that runs it; or there is no such node."""
    shown = {(job.nodes, number(told.plain)) for job in paper.jobs if (told := job.told("rank")) is not None}
    early = sorted(use.start for script in paper.scripts for use in _before_srun(script))
    for job in paper.jobs:
        told = job.told("rank")
        worked_out = told is not None and (_within(told, early) or (_alike(job) and _OF_TASK.fullmatch(told.raw)))
        if told is not None and job.nodes != 1 and worked_out:
            seen = "this is worked out before srun, by the first node's shell: each node takes itself for node 0"
            do = "srun bash -c '...' in single quotes: so each node's own shell works it out."
            yield graded(_several(job), told, seen, do)
            continue
        rank, nodes = number(told.plain if told else None), job.nodes
        if told is None or rank is None or nodes is None or told.soft or rank < 0 or not job.trains:
            continue
        alone = not all((nodes, each) in shown for each in range(nodes))
        if nodes > 1 and rank < nodes and _alike(job) and alone:
            seen = f"rank {rank} for each host that this is started on: {nodes} nodes take themselves for the same one"
            yield fail(told, seen, "Count the hosts, and hand each its own number.")
        elif rank >= nodes:
            yield fail(told, f"rank {rank} of {nodes} in all: they are counted from 0", f"0 to {nodes - 1}")
        elif all((nodes, each) in shown for each in range(nodes)):
            continue  # a start for each node stands here
        elif nodes > 1 and not _carried(job) and not _of_file(job) and (paper.document or not _role(job)):
            seen = f"rank {rank} stands in the script: on another node it is wrong, and copied there both wait or die"
            yield warn(told, seen, 'Take it from outside: "${NODE_RANK:?}".')


def _before_srun(script: Script) -> Iterator[Use]:
    """The numbers of a task and a node, and their copies, among srun's words: those of the shell that calls it."""
    names = {*_TASKS, *(each.name for each in script.assigns if _OF_TASK.fullmatch(each.word.raw))}
    for command in script.commands:
        yield from (use for use in command.uses if use.name in names) if command.name == "srun" else ()


def _within(word: Word, places: Sequence[int]) -> bool:
    """Whether one of the places, which are in order, lies in the word."""
    at = bisect_left(places, word.start)
    return at < len(places) and places[at] < word.end


def _of_file(job: Job) -> bool:
    """accelerate's file has a rank, which is the first node's, and each node its own."""
    given = options.last(job.own, *job.launcher.options.get("rank", ()))
    return given is not None and given.key


def _role(job: Job) -> bool:
    """A script for the nodes of one vendor, of two in the job: its rank is its role."""
    return any(name.startswith("FLAGCX_") for name in job.command.environment)


def unused_rank(paper: Paper) -> Iterator[Remark]:
    """A variable named rank that nothing reads is told by shell.unused_variable; here, that it could not be."""
    for job in paper.jobs:
        for assign in job.script.assigns:
            value = number(assign.word.plain)
            named = assign.name.lower() in ("rank", "node_rank") and assign.end < job.start and not assign.word.soft
            if (
                named
                and assign.word.raw.isdigit()
                and value is not None
                and job.nodes
                and value >= job.nodes
                and job.told("rank") is None
            ):
                seen = f"{assign.name} is {value}, of {job.nodes} in all, and nothing is told of it"
                yield warn(assign, seen, f"0 to {job.nodes - 1}, and hand it to the launcher.")


_OWN_ADDRESS = re.compile(r"(?:\$\(|`)\s*hostname\b[^)`$]{0,80}[)`]")


def _everyones(paper: Paper, job: Job) -> bool:
    """Each node runs these lines by itself, and not the first one alone: a rank comes from outside."""
    rank = job.told("rank")
    batch = any(text.startswith("#SBATCH") for _, _, text in job.script.comments)
    return not batch and not paper.document and (rank is None or number(rank.plain) is None) and not _carried(job)


def loopback(paper: Paper) -> Iterator[Remark]:
    for job in paper.jobs:
        master = job.told("master")
        if master is not None and _several(job) and _OWN_ADDRESS.search(master.raw) and _everyones(paper, job):
            seen = f"{job.nodes} nodes, and each takes its own address for the master's"
            yield fail(master, seen, "The address of node 0, as the others reach it.")
            continue
        if not _several(job) or master is None or not _LOOPBACK.fullmatch(master.text):
            continue
        seen = f"{job.nodes} nodes, and the master is {master.text}: each node means itself and waits for the others"
        yield graded(not master.soft, master, seen, "The address of node 0, as the others reach it.")


def master_missing(paper: Paper) -> Iterator[Remark]:
    for job in paper.jobs:
        if _alone(paper, job):
            seen = f"{job.nodes} nodes, and no list of them: deepspeed starts on this one alone"
            yield warn(job.told("nodes") or job, seen, "--hostfile FILE, a line for each: HOST slots=CARDS.")
        if not _several(job) or job.open or job.says("hostfile", "ips", "standalone"):
            continue
        if _carried(job) and not (_told_inside(paper, job) or (_alike(job) and job.launcher.master_default)):
            continue
        if (
            job.launcher.name in ("deepspeed", "python")
            or told_elsewhere(paper, job)
            or job.says("deepspeed_hostfile")
            or job.told("master") is not None
            or _from_outside(job, "master")
        ):
            continue
        if job.launcher.options.get("master") or job.launcher.variables.get("master"):
            usual = job.launcher.master_default
            if job.program is None and job.launcher.program:
                place = job.told("nodes") or job
                do = "Write it here, or --main_process_ip ADDRESS beside --config_file."
                yield warn(place, f"{job.nodes} machines, and main_process_ip is not here", do)
                continue
            seen = f"{job.nodes} nodes, and no address of the first one" + (
                f": {usual} is taken, and each waits for itself" if usual else ""
            )
            yield fail(
                job.told("nodes") or job, seen, _how(job, "master").replace("=N", "=ADDRESS").replace(" N", " ADDRESS")
            )


def _alone(paper: Paper, job: Job) -> bool:
    """deepspeed knows other nodes by a list alone, which is looked for in /job, too (its launcher/constants.py)."""
    if job.launcher.name != "deepspeed" or not _several(job) or job.open or job.command.elsewhere:
        return False
    told = job.says("hostfile", "node_rank", "no_ssh", "include", "exclude", "launcher")
    return told is None and not paper.machine.exists("/job/hostfile")


def master_elsewhere(paper: Paper) -> Iterator[Remark]:
    """An address that stands in the script, against this machine's own."""
    for job in paper.jobs:
        master = job.told("master")
        match = _ADDRESS.fullmatch(master.text) if master else None
        if (
            job.command.elsewhere
            or master is None
            or match is None
            or _LOOPBACK.fullmatch(master.text)
            or not job.trains
        ):
            continue
        there = paper.machine.interfaces
        rank = number(told.plain) if (told := job.told("rank")) else None
        if rank not in (None, 0):
            continue
        own = {address.partition("/")[0] for each in (there or {}).values() for address in each}
        if there is not None and paper.here is not False and match[1] in own:
            continue
        do = "The address of your own first node."
        if job.nodes == 1 and there is not None and paper.here:
            yield fail(master, f"one node, and its master is {match[1]}, which is no address of this machine", do)
        else:
            seen = f"whether {match[1]} is your first node cannot be told: it is no address of this machine"
            yield unknown(
                master, seen if there is not None else f"whether {match[1]} is your first node was not looked up", do
            )


def ports(paper: Paper) -> Iterator[Remark]:
    for job in paper.jobs:
        word = job.told("port") or job.told("master")
        if word is None or not word.known:
            continue
        found = re.fullmatch(r"(?:.*:)?(\d+)", word.text)
        port = (
            int(found[1]) if found and (job.told("port") is word or ":" in word.text) and len(found[1]) < 12 else None
        )
        if port is not None and not 0 <= port <= 65535:
            yield fail(word, f"there is no port {port}", "One between 1024 and 65535.")
        elif port is not None and 0 < port < 1024:
            yield warn(word, f"port {port} is one that only root may open", "One between 1024 and 65535.")


def one_role(paper: Paper) -> Iterator[Remark]:
    """Collectives of two vendors (FlagCX) want another script on each."""
    for job in paper.jobs:
        env = job.command.environment
        wanted = env.get("PADDLE_DISTRI_BACKEND")
        if (
            paper.document
            and _role(job)
            and _several(job)
            and wanted is not None
            and wanted.text != "flagcx"
            and job.option("device")
        ):
            seen = (
                f"one role of two: PADDLE_DISTRI_BACKEND={wanted.text}; an NVIDIA node wants flagcx, and --device gpu"
            )
            yield warn(wanted, seen, "A script for each role, ranks once each.")
