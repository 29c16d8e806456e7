"""What a job trains and how: model, method, batch, length, precision, sharding, recomputation, data, output."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from envcheck.core.errors import UsageError
from envcheck.core.lint.own_job import JobValue, ValueState
from envcheck.core.lint.script_model import UNKNOWN
from envcheck.core.messages import _
from envcheck.scripts import megatron_model
from envcheck.scripts.jobs.job_options import JobFiles, OptionTable, PlacedOption, list_values
from envcheck.scripts.jobs.option_names import NAMES
from envcheck.scripts.jobs.value_reader import ValueReader
from envcheck.scripts.megatron_model import DescribedModel
from launch.catalogue import frameworks, models
from launch.catalogue.model_fields import Field, parse_model_fields, render_fields
from launch.planner import option_words, resolve

_STAGE = re.compile(r"(?:zero|z|stage)[-_]?([0-3])", re.IGNORECASE)
_OFFLOAD = re.compile(r"offload|cpu_adam", re.IGNORECASE)
_TOKENIZERS = ("tokenizer_name_or_path", "tokenizer_model")
_TUNERS = {"lora": "lora", "qlora": "qlora", "dora": "dora", "full": "full", "none": "full"}
_STAGES = {"sft": "sft", "pt": "pt", "pretrain": "pt", "cpt": "cpt", "dpo": "dpo", "kto": "kto", "orpo": "orpo",
           "simpo": "simpo", "vl-sft": "sft", "vl-dpo": "dpo"}  # fmt: skip


@dataclass(frozen=True)
class ShardingValues:
    """ZeRO stage ("" if unknown) and offloaded parts, with the place where they were read."""

    stage: str = ""
    offload: str = ""
    where: str = ""


def read_model(reader: ValueReader, files: JobFiles) -> str:
    """Read the model; return the planner's name of it, its folder or its dimensions; "" if the planner does not know
    it."""
    described = megatron_model.read_model_options(lambda name: _read_option(reader.table, name))
    if described.unreadable or described.impossible:
        _add_flaw(reader, described)
        return ""
    if described.fields:
        return _add_dimensions(reader, described.fields)
    text = reader.read_text("model")
    if not text:
        return ""
    for folder in files.folders:
        if (Path(folder, text).expanduser() / "config.json").is_file():
            return str(Path(folder, text).expanduser())
    return find_planner_model(text)


def _add_flaw(reader: ValueReader, described: DescribedModel) -> None:
    """Add the model whose options have an unknown value, or leave no layer."""
    name = described.unreadable or described.impossible
    found = reader.table.find(name)
    place = reader.place(found.where if found is not None else "")
    if described.impossible:
        words = _("{place}: {option} leaves no layer", place=place, option=name)
        reader.values.append(JobValue("model", "", ValueState.UNKNOWN, words, name, is_invalid=True))
        return
    words = _("{place}: value of {option} is unknown", place=place, option=name)
    reader.values.append(JobValue("model", "", ValueState.UNKNOWN, words, name))


def _add_dimensions(reader: ValueReader, fields: Mapping[str, Field]) -> str:
    """Add the model that the options describe; return its dimensions as the planner reads them, "" if nothing says how
    large its vocabulary is."""
    first = reader.table.find("num_layers")
    place = reader.place(first.where if first is not None else "")
    if "vocab_size" not in fields:
        tokenizer = find_planner_model(reader.table.read_text(*_TOKENIZERS).removesuffix("/tokenizer.model"))
        if not tokenizer:
            words = _("{place}: the size of the vocabulary is that of the tokenizer", place=place)
            reader.values.append(JobValue("model", "", ValueState.UNKNOWN, words, megatron_model.VOCABULARY[0]))
            return ""
        fields = {**fields, "vocab_size": models.load_model(tokenizer).vocab}
    text = render_fields(fields)
    try:
        parse_model_fields(text, place)
    except UsageError as error:
        reader.values.append(JobValue("model", "", ValueState.UNKNOWN, error.message, "num_layers", is_invalid=True))
        return ""
    shown = f"num_layers {fields['num_layers']}, hidden_size {fields['hidden_size']}"
    reader.values.append(JobValue("model", shown, ValueState.READ, place, "num_layers"))
    return text


def _read_option(table: OptionTable, name: str) -> str | None:
    """Return the value of an option, "" if it is unknown; None if it is not given."""
    found = table.find(name)
    return None if found is None else "" if UNKNOWN in found.text else found.text


def find_planner_model(text: str) -> str:
    """Return the planner's name of a model by its hub id, folder or torchtune builder; "" if there is none."""
    low = text.rstrip("/").lower()
    names = [low.rpartition("/")[2].replace("_", "-")]
    if low.startswith("torchtune.models."):  # torchtune.models.llama3_1.lora_llama3_1_8b
        builder = re.sub(r"^q?lora_", "", low.rpartition(".")[2])
        plain = re.sub(r"^llama(?=\d)", "llama-", builder.replace("_", "-"))
        names = [re.sub(r"(?<=\d)-(?=\d+-)", ".", plain), plain]
    return next(filter(None, map(models.find_exact_name, names)), "")


