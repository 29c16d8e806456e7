"""Choose the layout of a job without given degrees: that of a recipe's job, else the fastest that fits."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from installers.recipes.catalogue import Offer
from launch.memory.planned_job import PlannedJob, is_assumption_about
from launch.planner import FITS, layout_rules, option_words, recipe_layout
from launch.planner.resolve import (
    PARALLEL,
    PlannedMachine,
    build_planned_job,
    default_length,
    draft_planned_job,
    pick_model,
    refuse_illegal,
)

SEARCHED_OPTIONS = ("offload", "recompute", "micro_batch", "grad_accum")  # the search varies these as well
LAYOUT_OPTIONS = ("tp", "pp", "vpp", "ep", "cp", "sharding")


def choose_layout(
    machine: PlannedMachine, model_name: str, method: str, asked: Mapping[str, Any], offer: Offer | None = None
) -> PlannedJob:
    """Return the job in the given layout; without one in that of the recipe's job in `offer`, else the fastest fitting.

    If no layout fits, the one that needs the least memory.  `asked` are the options given, by name.
    """
    if any(asked.get(name) for name in LAYOUT_OPTIONS):
        return build_planned_job(machine, model_name, method, asked)
    ours = recipe_layout.spread_layout(*offer, machine.cards) if offer else {}
    if ours and ours["pp"] <= pick_model(model_name).layers:
        recipe = ours.pop("recipe")
        with suppress(UsageError):  # other options may contradict the recipe's layout
            job = build_planned_job(
                machine, model_name, method, ours | {k: v for k, v in asked.items() if v is not None}
            )
            return replace(job, assumed=(*job.assumed, _("layout: from recipe {recipe}", recipe=recipe)))
    if machine.cards == 1:
        return build_planned_job(machine, model_name, method, asked)
    from launch.planner import search

    job, keeps = _draft_legal_job(machine, model_name, method, asked), bool(asked.get("offload"))
    ranked = search.search_layouts(replace(job, grad_accum=None), 1, keeps)
    best = next((found for found in ranked if found.plan.verdict == FITS), None)
    found = best.plan.job if best else search.find_smallest_layout(job)
    found = replace(found, **{name: getattr(job, name) for name in SEARCHED_OPTIONS if asked.get(name)})
    options = search.format_layout_options(found)
    note = (
        _("layout: fastest that fits: {options}", options=options)
        if best
        else _("layout: none fits; smallest: {options}", options=options)
    )
    kept = (text for text in job.assumed if not is_assumption_about(text, "sharding", "recompute"))  # now in the layout
    return replace(found, assumed=(*kept, note))


def _draft_legal_job(machine: PlannedMachine, model_name: str, method: str, asked: Mapping[str, Any]) -> PlannedJob:
    """Return the job with the first sharding that the framework accepts for it: an offload may need one."""
    job = draft_planned_job(machine, model_name, method, asked)
    ways = (job, *(replace(job, sharding=scheme) for scheme in job.framework.sharded))
    found = next((way for way in ways if not any(layout_rules.list_refusals(way))), job)
    refuse_illegal(found)
    return found


def list_assumed_options(job: PlannedJob, asked: Mapping[str, Any]) -> dict[str, str]:
    """Return the chosen layout as options with which a command plans exactly this job; empty if it was given."""
    if job.layout.cards == 1 or any(asked.get(name) for name in LAYOUT_OPTIONS):
        return {}
    x, a = job.layout, job.adapter
    words = {f"--{n}": f"{getattr(x, n)}" for n in (*PARALLEL, "cp") if getattr(x, n) > 1}
    if job.sharding != "none" or x.dense_shards > 1:
        words["--sharding"] = option_words.SHARDING_NAMES[job.sharding]
    words |= {"--offload": option_words.format_offload(job)} if job.offload else {}
    words |= {"--recompute": job.recompute.kind, "--micro-batch": f"{job.micro_batch}", "--seq-len": f"{job.seq_len}"}
    words |= {"--grad-accum": f"{job.grad_accum}"} if job.grad_accum else {}
    return words | ({} if job.trains_all else {"--lora-rank": f"{a.rank}", "--lora-targets": a.targets})


def list_kept_options(job: PlannedJob, asked: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that keep the chosen layout beside another option: without given ones and defaults."""
    usual = {
        "--recompute": "full",
        "--micro-batch": "1",
        "--seq-len": f"{default_length(job.model, [])}",
        "--lora-rank": f"{option_words.ADAPTER_RANK}",
        "--lora-targets": "all-linear",
    }
    return {
        name: value
        for name, value in list_assumed_options(job, asked).items()
        if usual.get(name) != value and not asked.get(name.lstrip("-").replace("-", "_"))
    }
