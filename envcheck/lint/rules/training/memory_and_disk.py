"""Rules about host memory and disk space of a training."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import locate_option
from envcheck.core.lint.remark_builders import fail, unknown, warn
from envcheck.core.lint.script_model import Remark
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import _
from envcheck.lint.rules.training.hyperparameters import STEPS, read_whole_number
from envcheck.lint.rules.training.parallel_degrees import find_model

_LARGE = 2e10  # parameters: below, states and checkpoints are small compared with such a machine
_STATES = 12  # bytes for each parameter: master weights and both moments, 4 each (launch.planner.verdict)
_WEIGHTS = 2
_GIB = 1 << 30
_LEAN = ("save_only_model", "ignore_save_lr_and_optim", "no_save_optim")


def _count_trained_parameters(job: TrainingJob) -> float:
    """Parameters of a large model that trains all of them; 0 for others."""
    model, lora = find_model(job), job.find_option("lora", "lora_rank")
    part = job.find_option("finetuning_type", "tuner_type", "train_type", "fine_tuning", "sft_type")
    few = (lora is not None and lora.is_enabled) or (
        part is not None and part.value in ("lora", "qlora", "LoRA", "adalora")
    )
    return 0.0 if model is None or few or model.params < _LARGE else float(model.params)


def find_offload_to_host(context: LintContext) -> Iterator[Remark]:
    """Find offloaded optimizer states that need much host memory."""
    for job in context.jobs:
        given = job.find_option("offload_optim", "tensorwise_offload_optimizer", "cpu_offload", "optimizer_cpu_offload")
        params, model = _count_trained_parameters(job), find_model(job)
        if given is None or not given.is_enabled or not params or model is None or not _has_optimizer(job):
            continue
        size = params * _STATES / (job.node_count or 1) / _GIB
        seen = _(
            "the optimizer states of {name} need {size:.0f} GiB of host memory on each node", name=model.name, size=size
        )
        yield warn(locate_option(given), seen, _("Check with free -g. envcheck plan estimates the memory."))


_OF_TRAINING = re.compile(r"(?:^|_)(?:lr|learning_rate|train|stage|iters|epochs|save|deepspeed|optim|optimizer)(?:_|$)")


def _has_optimizer(job: TrainingJob) -> bool:
    """Whether an option says that it trains: inference offloads as well."""
    return any(_OF_TRAINING.search(given.python_name) for given in job.options)


def find_full_disk(context: LintContext) -> Iterator[Remark]:
    """Compare the size of full checkpoints with the free disk space."""
    for job in context.jobs:
        given, params, model = job.find_option("output_dir", "save"), _count_trained_parameters(job), find_model(job)
        if given is None or not given.value or not params or model is None or not job.is_training:
            continue
        each = (_WEIGHTS if _saves_model_only(job) else _WEIGHTS + _STATES) * params / (job.node_count or 1)
        kept = _count_checkpoints(job)
        free = context.machine.find_free_bytes(given.value, job.command.cwd) if context.is_for_this_machine else None
        name, size = model.name, f"{each / _GIB:.0f}"
        if free is None:
            seen = _(
                "checkpoints of {name} need {kept} x {size} GiB on this node; the free disk space is unknown",
                name=name,
                kept=kept,
                size=size,
            )
            do = _(
                "Run df -h on that node. save_total_limit keeps fewer checkpoints, and "
                "save_only_model omits the optimizer states."
            )
            yield unknown(locate_option(given), seen, do)
        elif free < kept * each:
            seen = _(
                "checkpoints of {name} need {kept} x {size} GiB on this node, but only {free:.0f} GiB are free",
                name=name,
                kept=kept,
                size=size,
                free=free / _GIB,
            )
            yield fail(
                locate_option(given), seen, _("Use another directory, or keep fewer checkpoints with save_total_limit.")
            )


def _saves_model_only(job: TrainingJob) -> bool:
    given = job.find_option(*_LEAN)
    return given is not None and given.is_enabled


def _count_checkpoints(job: TrainingJob) -> int:
    """The number of checkpoints kept at once, at least one."""
    steps, every = (
        read_whole_number(job.find_option(*STEPS)),
        read_whole_number(job.find_option("save_steps", "save_interval")),
    )
    made = -(-steps // every) if steps and every and steps > 0 and every > 0 else 1
    most = read_whole_number(job.find_option("save_total_limit"))
    return max(1, min(made, most) if most and most > 0 else made)
