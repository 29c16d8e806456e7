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
from launch.planner import FITS, layout_rules, option_words, recipe_layout, speed
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
HELD_OPTIONS = (*PARALLEL, "cp", "offload")  # the search keeps those that are given
LAYOUT_OPTIONS = ("tp", "pp", "vpp", "ep", "cp", "sharding")


def choose_layout(
    machine: PlannedMachine, model_name: str, method: str, asked: Mapping[str, Any], offer: Offer | None = None
) -> PlannedJob:
    """Return the job in the given layout; without one in that of the recipe's job in `offer`, else the fastest fitting.

    If no layout fits, the one that needs the least memory.  `asked` are the options given, by name.  A recipe that they
    name sets every value that they do not.
    """
    is_named = bool(offer and asked.get("recipe"))
    if has_layout(asked) and not is_named:
        return build_planned_job(machine, model_name, method, asked)
    if offer and (found := _take_recipe_layout(machine, model_name, method, asked, offer)):
        return _add_batch_note(found, offer, asked)
    if offer and is_named:
        job = _search_fastest(machine, model_name, method, recipe_layout.merge_options(_list_sizes(offer), asked))
        return _add_batch_note(_add_recipe_note(job, offer), offer, asked)
    return _search_fastest(machine, model_name, method, asked)


def has_layout(asked: Mapping[str, Any]) -> bool:
    """Whether the options set a layout: a sharding, or a degree above 1.

    A degree of 1 only limits the choice.
    """
    return bool(asked.get("sharding")) or recipe_layout.has_degrees(asked)


def _take_recipe_layout(
    machine: PlannedMachine, model_name: str, method: str, asked: Mapping[str, Any], offer: Offer
) -> PlannedJob | None:
    """Return the job with the recipe's values and the options in `asked`; None if the cards do not suit the layout.

    UsageError only for a layout that `asked` changes.
    """
    options = recipe_layout.list_planner_options(*offer)
    if not (asked.get("recipe") or (recipe_layout.has_degrees(options) and _keeps_degrees(options, asked))):
        return None
    values = recipe_layout.spread_layout(options, machine.cards, asked)
    if has_layout(asked):
        job = build_planned_job(machine, model_name, method, values or recipe_layout.merge_options(options, asked))
        return _add_recipe_note(job, offer)
    if not values or values["pp"] > pick_model(model_name).layers:
        return None
    recipe = recipe_layout.describe_spread(offer, values, options, machine.cards)
    with suppress(UsageError):  # other options may contradict the recipe's layout
        job = build_planned_job(machine, model_name, method, values)
        return replace(job, assumed=(*job.assumed, _("layout: from recipe {recipe}", recipe=recipe)))
    return None


def _keeps_degrees(options: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether the degrees in `asked` are those of the recipe's options."""
    degrees = [name for name in recipe_layout.DEGREES if asked.get(name)]
    return all(asked[name] == (options.get(name) or 1) for name in degrees)


def _list_sizes(offer: Offer) -> dict[str, Any]:
    """Return what the recipe's job sets apart from its layout."""
    options = recipe_layout.list_planner_options(*offer)
    return {name: value for name, value in options.items() if name not in (*LAYOUT_OPTIONS, *recipe_layout.DEGREES)}


def _add_recipe_note(job: PlannedJob, offer: Offer) -> PlannedJob:
    note = _("values that no option sets: from recipe {recipe}", recipe=recipe_layout.describe_recipe_job(*offer))
    return replace(job, assumed=(*job.assumed, note))


def _add_batch_note(job: PlannedJob, offer: Offer, asked: Mapping[str, Any]) -> PlannedJob:
    """Return the job with what becomes of the recipe's global batch: documents publish accumulation steps, not batches,
    so these are kept, and other cards have another batch."""
    samples, published = speed.samples_per_step(job), recipe_layout.count_step_samples(*offer)
    if published in (None, samples) or asked.get("grad_accum"):
        return job
    note = _(
        "global batch: {samples} samples per step; {published} in the recipe, whose accumulation steps are kept",
        samples=samples,
        published=published,
    )
    return replace(job, assumed=(*job.assumed, note))


def _search_fastest(machine: PlannedMachine, model_name: str, method: str, asked: Mapping[str, Any]) -> PlannedJob:
    """Return the job in the fastest layout that fits, else in the one that needs the least memory."""
    if machine.cards == 1:
        return build_planned_job(machine, model_name, method, asked)
    from launch.planner import search

    job, held = _draft_legal_job(machine, model_name, method, asked), [name for name in HELD_OPTIONS if asked.get(name)]
    ranked = search.search_layouts(replace(job, grad_accum=None), 1, held)
    best = next((found for found in ranked if found.plan.verdict == FITS), None)
    found = best.plan.job if best else search.find_smallest_layout(job, held)
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
    if job.layout.cards == 1 or has_layout(asked):
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
