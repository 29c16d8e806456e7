"""The options of the training frameworks that say the same thing, and what each framework does without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envcheck.core.messages import _

# By value of a job: the option names, of command lines and configuration files (nested keys with dots).
# Sources: the option tables in launch/rendering/options, and the documentation of LLaMA-Factory (arguments), ms-swift
# (command-line parameters), ERNIEKit and PaddleFormers (examples/config), axolotl (config reference), torchtune
# (recipes/configs), Megatron-LM (arguments.py) and transformers (TrainingArguments).
NAMES: Mapping[str, tuple[str, ...]] = {
    "model": (
        "model_name_or_path", "model", "model_path", "base_model", "model_id_or_path", "model_id", "pretrained_model",
        "pretrained_model_name_or_path", "checkpointer.checkpoint_dir", "model._component_", "load",
    ),
    "tuner": (
        "finetuning_type", "tuner_type", "train_type", "sft_type", "fine_tuning", "adapter", "peft_type", "tuner",
    ),
    "stage": ("stage", "rlhf_type", "rl", "training_stage"),
    "micro_batch": ("per_device_train_batch_size", "micro_batch_size", "batch_size", "train_batch_size"),
    "grad_accum": ("gradient_accumulation_steps", "grad_accum_steps"),
    "global_batch": ("global_batch_size",),
    "seq_len": (
        "cutoff_len", "max_length", "max_seq_len", "max_seq_length", "sequence_len", "seq_length", "model_max_length",
        "tokenizer.max_seq_len", "block_size", "seq_len",
    ),
    "lora_rank": ("lora_rank", "lora_r", "model.lora_rank", "peft_lora_r"),
    "lora_targets": (
        "lora_target", "target_modules", "lora_target_modules", "lora_modules", "model.lora_attn_modules",
    ),
    "tp": ("tensor_model_parallel_size", "tensor_parallel_degree", "tensor_parallel_size"),
    "pp": ("pipeline_model_parallel_size", "pipeline_parallel_degree", "pipeline_parallel_size"),
    "ep": ("expert_model_parallel_size", "expert_parallel_degree", "expert_parallel_size"),
    "cp": ("context_parallel_size", "context_parallel_degree"),
    "optimizer": ("optim", "optimizer", "optimizer_type", "optimizer._component_"),
    "quant_bits": ("quantization_bit", "quant_bits"),
    "data": (
        "dataset", "train_dataset_path", "data_path", "train_file", "dataset_name", "datasets", "train_data",
        "dataset_name_or_path", "dataset._component_",
    ),
    "output": ("output_dir", "save", "save_path", "output_path", "output", "checkpointer.output_dir", "save_dir"),
    "max_steps": ("max_steps", "train_iters", "max_train_steps", "max_steps_per_epoch"),
    "warmup": ("warmup_steps", "lr_warmup_iters"),
    "save": ("save_steps", "save_interval"),
    "eval": ("eval_steps", "eval_interval"),
}  # fmt: skip

# Data of the evaluation: not a value of the job, but files that must exist.
EVAL_DATA = ("eval_dataset_path", "eval_dataset", "val_dataset", "validation_file")


@dataclass(frozen=True)
class KitDefaults:
    """What a framework does without an option, in `values`; `options` are its names of these.

    `planner` is its name in the planner, "" if that has no figures of it; `verb` is the command that starts a
    configuration file of it.  `cards`: "all" if it uses all devices by itself.
    """

    title: str
    planner: str
    verb: tuple[str, ...] = ()
    cards: str = "1"
    values: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


_TRANSFORMERS = {"micro_batch": "8", "grad_accum": "1", "recompute": "none"}
_HF_OPTIONS = {
    "model": "model_name_or_path", "tuner": "lora_rank", "micro_batch": "per_device_train_batch_size",
    "grad_accum": "gradient_accumulation_steps", "recompute": "gradient_checkpointing", "sharding": "deepspeed",
    "seq_len": "max_seq_length", "data": "dataset_name", "output": "output_dir", "precision": "bf16",
    "lora_rank": "lora_rank", "cards": "nproc_per_node",
}  # fmt: skip

_VISIBLE = _("{first} or {second}", first="ASCEND_RT_VISIBLE_DEVICES", second="CUDA_VISIBLE_DEVICES")
_DEVICES = _("the launcher's --devices")
KITS: Mapping[str, KitDefaults] = {
    "llamafactory": KitDefaults(
        "LLaMA-Factory", "llamafactory", ("llamafactory-cli", "train"), "all",
        {**_TRANSFORMERS, "seq_len": "2048", "tuner": "lora", "lora_rank": "8", "recompute": "full"},
        {**_HF_OPTIONS, "seq_len": "cutoff_len", "tuner": "finetuning_type", "data": "dataset",
         "recompute": "disable_gradient_checkpointing", "cards": _VISIBLE},
    ),
    "ms-swift": KitDefaults(
        "ms-swift", "swift", ("swift", "sft"), "1",
        {**_TRANSFORMERS, "micro_batch": "1", "grad_accum": "", "tuner": "lora", "lora_rank": "8", "recompute": "full"},
        {**_HF_OPTIONS, "model": "model", "seq_len": "max_length", "tuner": "tuner_type", "data": "dataset",
         "cards": "NPROC_PER_NODE"},
    ),
    "ms-swift megatron": KitDefaults(
        "Megatron-SWIFT", "megatron-swift", ("megatron", "sft"), "1",
        {"micro_batch": "1", "tuner": "full", "recompute": "selective", "sequence_parallel": "false"},
        {**_HF_OPTIONS, "model": "model", "seq_len": "max_length", "tuner": "tuner_type", "data": "dataset",
         "micro_batch": "micro_batch_size", "grad_accum": "global_batch_size", "recompute": "recompute_granularity",
         "output": "save", "cards": "NPROC_PER_NODE"},
    ),
    "paddleformers": KitDefaults(
        "PaddleFormers", "erniekit", ("paddleformers-cli", "train"), "all",
        {**_TRANSFORMERS, "tuner": "lora", "lora_rank": "8", "sequence_parallel": "false"},
        {**_HF_OPTIONS, "seq_len": "max_seq_len", "tuner": "fine_tuning", "data": "train_dataset_path",
         "recompute": "recompute_granularity", "sharding": "sharding", "cards": _DEVICES},
    ),
    "erniekit": KitDefaults(
        "ERNIEKit", "erniekit", ("erniekit", "train"), "all",
        {**_TRANSFORMERS, "tuner": "lora", "lora_rank": "8", "sequence_parallel": "false"},
        {**_HF_OPTIONS, "seq_len": "max_seq_len", "tuner": "fine_tuning", "data": "train_dataset_path",
         "micro_batch": "batch_size", "recompute": "recompute", "sharding": "sharding",
         "cards": _DEVICES},
    ),
    "axolotl": KitDefaults(
        "axolotl", "axolotl", ("axolotl", "train"), "all",
        {"micro_batch": "1", "grad_accum": "1", "seq_len": "512", "tuner": "full", "recompute": "none"},
        {**_HF_OPTIONS, "model": "base_model", "seq_len": "sequence_len", "tuner": "adapter", "data": "datasets",
         "micro_batch": "micro_batch_size", "lora_rank": "lora_r", "cards": "CUDA_VISIBLE_DEVICES"},
    ),
    "torchtune": KitDefaults(
        "torchtune", "torchtune", (), "1",
        {"grad_accum": "1", "recompute": "none"},
        {**_HF_OPTIONS, "model": "checkpointer.checkpoint_dir", "seq_len": "tokenizer.max_seq_len",
         "tuner": "model._component_", "micro_batch": "batch_size", "recompute": "enable_activation_checkpointing",
         "lora_rank": "model.lora_rank", "data": "dataset._component_"},
    ),
    "transformers": KitDefaults("transformers", "transformers", (), "1", _TRANSFORMERS, _HF_OPTIONS),
    "megatron": KitDefaults(
        "Megatron-LM", "megatron", (), "1",
        {"micro_batch": "1", "tuner": "full", "recompute": "none", "precision": "fp32", "sequence_parallel": "false"},
        {**_HF_OPTIONS, "model": "load", "micro_batch": "micro_batch_size", "grad_accum": "global_batch_size",
         "seq_len": "seq_length", "recompute": "recompute_granularity", "data": "data_path", "output": "save"},
    ),
    "paddlenlp": KitDefaults(
        "PaddleNLP", "", (), "1", {},
        {**_HF_OPTIONS, "seq_len": "max_length", "recompute": "recompute", "sharding": "sharding",
         "data": "dataset_name_or_path", "cards": _DEVICES},
    ),
    "": KitDefaults("", ""),
}  # fmt: skip

# Option names of one framework only.
UNIQUE = frozenset(["finetuning_type", "tuner_type", "fine_tuning", "train_dataset_path", "train_type"])
# Option names that only one kind of program has, for a program that its command does not name.
SIGNS: tuple[tuple[str, frozenset[str]], ...] = (
    ("megatron", frozenset(["train_iters", "num_attention_heads", "hidden_size", "global_batch_size", "seq_length"])),
    (
        "transformers",
        frozenset(["per_device_train_batch_size", "model_name_or_path", "num_train_epochs", "output_dir"]),
    ),
)
FAMILY_KITS = {
    "llamafactory": "llamafactory", "paddle": "erniekit", "swift": "ms-swift", "axolotl": "axolotl",
    "torchtune": "torchtune", "paddlenlp": "paddlenlp",
}  # fmt: skip
# How many of a family's keys the options of an unknown program need: those of PaddleNLP are names of others, too.
FEWEST_KEYS = {"paddlenlp": 3}