def read_method(reader: ValueReader, kit: str, verb: str, program: str) -> str:
    """Read stage and tuner; return the planner's method, "" if it has none or it is unknown."""
    table = reader.table
    tuner, where, state = _find_tuner(reader, kit, program)
    stage, stage_where = _find_stage(table, verb, program)
    if tuner == "lora" and (
        table.read_text("quantization_bit", "quant_bits") == "4" or table.is_enabled("load_in_4bit")
    ):
        tuner = "qlora"
    if tuner == "lora" and table.is_enabled("use_dora", "use_dora_lora"):
        tuner = "dora"
    if not tuner:
        reader.add_unknown("method")
        return ""
    base = "sft" if stage in ("", "sft") else stage
    shown = tuner if base == "sft" and tuner != "full" else base if tuner == "full" else f"{base}-{tuner}"
    if state is ValueState.READ:
        reader.add_read("method", shown, where or stage_where)
    else:
        reader.add_assumed("method", shown, _("default of {framework}", framework=reader.kit.title))
    return shown if shown in option_words.METHODS else ""


def _find_tuner(reader: ValueReader, kit: str, program: str) -> tuple[str, str, ValueState]:
    table, found = reader.table, reader.table.find(*NAMES["tuner"])
    if found is not None and found.text.lower() in _TUNERS:
        return _TUNERS[found.text.lower()], found.where, ValueState.READ
    for name in ("lora", "use_lora", "use_peft"):
        if (flag := table.is_enabled(name)) is not None and (option := table.find(name)) is not None:
            return ("lora" if flag else "full"), option.where, ValueState.READ
    component = table.find("model._component_")
    if component is not None and kit == "torchtune":
        name = component.text.rpartition(".")[2]
        return (
            next((t for t in ("qlora", "dora", "lora") if name.startswith(t)), "full"),
            component.where,
            ValueState.READ,
        )
    if (rank := table.find(*NAMES["lora_rank"])) is not None and kit in ("transformers", ""):
        return "lora", rank.where, ValueState.READ
    named = re.search(r"q?lora|full", program.rpartition("/")[2].lower())
    if named and kit in ("torchtune", "transformers", ""):
        return named[0], "", ValueState.READ
    if found is not None:
        return "", found.where, ValueState.UNKNOWN
    return reader.kit.values.get("tuner", ""), "", ValueState.ASSUMED


def _find_stage(table: OptionTable, verb: str, program: str) -> tuple[str, str]:
    found = table.find(*NAMES["stage"])
    if found is not None and not found.text.isdigit():
        return _STAGES.get(found.text.lower(), found.text.lower()), found.where
    if verb in _STAGES:
        return _STAGES[verb], ""
    named = re.search(r"(?:^|[_/.-])(dpo|kto|orpo|simpo|pretrain)", program.lower())
    return (_STAGES[named[1]], "") if named else ("", "")


