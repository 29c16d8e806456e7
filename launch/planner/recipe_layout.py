"""The layout that a recipe of ours has for a model, method and device, as the planner's options."""

from __future__ import annotations

from typing import Any

from envcheck.core.errors import EnvcheckError
from installers.recipes import catalogue
from installers.recipes.recipe import Job, Recipe

# Argument of the recipes' programs: our option.
NUMBERS = {"max_seq_len": "seq_len", "cutoff_len": "seq_len", "max_length": "seq_len", "lora_rank": "lora_rank"}
NUMBERS |= {"gradient_accumulation_steps": "grad_accum", "per_device_train_batch_size": "micro_batch"}


def of(model: str, method: str, device: str, framework: str | None, cards: int) -> dict[str, Any]:
    """Options of the recipe's job on that many cards, with fewer or more stages where its own do not divide them; empty
    where there is none."""
    try:
        recipe, job = catalogue.select(catalogue.load_all(None), model, method, device, framework)
    except EnvcheckError:
        return {}
    found = options(job)
    if found["tp"] * found["pp"] == 1 or cards % found["tp"]:
        return {}
    name = named(recipe, job)
    if cards % (found["tp"] * found["pp"]):
        found["pp"] = cards // found["tp"]
        name += f", with {found['pp']} stages for {cards} cards"
    return {**found, "recipe": name}


def options(job: Job) -> dict[str, Any]:
    """The job's degrees and arguments as the planner's options."""
    return {"tp": job.parallel.get("tensor", 1), "pp": job.parallel.get("pipeline", 1), **arguments(job)}


def named(recipe: Recipe, job: Job) -> str:
    return f"{recipe.name} ({job.title})"


def arguments(job: Job) -> dict[str, Any]:
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
