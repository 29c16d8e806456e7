"""The layout of a recipe's job as options of the planner."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from envcheck.core.messages import Message, _, fill
from installers.recipes.catalogue import Offer
from installers.recipes.recipe import Recipe, RecipeJob
from launch.catalogue import frameworks

# Argument of the training programs → option of the planner.
NUMBERS = {"max_seq_len": "seq_len", "cutoff_len": "seq_len", "max_length": "seq_len", "lora_rank": "lora_rank"}
NUMBERS |= {"gradient_accumulation_steps": "grad_accum", "per_device_train_batch_size": "micro_batch"}


DEGREES = ("tp", "pp", "vpp", "ep", "etp", "cp")


def spread_layout(options: Mapping[str, Any], cards: int, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's options with those in `asked`, and pipeline stages that divide the cards.

    Empty if the other degrees do not divide the cards, or the stages in `asked` do not.
    """
    found = merge_options(options, asked)
    least = found["tp"] * (found.get("cp") or 1)
    if cards % (least * found["pp"]) == 0:
        return found
    if cards % least or asked.get("pp"):
        return {}
    return {**found, "pp": cards // least}


def merge_options(options: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, replaced by those in `asked` that are given."""
    return {**options, **{name: value for name, value in asked.items() if value is not None}}


def describe_spread(offer: Offer, values: Mapping[str, Any], options: Mapping[str, Any], cards: int) -> Message:
    """Return the name of the recipe, with the pipeline stages if they are not its own."""
    name = describe_recipe_job(*offer)
    if values["pp"] == options["pp"]:
        return name
    return _("{recipe}, changed to --pp {stages} for {cards} cards", recipe=name, stages=values["pp"], cards=cards)


def has_degrees(options: Mapping[str, Any]) -> bool:
    """Whether the options divide the model over cards."""
    return any((options.get(name) or 1) > 1 for name in DEGREES)


def list_planner_options(recipe: Recipe, job: RecipeJob) -> dict[str, Any]:
    """Return everything that the recipe's job sets as options of the planner: framework, degrees, sizes, sharding."""
    known = recipe.framework if frameworks.find_framework(recipe.framework) else None
    degrees = {"tp": job.parallel.get("tensor", 1), "pp": job.parallel.get("pipeline", 1)}
    return {"framework": known, "sharding": find_sharding(job), **degrees, **parse_job_arguments(job), **job.plan}


def count_step_samples(recipe: Recipe, job: RecipeJob) -> int | None:
    """Return the samples of one step on the recipe's own cards; None if the recipe sets no accumulation steps."""
    options = list_planner_options(recipe, job)
    if not options.get("grad_accum"):
        return None
    divided = options["tp"] * options["pp"] * (options.get("cp") or 1)
    replicas = max(1, job.nodes * job.processes // divided)
    return int(replicas * (options.get("micro_batch") or 1) * options["grad_accum"])


def find_sharding(job: RecipeJob) -> str | None:
    """Return the ZeRO stage, from the name or file of --deepspeed, or from Paddle's sharding degree."""
    words = dict(zip(job.arguments, job.arguments[1:], strict=False))
    stage = re.search(r"(?:zero|z)[-_]?([0-3])", words.get("--deepspeed", "").lower())
    if stage:
        return stage[1]
    return "1" if job.parallel.get("sharding", 1) > 1 else None


_NUMBER = re.compile(r"[0-9]{1,9}")


def describe_recipe_job(recipe: Recipe, job: RecipeJob) -> Message:
    """Return the name of the recipe and the title of the job."""
    return _("{name} ({title})", name=recipe.name, title=fill(job.title))


def parse_job_arguments(job: RecipeJob) -> dict[str, Any]:
    """Return sequence length, LoRA rank, accumulation, micro batch, offload and chunked loss from a job's arguments."""
    words = [word.replace("=", " ") for word in job.arguments]
    flat = " ".join(words).split()
    found: dict[str, Any] = {}
    for name, value in zip(flat, [*flat[1:], ""], strict=False):  # without arguments there is one value too many
        key = NUMBERS.get(name.lstrip("-"))
        if key and _NUMBER.fullmatch(value):
            found[key] = int(value)
        is_on = value.lower() in ("1", "true", "")
        if name.lstrip("-") == "offload_optim" and is_on:
            found["offload"] = "optimizer"
        if name.lstrip("-") == "use_sparse_head_and_loss_fn" and is_on:  # off, another chunked loss may be on
            found["fused_loss"] = True
    return found
