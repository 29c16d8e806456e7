"""Configurations: whether they can be read, whether their keys are known, what their values are to the reader."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Config, Entry, Fix, Remark, Word
from envcheck.core.lint.remarks import fail, near, swap, unknown, warn
from envcheck.lint.context import tables
from envcheck.lint.rules.training.option_schemas import of_family
from envcheck.lint.rules.training.options_given import renamed

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


def readable(context: LintContext) -> Iterator[Remark]:
    for config in context.configs:
        if config.error:
            place = Word("", *config.error_at)
            if "larger" in config.error or "deeply" in config.error:
                yield unknown(place, f"the configuration is {config.error}", "Lint its parts.")
            else:
                yaml = "Mend it: blanks and no tabs, a blank behind each colon."
                do = "Mend it: quotes, commas, brackets." if config.block.kind == "json" else yaml
                yield fail(place, f"cannot be read: {config.error}", do)


def doubled(context: LintContext) -> Iterator[Remark]:
    for config in context.configs:
        for entry in config.doubled:
            yield fail(
                _key(entry),
                f"{entry.name} stands twice: the last one counts, and some readers refuse",
                "Keep the one that is meant.",
            )


def unknown_keys(context: LintContext) -> Iterator[Remark]:
    started = {id(job.config) for job in context.jobs if job.config is not None and job.launcher.name}
    for config in context.configs:
        if config.family in _READERS:
            yield from _READERS[config.family](config)
            continue
        kit = of_family(context, config.family) if config.family and id(config) not in started else None
        for entry in config.entries if kit else ():
            if kit is None or entry.path or kit.has(entry.name) or entry.name in _ALWAYS or not entry.name:
                continue
            meant = renamed(entry.name, kit) or _begun(entry.name, kit.names) or near(entry.name, kit.names, 0.85)
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


def _begun(name: str, names: frozenset[str]) -> str:
    """The one key that begins so: a command line takes that for it, a file does not."""
    found = [each for each in names if each.startswith(f"{name}_")] if len(name) > 3 else []
    return found[0] if len(found) == 1 else ""


def _deepspeed(config: Config) -> Iterator[Remark]:
    for entry in config.entries:
        table = {(): "deepspeed", ("zero_optimization",): "zero_optimization"}.get(entry.path)
        names = tables.keys(table) if table else frozenset()
        if not names or entry.name in names or not entry.name:
            continue
        meant = near(entry.name, names, 0.85)
        if meant:
            yield fail(
                _key(entry),
                f"DeepSpeed reads no {entry.name}: it has no effect",
                f"{meant} is one.",
                swap(_key(entry), meant),
            )


def _compose(config: Config) -> Iterator[Remark]:
    for entry in config.entries:
        if len(entry.path) != 2 or entry.path[0] != "services" or entry.name in tables.keys("service"):
            continue
        meant = near(entry.name, tables.keys("service"), 0.8)
        if meant and not entry.name.startswith("x-"):
            seen = f"a service has no {entry.name}: compose refuses the file"
            yield fail(_key(entry), seen, f"{meant} is one.", swap(_key(entry), meant))


_READERS = {"deepspeed": _deepspeed, "compose": _compose}


def deepspeed_values(context: LintContext) -> Iterator[Remark]:
    for config in context.configs:
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


def text_numbers(context: LintContext) -> Iterator[Remark]:
    """1e-5 is a text to readers of YAML 1.1, for want of a point."""
    for config in context.configs:
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


def template(context: LintContext) -> Iterator[Remark]:
    """LLaMA-Factory's chat template of another family than the model."""
    for model, chosen in _templates(context):
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


def _templates(context: LintContext) -> Iterator[tuple[str, Word]]:
    """Model and template of each configuration, and of each command line."""
    for config in context.configs:
        model, chosen = config.get("model_name_or_path"), config.get("template")
        if config.family == "llamafactory" and model and chosen and model.values and chosen.values:
            yield model.values[0], Word(chosen.values[0], chosen.value_start, chosen.value_end)
    for job in context.jobs:
        given, style = job.option("model_name_or_path"), job.option("template")
        if job.launcher.name == "llamafactory-cli" and given and style and given.value and style.values:
            yield given.value, style.values[0]
