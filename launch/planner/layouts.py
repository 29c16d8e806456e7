"""A layout for a job of which none was said: that of a recipe's job, else the fastest that fits."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from envcheck.core.errors import UsageError
from installers.recipes.catalogue import Offer
from launch.memory.job import PlannedJob
from launch.planner import recipe_layout, words
from launch.planner.resolve import PARALLEL, Machine, build, pick_model

KEPT = ("offload", "recompute", "micro_batch", "grad_accum")  # what the search would vary, too


SAID = ("tp", "pp", "vpp", "ep", "cp", "sharding")


def laid_out(
    machine: Machine, model_name: str, method: str, asked: Mapping[str, Any], offer: Offer | None = None
) -> PlannedJob:
    """The job; where no degree was said in the layout of the recipe's job in `offer`, else in the fastest that fits."""
    if any(asked.get(name) for name in SAID):
        return build(machine, model_name, method, asked)
    ours = recipe_layout.spread_layout(*offer, machine.cards) if offer else {}
    if ours and ours["pp"] <= pick_model(model_name).layers:
        recipe = ours.pop("recipe")
        with suppress(UsageError):  # what was said besides may not go with the recipe's layout
            job = build(machine, model_name, method, ours | {k: v for k, v in asked.items() if v is not None})
            return replace(job, assumed=(*job.assumed, f"layout: that of the recipe {recipe}"))
    job = build(machine, model_name, method, asked)
    if machine.cards == 1:
        return job
    from launch.planner import search

    best = next((f for f in search.search(replace(job, grad_accum=None), 1) if not f.own), None)
    found, why = (
        (best.plan.job, "the fastest that fits") if best else (search.smallest(job), "the one that needs least")
    )
    found = replace(found, **{name: getattr(job, name) for name in KEPT if asked.get(name)})
    chosen = ("sharding: ", "recompute: ")  # what the layout says was not assumed
    kept = (text for text in job.assumed if not text.startswith(chosen))
    return replace(found, assumed=(*kept, f"layout: {why}, {search.words(found)}"))


def unsaid(job: PlannedJob, asked: Mapping[str, Any]) -> dict[str, str]:
    """The layout that was taken where none was said, as options: with them a command means this job and no other."""
    if job.layout.cards == 1 or any(asked.get(name) for name in SAID):
        return {}
    x, a = job.layout, job.adapter
    said = {f"--{n}": f"{getattr(x, n)}" for n in (*PARALLEL, "cp") if getattr(x, n) > 1}
    if job.sharding != "none" or x.dense_shards > 1:
        said["--sharding"] = words.SAID[job.sharding]
    said |= {"--offload": "+".join(sorted(job.offload))} if job.offload else {}
    said |= {"--recompute": job.recompute.kind, "--micro-batch": f"{job.micro_batch}", "--seq-len": f"{job.seq_len}"}
    said |= {"--grad-accum": f"{job.grad_accum}"} if job.grad_accum else {}
    return said | ({} if job.trains_all else {"--lora-rank": f"{a.rank}", "--lora-targets": a.targets})
