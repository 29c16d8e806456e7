"""Rules about YAML values whose type the trainer rejects, and about Python tags."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, warn_or_fail
from envcheck.core.lint.script_model import UNKNOWN, ConfigEntry, Remark, ShellWord
from envcheck.core.messages import NOTHING, Message, _
from envcheck.lint.rules.training.option_schemas import find_config_options, find_program_options

# Arguments of transformers and LLaMA-Factory that have the same type in all versions.
_NUMBERS = frozenset(
    [
        "max_steps",
        "num_train_epochs",
        "learning_rate",
        "weight_decay",
        "max_grad_norm",
        "warmup_ratio",
        "per_device_train_batch_size",
        "per_device_eval_batch_size",
        "gradient_accumulation_steps",
        "seed",
        "dataloader_num_workers",
        "ddp_timeout",
        "lora_rank",
        "lora_alpha",
        "lora_dropout",
        "cutoff_len",
        "max_length",
        "max_seq_len",
        "max_samples",
        "val_size",
        "pref_beta",
        "save_total_limit",
        "split_dataset_ratio",
        "preprocessing_num_workers",
        "tensor_parallel_degree",
        "pipeline_parallel_degree",
    ]
)
_SWITCHES = frozenset(
    [
        "do_train",
        "do_eval",
        "do_predict",
        "fp16",
        "bf16",
        "gradient_checkpointing",
        "overwrite_output_dir",
        "overwrite_cache",
        "load_best_model_at_end",
        "save_only_model",
        "predict_with_generate",
        "packing",
        "group_by_length",
        "streaming",
    ]
)
_OWN = ("llamafactory", "paddle", "swift")


def find_wrong_value_types(context: LintContext) -> Iterator[Remark]:
    """Find values of the wrong type; only for keys in the trainer's option list."""
    yield from _find_wrong_numbers(context)
    for config in context.configs:
        kit = find_config_options(context, config) if config.family in _OWN else None
        for entry in config.entries if kit else ():
            if (
                kit is not None
                and not entry.path
                and kit.has_option(entry.name)
                and (wanted := _name_expected_type(entry))
            ):
                value = entry.values[0][:40] if entry.values and entry.kind != "seq" else {"seq": _('a list')}.get(
                    entry.kind, _("a mapping")
                )  # fmt: skip
                place = ShellWord("", entry.value_start, entry.value_end)
                sure = entry.name in _NUMBERS
                if sure:
                    seen = _(
                        "{key} is {value}: the trainer expects {wanted}, and exits",
                        key=entry.name,
                        value=value,
                        wanted=wanted,
                    )
                else:
                    seen = _(
                        "{key} is {value}: the trainer expects {wanted}, and reads any text as true",
                        key=entry.name,
                        value=value,
                        wanted=wanted,
                    )
                yield warn_or_fail(sure, place, seen, _("Write {wanted}.", wanted=wanted))


def _find_wrong_numbers(context: LintContext) -> Iterator[Remark]:
    """The same on a command line: numbers with a unit or a comma."""
    for job in context.jobs:
        kit = find_program_options(context, job)
        for given in job.options if kit else ():
            text = given.value or ""
            if kit is None or given.key or given.python_name not in _NUMBERS or not kit.has_option(given.name):
                continue
            if re.fullmatch(r"[\d.,]*\d[\d.,]*[A-Za-z%]?", text) and not re.fullmatch(r"\d*\.?\d*", text):
                seen = _("{key} is {value}: the trainer expects {wanted}, and exits", key=given.python_name,
                         value=text[:40], wanted=_("a number"))  # fmt: skip
                yield fail(given.values[0], seen, _("Write {wanted}.", wanted=_("a number")))


def _name_expected_type(entry: ConfigEntry) -> Message:
    """The expected type; "" if the value may be valid.  Variables and numeric texts are left to the parser."""
    text = entry.values[0] if entry.values else ""
    if entry.kind == "null" or "$" in text or "{{" in text or UNKNOWN in text:
        return NOTHING
    single = entry.kind not in ("seq", "map")
    if entry.name in _NUMBERS:
        figure = single and entry.kind != "bool" and re.fullmatch(r"[-+]?[\d_]*(?:\.\d*)?([eE][-+]?\d+)?", text.strip())
        return NOTHING if figure and text.strip() else _("a number")
    if entry.name in _SWITCHES:
        return NOTHING if single and text.lower() in _TRUTHS else _("true or false")
    return NOTHING


_TRUTHS = ("true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "0", "1", "auto")


def find_python_tags(context: LintContext) -> Iterator[Remark]:
    """Find !!python/object and similar: safe loaders fail at them, others would execute them."""
    for config in context.configs:
        for entry in config.entries if config.family else ():
            if entry.kind.startswith(("python/", "!")):
                place = ShellWord("", entry.value_start, entry.value_end)
                seen = _(
                    "{name} has the tag {kind}: the trainers read only plain YAML, and exit",
                    name=entry.name,
                    kind=entry.kind[:40],
                )
                yield fail(place, seen, _("Write a plain text, number or list."))
