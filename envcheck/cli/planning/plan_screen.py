"""One plan as text or as a document."""

from __future__ import annotations

import shutil

import click

from envcheck.cli.job_argument import SELECTING
from envcheck.cli.json_document import print_document
from envcheck.cli.planning import planned_recipe
from envcheck.cli.planning.plan_documents import build_job_values, describe_outcome_here
from envcheck.cli.planning.plan_options import LayoutOptions, PlanOptions
from envcheck.cli.planning.planning_target import PlanningTarget
from envcheck.core.host_names import fold_hosts
from envcheck.job.own_job_text import render_own_job
from launch import planner
from launch.memory.planned_job import PlannedJob
from launch.planner import LaunchPlan, advice, default_layout, host_spread
from launch.planner.output import plan_values, terminal_text


def print_plan(answer: LaunchPlan, advised: PlannedJob | None, request: PlanOptions, seen: PlanningTarget) -> None:
    found, fits = seen.spread, answer.verdict == planner.FITS
    changes = advice.find_fitting_changes(advised) if advised and not fits else () if advised else None
    left = advice.find_headroom(advised) if advised and fits else None
    layout, kept = (
        listed(answer.job, request.option_values)
        for listed in (default_layout.list_assumed_options, default_layout.list_kept_options)
    )
    is_larger = seen.job is not None and answer.job.layout.cards > answer.job.device.cards_per_node
    if layout and (seen.is_absent or is_larger):  # the job has more nodes than this machine
        described = planned_recipe.list_machine_options(answer.job)
        layout, kept = described | layout, described | kept
    limits = advice.CommandLimits(
        request.nodes,
        frozenset(f"--{name.replace('_', '-')}" for name in SELECTING) if request.own_job else frozenset(),
        host_spread.list_hardware_options(found) if found else {},
    )
    changes = None if changes is None else advice.keep_layout(changes, kept, limits)
    left = advice.keep_layout_of_fewest(left, kept, limits) if left else None
    if request.as_json:
        more = (
            build_job_values(seen)
            | plan_values.list_advice_values(changes or (), left)
            | {
                "published": [
                    f"{r.name}: {j.title}" for r, j in planned_recipe.list_published_jobs(answer.job, request.recipes)
                ]
            }
            | (host_spread.list_host_values(found) if found else {})
        )
        print_document(plan_values.build_plan_document(answer, more) | describe_outcome_here(answer, request, seen))
        return
    above, below = _render_job_lines(seen, answer)
    if published := planned_recipe.describe_published_jobs(answer.job, request.recipes):
        below = [*below, published]
    width = get_terminal_width()
    lines = (
        *render_request_job(request, seen),
        *terminal_text.wrap_lines(above, width),
        *terminal_text.render_plan(answer, changes, left, request.explain, layout, width),
        *terminal_text.wrap_lines(
            (*(host_spread.format_host_lines(found, fold_hosts) if found else ()), *below), width
        ),
    )
    click.echo("\n".join(lines))  # at once: a reader of the first line does not cost the exit code


def render_request_job(request: LayoutOptions, seen: PlanningTarget) -> list[str]:
    """The lines about what was read of the user's own job, if there is one."""
    if request.own_job is None or request.as_json:
        return []
    return [*render_own_job(seen.job.own if seen.job and seen.job.own else request.own_job), ""]


def _render_job_lines(seen: PlanningTarget, answer: LaunchPlan) -> tuple[list[str], list[str]]:
    """Lines about the job: the other host for which it is resolved, the recipe's minimum, and what blocks it here.

    Above the plan what provisioning cannot change, below it the rest.  Requirements of this machine are left out if
    the plan is about devices that it does not have.
    """
    if seen.job is None:
        return [], []
    is_same = seen.job.device == answer.job.device.vendor
    assumed = seen.job.assumed_host if is_same else ""
    minimum = planned_recipe.describe_recipe_minimum(seen.job) if is_same else ""
    unmet = "" if seen.is_absent else planned_recipe.describe_unmet(seen.job)
    above, below = (unmet, "") if seen.job_elsewhere else ("", unmet)
    return list(filter(None, [assumed, above])), list(filter(None, [minimum, below]))


def get_terminal_width() -> int:
    """The width of the terminal, or COLUMNS; 0 for a file or a pipe."""
    return shutil.get_terminal_size((0, 0)).columns
