"""Rules about options that Megatron-LM and MindSpeed-LLM reject before the training starts."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import locate_option
from envcheck.core.lint.remark_builders import fail, warn_or_fail
from envcheck.core.lint.script_model import Remark
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import _
from envcheck.scripts.known_programs import find_started_program
from envcheck.scripts.megatron_limits import Refusal, list_refusals

_PROGRAMS = ("MindSpeed-LLM", "Megatron-LM or MindSpeed-LLM")  # names in known_programs
# Options without a value in all versions from core 0.8 on.  Source: megatron/training/arguments.py, store_true.
FLAGS = frozenset((
    "accumulate_allreduce_grads_in_fp32", "add_qkv_bias", "apply_layernorm_1p", "attention_softmax_in_fp32", "bf16",
    "disable_bias_linear", "distribute_saved_activations", "finetune", "fp16", "group_query_attention",
    "moe_grouped_gemm", "multi_latent_attention", "no_bias_gelu_fusion", "no_bias_swiglu_fusion",
    "no_gradient_accumulation_fusion", "no_load_optim", "no_load_rng", "no_masked_softmax_fusion",
    "no_persist_layer_norm", "no_position_embedding", "no_rope_fusion", "no_save_optim", "no_save_rng",
    "overlap_grad_reduce", "overlap_param_gather", "qk_layernorm", "recompute_activations", "reset_attention_mask",
    "reset_position_ids", "sequence_parallel", "swiglu", "untie_embeddings_and_output_weights",
    "use_distributed_optimizer", "use_flash_attn", "use_mcore_models",
))  # fmt: skip
_TRUTHS = ("true", "false", "yes", "no", "on", "off", "0", "1")


def find_rejected_values(context: LintContext) -> Iterator[Remark]:
    """Find flags with a value, and values that are none of an option's choices."""
    for job in context.jobs:
        if not is_megatron(job):
            continue
        for given in job.options:
            text = given.value or ""
            if given.python_name in FLAGS and not given.key and text.lower() in _TRUTHS:
                seen = _(
                    "--{option} is a flag and takes no value, but {value} follows it: the program exits",
                    option=given.name,
                    value=text,
                )
                yield fail(locate_option(given), seen, _("Remove the value, or the whole option to switch it off."))
        yield from _remark_refusals(job, "recompute")


def find_rejected_shapes(context: LintContext) -> Iterator[Remark]:
    """Find heads that do not divide the hidden size, and layers that do not divide into stages or chunks."""
    for job in context.jobs:
        if is_megatron(job):
            yield from _remark_refusals(job, "model", "pp", "vpp")


def is_megatron(job: TrainingJob) -> bool:
    """Return whether the program of a job is one of Megatron-LM or MindSpeed-LLM."""
    row = find_started_program(job.command.words, job.command.environment)
    return row is not None and row.name in _PROGRAMS


def needs_even_stages(job: TrainingJob) -> bool:
    """Return whether the program rejects the job because its layers do not divide evenly into stages."""
    return is_megatron(job) and any(refusal.value == "pp" for refusal in _list_certain(job))


def _remark_refusals(job: TrainingJob, *values: str) -> Iterator[Remark]:
    for refusal in _list_certain(job):
        found = [given for name in refusal.options if (given := job.find_given_option(name)) is not None]
        if refusal.value in values and found:
            sure = not any(given.is_replaceable for given in found)
            do = _("Write a value that the program accepts: it exits with an error otherwise.")
            yield warn_or_fail(sure, locate_option(found[0]), refusal.reason, do)


def _list_certain(job: TrainingJob) -> Iterator[Refusal]:
    """The refusals that no option in an unknown word can prevent."""
    found = list_refusals(lambda name: _read_option(job, name))
    return (refusal for refusal in found if not (refusal.is_default_decisive and job.open))


def _read_option(job: TrainingJob, name: str) -> str | None:
    given = job.find_given_option(name)
    return None if given is None else given.value or ""