def read_precision(reader: ValueReader, accelerate: OptionTable) -> str:
    """Read the precision: bf16, fp16 or fp32."""
    table = reader.table
    for name in ("bf16", "fp16"):
        option = table.find(name)
        if option is not None and option.text.lower() in ("true", "1", "", "yes", "on"):
            return reader.add_read("precision", name, option.where)
    option = table.find("torch_dtype", "dtype", "compute_type", "model_dtype") or accelerate.find("mixed_precision")
    if option is not None and (named := re.search(r"bf16|bfloat16|fp16|float16|fp32|float32|fp8", option.text.lower())):
        text = named[0].replace("bfloat", "bf").replace("float", "fp")
        return reader.add_read("precision", text, option.where)
    return reader.add_default("precision")


def read_sharding(
    reader: ValueReader, files: JobFiles, accelerate: OptionTable, cwd: str, devices: int | None
) -> ShardingValues:
    """Read ZeRO stage and offload, from DeepSpeed's file, accelerate's, or the framework's own options.

    `devices` are those of all nodes, None if they are those of the machine.
    """
    found = (
        _read_deepspeed(reader.table, files, cwd)
        or _read_accelerate(reader.table, accelerate)
        or _read_framework_sharding(reader.table)
    )
    if found is None:
        return _read_offload(reader, _assume_sharding(reader, devices))
    if not found.stage:
        reader.add_unknown("sharding", reader.place(found.where))
    else:
        reader.add_read("sharding", found.stage, found.where)
    return _read_offload(reader, found)


def _assume_sharding(reader: ValueReader, devices: int | None) -> ShardingValues:
    """Add the sharding of a job without an option of it: none, or what the planner assumes of its framework."""
    words = _("no option of ZeRO, FSDP or sharding")
    if reader.kit.planner == "megatron":  # other frameworks may shard without an option
        reader.add_read("sharding", "none", words)
        return ShardingValues("none")
    framework = frameworks.find_framework(reader.kit.planner)
    split = math.prod(found[0] for name in ("tp", "pp") if (found := reader.find_number(name)))
    replicas = 2 if devices is None else devices // max(1, split)
    scheme = resolve.assume_sharding(framework, replicas) if framework else "none"
    if scheme != "none" or not reader.kit.title:
        reader.add_assumed("sharding", option_words.SHARDING_NAMES[scheme], words)
    else:
        reader.add_read("sharding", "none", words)
    return ShardingValues()


# Options that save memory in ways that the planner does not know: what does not fit may fit with them.
SAVERS = (
    "use_galore",
    "use_apollo",
    "use_badam",
    "use_adam_mini",
    "use_unsloth",
    "use_kt",
    "pure_bf16",
    "use_precision_aware_optimizer",
    "sequence_parallel_size",
    "enable_activation_offloading",
    "optimizer_in_bwd",
)


def _find_saver(table: OptionTable) -> PlacedOption | None:
    """An enabled option in SAVERS; a degree of 1 splits nothing."""
    found = (table.find(name) for name in SAVERS if table.is_enabled(name))
    return next((o for o in found if o is not None and not (o.name.endswith("_size") and o.text == "1")), None)


def _read_offload(reader: ValueReader, found: ShardingValues) -> ShardingValues:
    """Add what is offloaded by DeepSpeed, Paddle or Megatron; unknown with an option in SAVERS."""
    if (saver := _find_saver(reader.table)) is not None:
        place = reader.place(saver.where)
        reader.add_unknown("offload", _("{place}: the planner does not know {option}", place=place, option=saver.name))
        return replace(found, offload="")
    option = reader.table.find("optimizer_cpu_offload")
    if option is not None and reader.table.is_enabled("optimizer_cpu_offload") and not found.offload:
        found = ShardingValues(found.stage, "optimizer", option.where)
    if found.offload:
        reader.add_read("offload", found.offload, found.where)
    return found


