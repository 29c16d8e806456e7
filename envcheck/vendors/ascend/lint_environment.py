"""Lint rules for the environment of programs on NPUs: CANN's scripts, visible devices, tools."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, note, warn
from envcheck.core.lint.script_model import Remark
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import program_name
from envcheck.core.messages import _, verbatim
from envcheck.vendors.ascend import VENDOR


def find_missing_set_env(context: LintContext) -> Iterator[Remark]:
    """Yield a note if a job for NPUs does not source CANN's set_env.sh, or ATB's for Paddle."""
    if context.device != VENDOR.name:
        return
    sourced = " ".join(w.text for _unused, c in context.find_commands("source", ".") for w in c.words)
    jobs = [job for job in context.jobs if job.is_training and job.launcher.name and not _is_login_shell(job)]
    if not jobs:
        return
    if not re.search(r"set_?env", sourced) and not re.search(r"(^|\s)bash -l", sourced):
        if any("ASCEND_HOME_PATH" in job.command.environment for job in jobs):
            return
        seen = _("the script does not source CANN's set_env.sh: in a service or docker exec, CANN is not on any path")
        do = _("Add source /usr/local/Ascend/ascend-toolkit/set_env.sh, unless the calling shell already ran it.")
        yield note(jobs[0], seen, do)
    elif re.search(r"toolkit|cann", sourced) and not re.search(r"nnal|atb", sourced):
        paddle = [
            job for job in jobs if job.launcher.name in ("paddle.distributed.launch", "erniekit", "paddleformers-cli")
        ]
        if paddle:
            place = next(
                c
                for _unused, c in context.find_commands("source", ".")
                if re.search(r"set_?env", " ".join(c.list_texts()))
            )
            seen = _("the script does not source ATB's set_env.sh: a plugin that needs libatb.so cannot find it")
            yield note(place, seen, _("Add source /usr/local/Ascend/nnal/atb/set_env.sh."))


def _is_login_shell(job: TrainingJob) -> bool:
    """Return whether the job runs in `bash -l`, whose start files set the paths in a container."""
    if job.command.login:
        return True
    texts = job.command.list_texts()
    pairs = itertools.pairwise(texts)
    return any(one in ("bash", "sh") and re.fullmatch(r"-\w*l\w*", other) for one, other in pairs)


def find_wrong_visible_name(context: LintContext) -> Iterator[Remark]:
    """Yield remarks on variables for visible devices that an NPU process does not read."""
    for job in context.jobs:
        env = job.command.environment
        if context.device == VENDOR.name and "CUDA_VISIBLE_DEVICES" in env and "ASCEND_RT_VISIBLE_DEVICES" not in env:
            yield fail(
                env["CUDA_VISIBLE_DEVICES"],
                _("NPUs ignore CUDA_VISIBLE_DEVICES: all NPUs are used"),
                _("Use ASCEND_RT_VISIBLE_DEVICES, which applies to processes."),
            )
        if "ASCEND_VISIBLE_DEVICES" in env and "ASCEND_RT_VISIBLE_DEVICES" not in env:
            seen = _("ASCEND_VISIBLE_DEVICES is read by the container runtime only: it has no effect on a process")
            yield warn(
                env["ASCEND_VISIBLE_DEVICES"], seen, _("Use ASCEND_RT_VISIBLE_DEVICES, which applies to processes.")
            )


def find_cuda_tool(context: LintContext) -> Iterator[Remark]:
    """Yield a warning for nvidia-smi in a script for NPUs, unless its failure is handled."""
    if context.device != VENDOR.name:
        return
    for _unused, command in context.find_commands("nvidia-smi"):
        if program_name(command) and not command.guarded and not command.lenient and not command.elsewhere:
            yield warn(
                command.words[0],
                _("nvidia-smi does not list NPUs, and is not installed with them"),
                verbatim("npu-smi info"),
            )
