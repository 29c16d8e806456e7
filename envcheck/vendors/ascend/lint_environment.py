"""The environment of programs on NPUs: CANN's set-up, variables that choose devices, tools that are called."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Remark
from envcheck.core.lint.remarks import fail, warn
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import bare
from envcheck.vendors.ascend import VENDOR


def set_env(context: LintContext) -> Iterator[Remark]:
    """On an NPU: CANN's own set-up is sourced, and ATB's where Paddle needs it."""
    if context.device != VENDOR.name:
        return
    sourced = " ".join(w.text for _, c in context.commands("source", ".") for w in c.words)
    jobs = [job for job in context.jobs if job.trains and job.launcher.name and not _login(job)]
    if not jobs:
        return
    if not re.search(r"set_?env", sourced) and not re.search(r"(^|\s)bash -l", sourced):
        if any("ASCEND_HOME_PATH" in job.command.environment for job in jobs):
            return
        seen = "CANN's set_env.sh is not sourced here; a service or docker exec has no CANN in its paths then"
        do = "source /usr/local/Ascend/ascend-toolkit/set_env.sh, unless the shell that calls this has done so."
        yield warn(jobs[0], seen, do)
    elif re.search(r"toolkit|cann", sourced) and not re.search(r"nnal|atb", sourced):
        paddle = [
            job for job in jobs if job.launcher.name in ("paddle.distributed.launch", "erniekit", "paddleformers-cli")
        ]
        if paddle:
            place = next(c for _, c in context.commands("source", ".") if re.search(r"set_?env", " ".join(c.texts())))
            seen = "ATB's set_env.sh is not sourced: where the plugin wants libatb.so, it is not found"
            yield warn(place, seen, "source /usr/local/Ascend/nnal/atb/set_env.sh as well.")


def _login(job: TrainingJob) -> bool:
    """bash -l: the start files of the container set the paths."""
    if job.command.login:
        return True
    texts = job.command.texts()
    pairs = itertools.pairwise(texts)
    return any(one in ("bash", "sh") and re.fullmatch(r"-\w*l\w*", other) for one, other in pairs)


def visible_name(context: LintContext) -> Iterator[Remark]:
    """The runtime's list is none of the process."""
    for job in context.jobs:
        env = job.command.environment
        if context.device == VENDOR.name and "CUDA_VISIBLE_DEVICES" in env and "ASCEND_RT_VISIBLE_DEVICES" not in env:
            yield fail(
                env["CUDA_VISIBLE_DEVICES"],
                "no NPU reads CUDA_VISIBLE_DEVICES: all of them are used",
                "ASCEND_RT_VISIBLE_DEVICES",
            )
        if "ASCEND_VISIBLE_DEVICES" in env and "ASCEND_RT_VISIBLE_DEVICES" not in env:
            seen = "ASCEND_VISIBLE_DEVICES is for the container's runtime, and chooses nothing in a process"
            yield warn(env["ASCEND_VISIBLE_DEVICES"], seen, "ASCEND_RT_VISIBLE_DEVICES, which counts inside.")


def cuda_tool(context: LintContext) -> Iterator[Remark]:
    """nvidia-smi, where only npu-smi is; not where its absence is looked at."""
    if context.device != VENDOR.name:
        return
    for _, command in context.commands("nvidia-smi"):
        if bare(command) and not command.guarded and not command.lenient and not command.elsewhere:
            yield warn(command.words[0], "nvidia-smi finds no NPU, and is not installed with one", "npu-smi info")