def _read_deepspeed(table: OptionTable, files: JobFiles, cwd: str) -> ShardingValues | None:
    option = table.find("deepspeed", "deepspeed_config")
    if option is None or not option.text or option.text.lower() in ("true", "false"):
        return None
    entries = OptionTable(files.read_options(option.text, cwd))
    if entries.options:
        stage = entries.find("zero_optimization.stage")
        parts = _list_offloads(
            entries.read_text("zero_optimization.offload_optimizer.device"),
            entries.read_text("zero_optimization.offload_param.device"),
        )
        table.options[:0] = _list_engine_values(entries)
        if stage is None:
            return ShardingValues("none", parts, entries.options[0].where)
        return ShardingValues(f"stage{stage.text}" if stage.text in "123" else "none", parts, stage.where)
    name = option.text.rpartition("/")[2]
    stage_of_name = _STAGE.search(name)
    offload = "optimizer" if _OFFLOAD.search(name) else ""
    if stage_of_name is None:
        return ShardingValues("", offload, option.where)
    return ShardingValues(f"stage{stage_of_name[1]}" if stage_of_name[1] != "0" else "none", offload, option.where)


def _list_engine_values(entries: OptionTable) -> list[PlacedOption]:
    """DeepSpeed's own batch sizes and precision, for programs that set them nowhere else."""
    names = {
        "train_micro_batch_size_per_gpu": "micro_batch_size",
        "gradient_accumulation_steps": "gradient_accumulation_steps",
        "bf16.enabled": "bf16",
        "fp16.enabled": "fp16",
    }
    found = (option for option in entries.options if option.name in names and option.text.lower() != "auto")
    return [PlacedOption(names[option.name], option.values, option.where) for option in found]


def _list_offloads(optimizer: str, params: str) -> str:
    named = {"optimizer": optimizer, "params": params}
    return "+".join(name for name, device in named.items() if device.lower() not in ("", "none"))


def _read_accelerate(table: OptionTable, accelerate: OptionTable) -> ShardingValues | None:
    stage = accelerate.find("deepspeed_config.zero_stage", "zero_stage")
    if stage is not None:
        parts = _list_offloads(
            accelerate.read_text("deepspeed_config.offload_optimizer_device", "offload_optimizer_device"),
            accelerate.read_text("deepspeed_config.offload_param_device", "offload_param_device"),
        )
        return ShardingValues(f"stage{stage.text}" if stage.text in ("1", "2", "3") else "none", parts, stage.where)
    kind = accelerate.find("distributed_type")
    flag = accelerate.find("use_fsdp") or table.find("fsdp", "fsdp_version", "fsdp_sharding_strategy")
    if (kind is not None and kind.text.upper() == "FSDP") or (flag is not None and flag.text.lower() != "false"):
        return ShardingValues("fsdp", "", (kind or flag or PlacedOption("", (), "")).where)
    return None


def _read_framework_sharding(table: OptionTable) -> ShardingValues | None:
    """Paddle's `sharding: stage1` with its offload, of which the degree alone means stage 1; Megatron's distributed
    optimizer."""
    option = table.find("sharding")
    offload = "optimizer" if table.is_enabled("offload_optim", "tensorwise_offload_optimizer") else ""
    if option is not None and (stage := re.search(r"stage([1-3])", option.text)):
        return ShardingValues(
            f"stage{stage[1]}", offload or ("optimizer" if "offload" in option.text else ""), option.where
        )
    if table.is_enabled("use_distributed_optimizer") and (option := table.find("use_distributed_optimizer")):
        return ShardingValues("stage1", offload, option.where)
    degree = table.find("sharding_parallel_degree", "sharding_parallel_size")
    if degree is not None and degree.text.isdigit() and int(degree.text) > 1:
        return ShardingValues("stage1", offload, degree.where)
    return None


