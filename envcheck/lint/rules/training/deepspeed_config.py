"""Rules about DeepSpeed's configuration: values that it rejects, and those that contradict the trainer's options."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption, locate_option, parse_float
from envcheck.core.lint.remark_builders import fail, warn, warn_or_fail
from envcheck.core.lint.script_model import UNKNOWN, ConfigBlock, ConfigEntry, Remark, ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import Message, _, join
from envcheck.core.toml_file import load_own_record
from envcheck.lint.context import name_tables
from envcheck.lint.rules.training.config_keys import make_key_place
from envcheck.scripts.companion_config import read_companion_config

Entries = Mapping[tuple[str, ...], ConfigEntry]  # path with name → entry


@dataclass(frozen=True)
class DeepSpeedTables:
    """The contents of data/deepspeed.toml."""

    schedulers: Mapping[str, tuple[str, ...]]


@cache
def load_schedulers() -> Mapping[str, tuple[str, ...]]:
    return load_own_record(DeepSpeedTables, name_tables.FOLDER / "deepspeed.toml").schedulers


def find_wrong_deepspeed_values(context: LintContext) -> Iterator[Remark]:
    for config in context.configs:
        if config.family != "deepspeed":
            continue
        found = {(*entry.path, entry.name): entry for entry in config.entries}
        stage = found.get(("zero_optimization", "stage"))
        if stage is not None and stage.values and stage.values[0] not in ("0", "1", "2", "3", UNKNOWN):
            yield fail(
                make_key_place(stage),
                _("ZeRO has no stage {values}", values=stage.values[0][:20]),
                _("Use 0, 1, 2 or 3."),
            )
        halves = [found.get((name, "enabled")) for name in ("fp16", "bf16")]
        if all(each is not None and each.values == ("true",) for each in halves) and halves[1]:
            yield fail(
                make_key_place(halves[1]),
                _("fp16 and bf16 are both enabled: DeepSpeed rejects this"),
                _("Keep one of them, or use auto."),
            )
        if problem := _describe_batch(found):
            yield fail(make_key_place(found[("train_batch_size",)]), *problem)
        yield from _judge_scheduler(found)
        device = found.get(("zero_optimization", "offload_param", "device"))
        param = found.get(("zero_optimization", "offload_param"))
        if param is not None and not (device is not None and device.values[:1] == ("none",)):
            yield from _judge_param_offload(stage, make_key_place(param))
    yield from _judge_accelerate_offload(context)
    for job in context.jobs:
        for name in ("deepspeed", "deepspeed_config"):
            given = job.find_option(name)
            word = given.values[0] if given is not None and len(given.values) == 1 else None
            named = _find_config(context, job, word) if word is not None else None
            if word is not None and named is not None:
                yield from _judge_world(job, word, named)
                yield from _compare_with_options(job, word, named) if name == "deepspeed" else ()


def _judge_accelerate_offload(context: LintContext) -> Iterator[Remark]:
    """The same for accelerate, in its file and among its options."""
    for config in context.configs:
        found = {entry.name: entry for entry in config.entries if entry.path == ("deepspeed_config",)}
        device = found.get("offload_param_device")
        if config.family == "accelerate" and device is not None and device.values[:1] not in ((), ("none",)):
            yield from _judge_param_offload(found.get("zero_stage"), make_key_place(device))
    for job in context.jobs:
        stage, given = job.find_launcher_option("zero_stage"), job.find_launcher_option("offload_param_device")
        if job.launcher.name == "accelerate" and given is not None and given.value not in (None, "none"):
            yield from _judge_param_offload(stage, locate_option(given))


def _judge_param_offload(stage: ConfigEntry | GivenOption | None, place: ShellWord) -> Iterator[Remark]:
    """Stages 0 to 2 keep the parameters on each card, and ignore the setting."""
    values = [value if isinstance(value, str) else value.text for value in stage.values] if stage is not None else []
    if values[:1] and values[0] in ("0", "1", "2"):
        yield warn(
            place, _("only ZeRO stage 3 offloads parameters"), _("Use stage 3, or remove the parameter offload.")
        )


# Of transformers' Trainer: key of DeepSpeed → option.  Source: integrations/deepspeed.py, HfTrainerDeepSpeedConfig.
_SAME = (
    (("train_micro_batch_size_per_gpu",), "per_device_train_batch_size"),
    (("gradient_accumulation_steps",), "gradient_accumulation_steps"),
    (("gradient_clipping",), "max_grad_norm"),
    (("optimizer", "params", "lr"), "learning_rate"),
    (("bf16", "enabled"), "bf16"),
    (("fp16", "enabled"), "fp16"),
)


_BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_PARALLEL = re.compile("parallel|pipe_stages|mp_size")


def _judge_world(job: TrainingJob, word: ShellWord, config: ConfigBlock) -> Iterator[Remark]:
    """Find a batch size that does not fit the processes.  With other degrees than data parallelism, fewer count."""
    found = {(*entry.path, entry.name): entry for entry in config.entries}
    if not job.world_size or job.open or any(_PARALLEL.search(given.python_name) for given in job.options):
        return
    if problem := _describe_batch(found, job.world_size):
        given = job.find_launch_value("processes")
        yield warn_or_fail(given is not None and not given.soft, word, *problem)


def _describe_batch(found: Entries, world: int = 0) -> tuple[Message, Message] | None:
    """Return what is wrong with a batch size, which is the product of the other two and of the processes, and the
    remedy; `world` is 0 if the processes are unknown.
    """
    counts = {name: _read_number(found.get((name,))) for name in _BATCH}
    if world and any((name,) in found and count is None for name, count in counts.items()):
        return None  # auto: the trainer fills it in
    total = counts.pop("train_batch_size")
    parts: list[str] = [f"{name} {count}" for name, count in counts.items() if count]
    step = math.prod(filter(None, (*counts.values(), world)))
    if world > 1:
        parts.append(_("{count} processes", count=world))
    if not total or not parts:
        return None
    if world and all(counts.values()) and total != step:
        seen = _("train_batch_size {total} is not {parts} = {product}: DeepSpeed exits", total=total,
                 parts=join(" x ", parts), product=step)  # fmt: skip
        return seen, _("Use {product}, or leave out one of the three.", product=step)
    if total % step != 0:
        seen = _("train_batch_size {total} is not a multiple of {parts}: DeepSpeed exits", total=total,
                 parts=join(" x ", parts))  # fmt: skip
        return seen, _("Use a multiple of {step}.", step=step)
    return None


def _judge_scheduler(found: Entries) -> Iterator[Remark]:
    """The parameters of the scheduler, which are those of a function: another one is an error."""
    kind = found.get(("scheduler", "type"))
    known = load_schedulers().get(kind.values[0], ()) if kind and kind.values else ()
    for path, entry in found.items() if known else ():
        if path[:-1] == ("scheduler", "params") and entry.name not in known and kind:
            seen = _("{scheduler} has no parameter {name}: DeepSpeed exits", scheduler=kind.values[0], name=entry.name)
            yield fail(_make_name_place(entry), seen, _("Use one of {values}.", values=" | ".join(known)))
    if kind and "total_num_steps" in known and ("scheduler", "params", "total_num_steps") not in found:
        seen = _("{scheduler} needs the parameter {name}: DeepSpeed exits", scheduler=kind.values[0],
                 name="total_num_steps")  # fmt: skip
        yield fail(_make_name_place(kind), seen, _("Add it to params."))


def _make_name_place(entry: ConfigEntry) -> ShellWord:
    return ShellWord("", entry.start, entry.end)


def _compare_with_options(job: TrainingJob, word: ShellWord, config: ConfigBlock) -> Iterator[Remark]:
    """Find options of the Trainer that its DeepSpeed configuration contradicts: it exits."""
    found = {(*entry.path, entry.name): entry for entry in config.entries}
    for path, name in _SAME:
        entry, option = found.get(path), job.find_option(name)
        if entry is None or option is None or len(entry.values) != 1:
            continue
        theirs, ours = _read_setting(entry.values[0]), _read_setting(option.value if option.values else "true")
        if theirs is None or ours is None or theirs == ours:
            continue
        seen = _(
            "{option} is {ours}, but {key} in {file} is {theirs}: the trainer exits",
            option=name,
            ours=option.value or "true",
            key=".".join(path),
            file=word.text.rpartition("/")[2],
            theirs=entry.values[0],
        )
        yield fail(locate_option(option), seen, _('Write "auto" in the file: the trainer then fills in the option.'))


def _read_setting(text: str | None) -> float | bool | None:
    """A number, or whether it is on; None if it is neither, or unknown."""
    return {"true": True, "false": False}.get((text or "").lower(), parse_float(text))


def _find_config(context: LintContext, job: TrainingJob, word: ShellWord) -> ConfigBlock | None:
    """The configuration that the script writes, or the file beside it."""
    name = word.text.rpartition("/")[2]
    written = next((each for each in context.configs if name and each.file.rpartition("/")[2] == name), None)
    return written or read_companion_config(word, job.command.cwd, context.machine)


def _read_number(entry: ConfigEntry | None) -> int | None:
    return int(entry.values[0]) if entry and entry.values and re.fullmatch(r"\d{1,9}", entry.values[0]) else None
