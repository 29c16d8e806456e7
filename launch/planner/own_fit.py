"""The memory verdict of a job of the user's own: what only assumed values decide is unknown."""

from __future__ import annotations

from dataclasses import replace

from envcheck.core.errors import EnvcheckError
from envcheck.core.facts import Facts, JobFit
from envcheck.core.lint.own_job import LABELS, JobValue, OwnJob, ValueState
from envcheck.core.messages import Message, _, join
from envcheck.core.model import manual
from installers.recipes.recipe import Recipe, RecipeJob
from launch.planner import recipe_fit, recipe_job

MEMORY = ("method", "nodes", "cards", "micro_batch", "seq_len", "recompute", "lora_rank", "sharding", "offload",
          "precision")  # fmt: skip


def judge_own_fit(
    own: OwnJob, offer: tuple[Recipe, RecipeJob], facts: Facts, places: tuple[int, ...] | None, fit: JobFit | None
) -> JobFit | None:
    """Return the verdict for the values that were read; unknown where assumed values alone make it fail."""
    recipe, job = offer
    if (job.device or recipe.device) == "cpu":
        return None
    if own.list_invalid():
        return JobFit(None, explain_unknown_job(own), manual(_("Correct these values in the job.")))
    if fit is None or own.unplanned_framework:
        words = _("Compare it with a known job: envcheck plan --model NAME --method NAME.")
        return JobFit(None, explain_unknown_job(own), manual(words))
    if fit.fits is not False or not (open_ := own.list_unsettled(*MEMORY)):
        return fit
    if own.list_unsettled("nodes") or any(v.state is ValueState.UNKNOWN for v in own.list_unsettled("offload")):
        return _make_unknown(fit, open_)  # no leanest value of these
    lean = replace(job, plan={**job.plan, **own.lean})
    try:
        plan = recipe_fit.plan_recipe(recipe, lean, facts, places if own.cards else None)
        leanest = recipe_fit.describe_fit(recipe, lean, plan)
    except EnvcheckError:
        leanest = None
    if leanest is not None and leanest.fits is False:
        return fit
    return _make_unknown(fit, open_)


def _make_unknown(fit: JobFit, values: tuple[JobValue, ...]) -> JobFit:
    seen = _("{reason}; this assumes {values}", reason=fit.reason, values=join(", ", map(_describe_value, values)))
    return JobFit(None, seen, manual(_explain_settling(values)), fit.predicted_bytes)


def judge_own_degrees(
    own: OwnJob, offer: tuple[Recipe, RecipeJob], facts: Facts, found: JobFit | None
) -> JobFit | None:
    """Return the verdict on the layout; unknown where assumed values, or an unknown framework, alone make it fail."""
    recipe, job = offer
    if found is None or own.unplanned_framework or (job.device or recipe.device) == "cpu":
        return None
    if found.fits is not False:
        return found
    lean = recipe_job.judge_degrees(recipe, replace(job, plan={**job.plan, **own.lean}), facts)
    is_settled = bool(own.framework and own.cards) and not own.list_unsettled("nodes")
    is_sure = is_settled and lean is not None and lean.fits is False
    words = _("Change these values in the job: {reason}", reason=found.reason)
    return JobFit(False if is_sure else None, found.reason, manual(words))


def explain_unknown_job(own: OwnJob) -> Message:
    """Return what the planner lacks of the job, first of all the values that no training takes."""
    if invalid := own.list_invalid():
        reasons = join("; ", [value.where for value in invalid])
        return _("the memory of this job cannot be planned: {reasons}", reasons=reasons)
    if own.no_training:
        return _("the memory of this job cannot be planned: {reasons}", reasons=own.no_training)
    if own.unplanned_framework:
        return _("envcheck recognises {framework}, but cannot plan its memory", framework=own.unplanned_framework)
    lacks = [name for name, known in (("model", own.model), ("method", own.method)) if not known]
    read = [value for value in own.values if value.name in lacks]
    named = join(
        ", ", (_("{name} {value}", name=LABELS[v.name], value=v.value) if v.value else LABELS[v.name] for v in read)
    )
    return _("the memory of this job cannot be planned: unknown {names}", names=named)


def _describe_value(value: JobValue) -> Message:
    return _("{name} {value}", name=LABELS[value.name], value=value.value or _("unknown"))


def _explain_settling(values: tuple[JobValue, ...]) -> Message:
    options = [value.option for value in values if value.option]
    if not options:
        return _("State these values: envcheck recipes create writes a recipe with all of them.")
    return _("Set these options in the job: {options}.", options=join(", ", dict.fromkeys(options)))