def read_recompute(reader: ValueReader) -> str:
    """Read the kind of recomputation: full, selective or none."""
    table = reader.table
    alias = table.find("recompute_activations")  # Megatron's, which replaces the granularity
    if alias is not None and table.is_enabled("recompute_activations"):
        return reader.add_read("recompute", "selective", alias.where)
    granularity = table.find("recompute_granularity")
    if granularity is not None and granularity.text.lower() not in ("", "false"):
        kind = "full" if granularity.text.lower() == "full" else "selective"
        if table.is_enabled("recompute") is not False:
            return reader.add_read("recompute", kind, granularity.where)
    for name in (
        "gradient_checkpointing",
        "recompute",
        "enable_activation_checkpointing",
        "use_gradient_checkpointing",
    ):
        if (option := table.find(name)) is not None:
            return reader.add_read("recompute", "full" if table.is_enabled(name) else "none", option.where)
    if (option := table.find("disable_gradient_checkpointing")) is not None:
        off = table.is_enabled("disable_gradient_checkpointing")
        return reader.add_read("recompute", "none" if off else "full", option.where)
    return reader.add_default("recompute")


def list_divided_options(reader: ValueReader) -> dict[str, str | int]:
    """Return what tensor parallel ranks of the job do with the sequence, as an option of the planner.

    A default of the framework decides it for a tensor parallel job alone: of others it is no choice of the user.
    """
    splits = reader.table.is_enabled("sequence_parallel")
    default = reader.kit.values.get("sequence_parallel")
    if splits is None and default is not None:
        splits = default == "true"
    return {} if splits is None else {"sequence_parallel": int(splits)}


def list_plan_options(reader: ValueReader, sharding: ShardingValues, trains_adapter: bool) -> dict[str, str | int]:
    """Return what the planner takes of the values; unknown ones are left out."""
    found: dict[str, str | int] = {}
    for value in reader.values:
        if value.state is not ValueState.UNKNOWN and value.name in ("seq_len", "micro_batch", "grad_accum", "recompute",
                                                                    "tp", "pp", "vpp", "ep", "cp"):  # fmt: skip
            found[value.name] = int(value.value) if value.value.isdigit() else value.value
    if trains_adapter:
        for value in reader.values:
            if value.name == "lora_rank" and value.value.isdigit():
                found["lora_rank"] = int(value.value)
        targets = list_values(reader.table.find(*NAMES["lora_targets"]))
        if targets and all(t in option_words.MODULES or t in option_words.ALL for t in targets):
            found["lora_targets"] = ",".join(targets)
    if sharding.stage:
        found["sharding"] = sharding.stage
    if sharding.offload:
        found["offload"] = sharding.offload
    degree = reader.find_number("tp")
    if reader.table.is_enabled("sequence_parallel") is not None or (degree is not None and degree[0] > 1):
        found |= list_divided_options(reader)
    if reader.kit.planner == "megatron":
        found |= {v.name: v.value for v in reader.values if v.name == "precision" and v.value in ("fp16", "fp32")}
    optimizer = reader.table.read_text(*NAMES["optimizer"]).lower()
    if optimizer in option_words.OPTIMIZERS:
        found["optimizer"] = optimizer
    return {name: value for name, value in found.items() if not (name in ("tp", "pp", "ep", "cp") and value == 1)}


# The smallest value of an assumed or unknown one: a job that does not fit with these does not fit at all.
LEANEST: Mapping[str, str | int] = {
    "micro_batch": 1, "seq_len": 64, "recompute": "full", "lora_rank": 1, "grad_accum": 1,
    "precision": "bf16",
}  # fmt: skip


def list_lean_options(reader: ValueReader, trains_adapter: bool) -> dict[str, str | int]:
    """Return the leanest value of each planner option that was not read."""
    settled = {value.name for value in reader.values if value.state is ValueState.READ}
    found = {name: value for name, value in LEANEST.items() if name not in settled}
    if not trains_adapter:
        found.pop("lora_rank", None)
    if "sharding" not in settled:
        found |= {"sharding": "stage3", "offload": "optimizer+params"}
    return found
