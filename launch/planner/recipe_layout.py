"""The layout of a recipe's job as options of the planner."""

from __future__ import annotations

import re
from typing import Any

from envcheck.core.messages import Message, _, fill
from installers.recipes.recipe import Recipe, RecipeJob

# Argument of the training programs → option of the planner.
NUMBERS = {"max_seq_len": "seq_len", "cutoff_len": "seq_len", "max_length": "seq_len", "lora_rank": "lora_rank"}
NUMBERS |= {"gradient_accumulation_steps": "grad_accum", "per_device_train_batch_size": "micro_batch"}


def spread_layout(recipe: Recipe, job: RecipeJob, cards: int) -> dict[str, Any]:
    """Return the options of the recipe's job on `cards` cards, and its name under "recipe".

    The number of pipeline stages changes if its own does not divide the cards.  Empty if the job has no degrees, or its
    tensor degree does not divide the cards.
    """
    found = list_layout_options(job)
    if found["tp"] * found["pp"] == 1 or cards % found["tp"]:
        return {}
    name = describe_recipe_job(recipe, job)
    if cards % (found["tp"] * found["pp"]):
        found["pp"] = cards // found["tp"]
        name = _("{recipe}, changed to --pp {stages} for {cards} cards", recipe=name, stages=found["pp"], cards=cards)
    return {**found, "recipe": name}


def list_layout_options(job: RecipeJob) -> dict[str, Any]:
    """Return degrees and arguments of the job as options of the planner."""
    return {"tp": job.parallel.get("tensor", 1), "pp": job.parallel.get("pipeline", 1), **parse_job_arguments(job)}


_NUMBER = re.compile(r"[0-9]{1,9}")


def describe_recipe_job(recipe: Recipe, job: RecipeJob) -> Message:
    """Return the name of the recipe and the title of the job."""
    return _("{name} ({title})", name=recipe.name, title=fill(job.title))


def parse_job_arguments(job: RecipeJob) -> dict[str, Any]:
    """Return sequence length, LoRA rank, accumulation, micro batch and offload from a job's arguments."""
    words = [word.replace("=", " ") for word in job.arguments]
    flat = " ".join(words).split()
    found: dict[str, Any] = {}
    for name, value in zip(flat, [*flat[1:], ""], strict=False):  # without arguments there is one value too many
        key = NUMBERS.get(name.lstrip("-"))
        if key and _NUMBER.fullmatch(value):
            found[key] = int(value)
        if name.lstrip("-") == "offload_optim" and value.lower() in ("1", "true", ""):
            found["offload"] = "optimizer"
    return found
