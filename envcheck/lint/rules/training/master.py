"""Where the first node is: its address, whose that is, and the port."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import number
from envcheck.core.lint.model import Remark
from envcheck.core.lint.remarks import fail, graded, unknown, warn
from envcheck.core.lint.training_job import TrainingJob
from envcheck.lint.rules.training.multi_node import (
    alike,
    carried,
    from_outside,
    several,
    told_elsewhere,
    told_inside,
    way,
)

_LOOPBACK = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[?::1\]?|0\.0\.0\.0)(:\d+)?")
_ADDRESS = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3})(?::(\d+))?")
_OWN_ADDRESS = re.compile(r"(?:\$\(|`)\s*hostname\b[^)`$]{0,80}[)`]")


def loopback(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        master = job.told("master")
        if master is not None and several(job) and _OWN_ADDRESS.search(master.raw) and _everyones(context, job):
            seen = f"{job.nodes} nodes, and each takes its own address for the master's"
            yield fail(master, seen, "The address of node 0, as the others reach it.")
            continue
        if not several(job) or master is None or not _LOOPBACK.fullmatch(master.text):
            continue
        seen = f"{job.nodes} nodes, and the master is {master.text}: each node means itself and waits for the others"
        yield graded(not master.soft, master, seen, "The address of node 0, as the others reach it.")


def _everyones(context: LintContext, job: TrainingJob) -> bool:
    """Each node runs these lines by itself, and not the first one alone: a rank comes from outside."""
    rank = job.told("rank")
    batch = any(text.startswith("#SBATCH") for _, _, text in job.script.comments)
    return not batch and not context.document and (rank is None or number(rank.plain) is None) and not carried(job)


def master_missing(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        if _alone(context, job):
            seen = f"{job.nodes} nodes, and no list of them: deepspeed starts on this one alone"
            yield warn(job.told("nodes") or job, seen, "--hostfile FILE, a line for each: HOST slots=CARDS.")
        if not several(job) or job.open or job.says("hostfile", "ips", "standalone"):
            continue
        if carried(job) and not (told_inside(context, job) or (alike(job) and job.launcher.master_default)):
            continue
        if (
            job.launcher.name in ("deepspeed", "python")
            or told_elsewhere(context, job)
            or job.says("deepspeed_hostfile")
            or job.told("master") is not None
            or from_outside(job, "master")
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
                job.told("nodes") or job, seen, way(job, "master").replace("=N", "=ADDRESS").replace(" N", " ADDRESS")
            )


def _alone(context: LintContext, job: TrainingJob) -> bool:
    """deepspeed knows other nodes by a list alone, which is looked for in /job, too (its launcher/constants.py)."""
    if job.launcher.name != "deepspeed" or not several(job) or job.open or job.command.elsewhere:
        return False
    told = job.says("hostfile", "node_rank", "no_ssh", "include", "exclude", "launcher")
    return told is None and not context.machine.exists("/job/hostfile")


def master_elsewhere(context: LintContext) -> Iterator[Remark]:
    """An address that stands in the script, against this machine's own."""
    for job in context.jobs:
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
        there = context.machine.interfaces
        rank = number(told.plain) if (told := job.told("rank")) else None
        if rank not in (None, 0):
            continue
        own = {address.partition("/")[0] for each in (there or {}).values() for address in each}
        if there is not None and context.here is not False and match[1] in own:
            continue
        do = "The address of your own first node."
        if job.nodes == 1 and there is not None and context.here:
            yield fail(master, f"one node, and its master is {match[1]}, which is no address of this machine", do)
        else:
            seen = f"whether {match[1]} is your first node cannot be told: it is no address of this machine"
            yield unknown(
                master, seen if there is not None else f"whether {match[1]} is your first node was not looked up", do
            )


def ports(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
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
