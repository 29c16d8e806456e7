"""The layout that a recipe's job has, as the planner's options."""

from __future__ import annotations

from typing import Any

from installers.recipes.recipe import Recipe, RecipeJob

# Argument of the recipes' programs: our option.
NUMBERS = {"max_seq_len": "seq_len", "cutoff_len": "seq_len", "max_length": "seq_len", "lora_rank": "lora_rank"}
NUMBERS |= {"gradient_accumulation_steps": "grad_accum", "per_device_train_batch_size": "micro_batch"}


def spread_layout(recipe: Recipe, job: RecipeJob, cards: int) -> dict[str, Any]:
    """Options of the recipe's job on that many cards, with fewer or more stages where its own do not divide them; empty
    where it has no degrees, or they do not divide the cards."""
    found = options(job)
    if found["tp"] * found["pp"] == 1 or cards % found["tp"]:
        return {}
    name = named(recipe, job)
    if cards % (found["tp"] * found["pp"]):
        found["pp"] = cards // found["tp"]
        name += f", with {found['pp']} stages for {cards} cards"
    return {**found, "recipe": name}


def options(job: RecipeJob) -> dict[str, Any]:
    """The job's degrees and arguments as the planner's options."""
    return {"tp": job.parallel.get("tensor", 1), "pp": job.parallel.get("pipeline", 1), **arguments(job)}


def named(recipe: Recipe, job: RecipeJob) -> str:
    return f"{recipe.name} ({job.title})"


def arguments(job: RecipeJob) -> dict[str, Any]:
    """Length, rank, accumulation and offload among a job's arguments."""
    words = [word.replace("=", " ") for word in job.arguments]
    flat = " ".join(words).split()
    found: dict[str, Any] = {}
    for name, value in zip(flat, [*flat[1:], ""], strict=True):
        key = NUMBERS.get(name.lstrip("-"))
        if key and value.isdigit():
            found[key] = int(value)
        if name.lstrip("-") == "offload_optim" and value.lower() in ("1", "true", ""):
            found["offload"] = "optimizer"
    return found
