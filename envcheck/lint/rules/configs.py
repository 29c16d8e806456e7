"""Configurations: whether they can be read, whether their keys are known, what their values are to the reader."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.lint.model import Config, Entry, Fix, Remark, Word
from envcheck.lint.paper import Paper
from envcheck.lint.rules.common import fail, near, swap, unknown, warn
from envcheck.lint.rules.kits import of_family

_DEEPSPEED = frozenset(
    [
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "optimizer",
        "scheduler",
        "communication_data_type",
        "prescale_gradients",
        "gradient_predivide_factor",
        "sparse_gradients",
        "fp16",
        "bf16",
        "amp",
        "gradient_clipping",
        "zero_optimization",
        "zero_allow_untested_optimizer",
        "zero_force_ds_cpu_optimizer",
        "steps_per_print",
        "wall_clock_breakdown",
        "dump_state",
        "flops_profiler",
        "activation_checkpointing",
        "sparse_attention",
        "data_efficiency",
        "curriculum_learning",
        "tensorboard",
        "wandb",
        "csv_monitor",
        "comet",
        "comms_logger",
        "compression_training",
        "checkpoint",
        "data_types",
        "aio",
        "elasticity",
        "autotuning",
        "seq_parallel_communication_data_type",
        "memory_breakdown",
        "eigenvalue",
        "quantize_training",
        "progressive_layer_drop",
        "disable_allgather",
        "nebula",
        "tensor_parallel",
        "monitor_config",
        "hybrid_engine",
        "use_node_local_storage",
        "load_universal_checkpoint",
        "pipeline",
        "torch_autocast",
        "zero_quantized_weights",
        "compile",
        "graph_harvesting",
        "timers",
        "gradient_accumulation_dtype",
        "data_type",
        "checkpoint_tag_validation",
        "amp_master_weights",
        "dataloader_drop_last",
        "use_data_before_expert_parallelism",
        "sequence_parallel_size",
    ]
)
_ZERO = frozenset(
    [
        "stage",
        "contiguous_gradients",
        "reduce_scatter",
        "reduce_bucket_size",
        "use_multi_rank_bucket_allreduce",
        "allgather_partitions",
        "allgather_bucket_size",
        "overlap_comm",
        "load_from_fp32_weights",
        "elastic_checkpoint",
        "offload_param",
        "offload_optimizer",
        "sub_group_size",
        "cpu_offload_param",
        "cpu_offload_use_pin_memory",
        "cpu_offload",
        "prefetch_bucket_size",
        "param_persistence_threshold",
        "model_persistence_threshold",
        "max_live_parameters",
        "max_reuse_distance",
        "gather_16bit_weights_on_model_save",
        "module_granularity_threshold",
        "use_all_reduce_for_fetch_params",
        "stage3_gather_16bit_weights_on_model_save",
        "stage3_gather_fp16_weights_on_model_save",
        "stage3_prefetch_bucket_size",
        "stage3_param_persistence_threshold",
        "stage3_model_persistence_threshold",
        "stage3_max_live_parameters",
        "stage3_max_reuse_distance",
        "ignore_unused_parameters",
        "legacy_stage1",
        "round_robin_gradients",
        "zero_hpz_partition_size",
        "zero_quantized_weights",
        "zero_quantized_nontrainable_weights",
        "zero_quantized_gradients",
        "zeropp_loco_param",
        "mics_shard_size",
        "mics_hierarchical_params_gather",
        "memory_efficient_linear",
        "pipeline_loading_checkpoint",
        "override_module_apply",
        "stage3_use_all_reduce_for_fetch_params",
        "log_trace_cache_warnings",
        "save_muon_momentum_buffer_in_memory",
    ]
)
# Keys of the shells around the trainers, not of the trainers: the readers take them out first.
_ALWAYS = frozenset(
    [
        "config",
        "ray_run_name",
        "ray_storage_path",
        "ray_num_workers",
        "resources_per_worker",
        "placement_strategy",
        "report_to",
        "run_name",
    ]
)


def _key(entry: Entry) -> Word:
    return Word("", entry.start, entry.end)


def readable(paper: Paper) -> Iterator[Remark]:
    for config in paper.configs:
        if config.error:
            place = Word("", *config.error_at)
            if "larger" in config.error or "deeply" in config.error:
                yield unknown(place, f"the configuration is {config.error}", "Lint its parts.")
            else:
                yield fail(
                    place, f"cannot be read: {config.error}", "Mend it: blanks and no tabs, a blank behind each colon."
                )


def doubled(paper: Paper) -> Iterator[Remark]:
    for config in paper.configs:
        for entry in config.doubled:
            yield fail(
                _key(entry),
                f"{entry.name} stands twice: the last one counts, and some readers refuse",
                "Keep the one that is meant.",
            )


def unknown_keys(paper: Paper) -> Iterator[Remark]:
    started = {id(job.config) for job in paper.jobs if job.config is not None and job.launcher.name}
    for config in paper.configs:
        if config.family == "deepspeed":
            yield from _deepspeed(config)
            continue
        kit = of_family(paper, config.family) if config.family and id(config) not in started else None
        for entry in config.entries if kit else ():
            if kit is None or entry.path or kit.has(entry.name) or entry.name in _ALWAYS or not entry.name:
                continue
            meant = near(entry.name, kit.names, 0.85)
            seen = f"{kit.title} has no {entry.name}"
            fix = swap(_key(entry), meant) if meant else None
            if kit.complete and config.family == "llamafactory":
                yield fail(
                    _key(entry),
                    f"{seen} ({kit.known[0].package} {kit.known[0].versions}): it refuses",
                    f"{meant} is one." if meant else "Take it away.",
                    fix,
                )
            elif meant:
                yield warn(_key(entry), f"{seen} in its lists", f"{meant} is one.", fix)


def _deepspeed(config: Config) -> Iterator[Remark]:
    for entry in config.entries:
        names = _DEEPSPEED if not entry.path else _ZERO if entry.path == ("zero_optimization",) else None
        if names is None or entry.name in names or not entry.name:
            continue
        meant = near(entry.name, names, 0.85)
        if meant:
            yield fail(
                _key(entry),
                f"DeepSpeed reads no {entry.name}: it has no effect",
                f"{meant} is one.",
                swap(_key(entry), meant),
            )


def deepspeed_values(paper: Paper) -> Iterator[Remark]:
    for config in paper.configs:
        if config.family != "deepspeed":
            continue
        found = {(*entry.path, entry.name): entry for entry in config.entries}
        stage = found.get(("zero_optimization", "stage"))
        if stage is not None and stage.values and stage.values[0] not in ("0", "1", "2", "3"):
            yield fail(_key(stage), f"there is no ZeRO stage {stage.values[0][:20]}", "0, 1, 2 or 3.")
        halves = [found.get((name, "enabled")) for name in ("fp16", "bf16")]
        if all(each is not None and each.values == ("true",) for each in halves) and halves[1]:
            yield fail(_key(halves[1]), "fp16 and bf16 are both on: DeepSpeed refuses", "Keep one, or auto.")
        total, micro, rounds = (
            _whole(found.get((name,)))
            for name in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
        )
        if total and micro and total % (micro * (rounds or 1)):
            entry = found[("train_batch_size",)]
            yield fail(
                _key(entry),
                f"train_batch_size {total} is no multiple of {micro} x {rounds or 1}: DeepSpeed refuses",
                "micro x accumulation x cards",
            )
        low = [
            e
            for e in (
                found.get(("zero_optimization", "offload_optimizer")),
                found.get(("zero_optimization", "offload_param")),
            )
            if e
        ]
        if (
            low
            and stage is not None
            and stage.values[:1]
            and stage.values[0] in ("0", "1")
            and low[-1].name == "offload_param"
        ):
            yield warn(_key(low[-1]), "parameters are offloaded at stage 3 alone", "stage 3, or without.")


def _whole(entry: Entry | None) -> int | None:
    return int(entry.values[0]) if entry and entry.values and re.fullmatch(r"\d{1,9}", entry.values[0]) else None


def text_numbers(paper: Paper) -> Iterator[Remark]:
    """1e-5 is a text to readers of YAML 1.1, for want of a point."""
    for config in paper.configs:
        if config.block.kind != "yaml":
            continue
        for entry in config.entries:
            if entry.kind == "str" and entry.values and re.fullmatch(r"[-+]?\d+[eE][-+]?\d+", entry.values[0]):
                if entry.value_end - entry.value_start != len(entry.values[0]):
                    continue  # quoted: a text is meant
                mantissa, _, exponent = entry.values[0].lower().partition("e")
                signed = exponent if exponent[:1] in "+-" else f"+{exponent}"
                fixed = f"{mantissa}.0e{signed}"
                place = Word("", entry.value_start, entry.value_end)
                seen = f"{entry.values[0]} is a text to PyYAML, which wants a point; some trainers end there"
                yield warn(place, seen, f"Write {fixed}.", Fix(((entry.value_start, entry.value_end, fixed),)))


_TEMPLATES = (("llama-3", ("llama3", "mllama")), ("qwen", ("qwen",)), ("gemma", ("gemma",)), ("glm-4", ("glm",)))
_ANY = ("default", "empty", "alpaca", "chatml", "vanilla", "fewshot", "intern")


def template(paper: Paper) -> Iterator[Remark]:
    """LLaMA-Factory's chat template of another family than the model."""
    for model, chosen in _templates(paper):
        name, style = model.lower(), chosen.text.lower()
        for family, styles in _TEMPLATES:
            if (
                family in name.rpartition("/")[2]
                and not style.startswith((*styles, *_ANY))
                and not re.search(r"deepseek|distill", name)
            ):
                seen = f"the template {style} on a model of {family}"
                yield warn(chosen, seen, f"{styles[0]}, or as the model's page says.")
                break


def _templates(paper: Paper) -> Iterator[tuple[str, Word]]:
    """Model and template of each configuration, and of each command line."""
    for config in paper.configs:
        model, chosen = config.get("model_name_or_path"), config.get("template")
        if config.family == "llamafactory" and model and chosen and model.values and chosen.values:
            yield model.values[0], Word(chosen.values[0], chosen.value_start, chosen.value_end)
    for job in paper.jobs:
        given, style = job.option("model_name_or_path"), job.option("template")
        if job.launcher.name == "llamafactory-cli" and given and style and given.value and style.values:
            yield given.value, style.values[0]
