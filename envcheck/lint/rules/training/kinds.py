"""Values of a training's YAML that the trainer's parser refuses by their kind; tags of Python."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Entry, Remark, Word
from envcheck.core.lint.remarks import fail, graded
from envcheck.lint.rules.training.option_schemas import of_family

# transformers' TrainingArguments and LLaMA-Factory's arguments of one kind in all of their versions.
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


def kinds(context: LintContext) -> Iterator[Remark]:
    """Only for keys that the trainer's list of options has."""
    for config in context.configs:
        kit = of_family(context, config.family) if config.family in _OWN else None
        for entry in config.entries if kit else ():
            if kit is not None and not entry.path and kit.has(entry.name) and (wanted := _wrong(entry)):
                value = entry.values[0][:40] if entry.values and entry.kind != "seq" else {"seq": "a list"}.get(
                    entry.kind, "a table"
                )  # fmt: skip
                place = Word("", entry.value_start, entry.value_end)
                sure = wanted == "a number"
                seen = f"{entry.name} is {value}: the trainer wants {wanted}"
                seen += ", and ends" if sure else ", and takes any text for true"
                yield graded(sure, place, seen, f"Write {wanted}.")


def _wrong(entry: Entry) -> str:
    """What is wanted instead; "" where the value may do.  Variables and texts of figures are left to the reader."""
    text = entry.values[0] if entry.values else ""
    if entry.kind == "null" or "$" in text or "{{" in text:
        return ""
    single = entry.kind not in ("seq", "map")
    if entry.name in _NUMBERS:
        figure = single and entry.kind != "bool" and re.fullmatch(r"[-+]?[\d_]*\.?\d*([eE][-+]?\d+)?", text.strip())
        return "" if figure and text.strip() else "a number"
    if entry.name in _SWITCHES:
        return "" if single and text.lower() in _TRUTHS else "true or false"
    return ""


_TRUTHS = ("true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "0", "1", "auto")


def tags(context: LintContext) -> Iterator[Remark]:
    """!!python/object and its like: safe readers end at them, others would run them."""
    for config in context.configs:
        for entry in config.entries if config.family else ():
            if entry.kind.startswith(("python/", "!")):
                place = Word("", entry.value_start, entry.value_end)
                seen = f"{entry.name} has the tag {entry.kind[:40]}: the trainers read plain YAML, and end there"
                yield fail(place, seen, "Write the value plainly, as a text, a number, a list.")
