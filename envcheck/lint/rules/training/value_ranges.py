"""Rule about numbers that no training takes, such as a sequence length of 0."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption, locate_option, parse_float, parse_integer
from envcheck.core.lint.remark_builders import fail, warn
from envcheck.core.lint.script_model import Remark
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import NOTHING, _
from envcheck.lint.rules.training.constraints import list_program_calls
from envcheck.scripts.jobs.option_names import NAMES
from envcheck.scripts.jobs.value_reader import MOST, explain_number

EPOCHS = ("num_train_epochs", "num_epochs")
_ADAPTERS = ("lora", "dora")


def find_impossible_numbers(context: LintContext) -> Iterator[Remark]:
    """Find sizes below 1 or far above any possible one, and a training of no epoch."""
    yield from _find_wrong_shares(context)
    for job in context.jobs:
        if not job.is_training:
            continue
        for name in MOST:
            given = job.find_option(*NAMES[name])
            seen = (
                explain_number(name, given.python_name, (given.value or "").strip()) if given is not None else NOTHING
            )
            if given is not None and seen and not _is_unused(job, name, given):
                yield fail(locate_option(given), seen, _("Write a number in this range."))
        epochs = job.find_option(*EPOCHS)
        if epochs is not None:
            yield from _judge_epochs(job, epochs)


def _find_wrong_shares(context: LintContext) -> Iterator[Remark]:
    """Find shares of the device memory for vLLM and SGLang that are no part of it."""
    for call in list_program_calls(context):
        for given in call.options:
            number = parse_float(given.value)
            if given.python_name.endswith("gpu_memory_utilization") and number is not None and not 0 < number <= 1:
                seen = _("{option} {value}: expected a number above 0, and 1 at most", option=given.python_name,
                         value=given.value)  # fmt: skip
                yield fail(locate_option(given), seen, _("Write a number in this range."))


def _is_unused(job: TrainingJob, name: str, given: GivenOption) -> bool:
    """Whether the job has no adapter: some programs write rank 0 for that."""
    if name != "lora_rank" or given.value != "0":
        return False
    tuner = job.find_option(*NAMES["tuner"])
    return tuner is None or not any(word in (tuner.value or "").lower() for word in _ADAPTERS)


def _judge_epochs(job: TrainingJob, given: GivenOption) -> Iterator[Remark]:
    """Steps, where set, replace the epochs.  Programs accept 0: some scripts evaluate a model so."""
    number, steps = parse_float(given.value), job.find_option(*NAMES["max_steps"])
    if number is None or number > 0 or (steps is not None and (parse_integer(steps.value) or 1) > 0):
        return
    do = _("Write a number above 0, or set max_steps.")
    if number < 0:
        seen = _("{option} {value}: expected a number above 0", option=given.python_name, value=given.value)
        yield fail(locate_option(given), seen, do)
    else:
        seen = _("{option} {value}: the job runs no training step", option=given.python_name, value=given.value)
        yield warn(locate_option(given), seen, do)
