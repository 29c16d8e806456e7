"""What a training wants of its node besides cards: the host's memory, and room on the disk."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import place_of
from envcheck.core.lint.model import Remark
from envcheck.core.lint.remarks import fail, unknown, warn
from envcheck.core.lint.training_job import TrainingJob
from envcheck.lint.rules.training.degrees import model_of
from envcheck.lint.rules.training.steps import STEPS, whole

_LARGE = 2e10  # parameters: below, states and checkpoints are small beside what a machine with such cards has
_STATES = 12  # bytes for each parameter: master weights and both moments, 4 each (launch.planner.verdict)
_WEIGHTS = 2
_GIB = 1 << 30
_LEAN = ("save_only_model", "ignore_save_lr_and_optim", "no_save_optim")


def _whole_model(job: TrainingJob) -> float:
    """Parameters of a large model of which all are trained; 0 for others."""
    model, lora = model_of(job), job.option("lora", "lora_rank")
    part = job.option("finetuning_type", "tuner_type", "train_type", "fine_tuning", "sft_type")
    few = (lora is not None and lora.on) or (part is not None and part.value in ("lora", "qlora", "LoRA", "adalora"))
    return 0.0 if model is None or few or model.params < _LARGE else float(model.params)


def offload(context: LintContext) -> Iterator[Remark]:
    """States that are offloaded want the host's memory."""
    for job in context.jobs:
        given = job.option("offload_optim", "tensorwise_offload_optimizer", "cpu_offload", "optimizer_cpu_offload")
        params, model = _whole_model(job), model_of(job)
        if given is None or not given.on or not params or model is None:
            continue
        size = params * _STATES / (job.nodes or 1) / _GIB
        seen = f"the optimiser's states of {model.name} want {size:.0f} GiB of each node's own memory"
        yield warn(place_of(given), seen, "free -g; envcheck plan counts it.")


def disk(context: LintContext) -> Iterator[Remark]:
    """Checkpoints of a whole large model, against the room where they are written."""
    for job in context.jobs:
        given, params, model = job.option("output_dir", "save"), _whole_model(job), model_of(job)
        if given is None or not given.value or not params or model is None or not job.trains:
            continue
        each = (_WEIGHTS if _lean(job) else _WEIGHTS + _STATES) * params / (job.nodes or 1)
        kept = _kept(job)
        free = context.machine.free_bytes(given.value, job.command.cwd) if context.here else None
        name, size = model.name, f"{each / _GIB:.0f}"
        if free is None:
            seen = (
                f"checkpoints of {name} want {kept} x {size} GiB on this node: whether there is room was not looked up"
            )
            do = "df -h there; save_total_limit keeps fewer, and save_only_model leaves the optimiser's states out."
            yield unknown(place_of(given), seen, do)
        elif free < kept * each:
            seen = (
                f"checkpoints of {name} want {kept} x {size} GiB on this node, and {free / _GIB:.0f} GiB are free there"
            )
            yield fail(place_of(given), seen, "Another folder, or fewer of them by save_total_limit.")


def _lean(job: TrainingJob) -> bool:
    given = job.option(*_LEAN)
    return given is not None and given.on


def _kept(job: TrainingJob) -> int:
    """How many stand at once: one at least, at the end."""
    steps, every = whole(job.option(*STEPS)), whole(job.option("save_steps", "save_interval"))
    made = -(-steps // every) if steps and every and steps > 0 and every > 0 else 1
    most = whole(job.option("save_total_limit"))
    return max(1, min(made, most) if most and most > 0 else made)
