"""How a plan ends: its exit code, and what its document says beside the plan."""

from __future__ import annotations

from typing import Any

from envcheck.cli.planning import planned_recipe
from envcheck.cli.planning.plan_options import PlanOptions
from envcheck.cli.planning.planning_target import PlanningTarget
from envcheck.core.errors import CHECK_FAILED, SUCCESS, UNDETERMINED, UndeterminedError, outcome_fields
from envcheck.core.messages import _
from envcheck.job.repeat_options import format_doctor_options
from launch import planner
from launch.planner import LaunchPlan
from launch.planner.output import plan_values


def build_unknown_document(err: UndeterminedError, seen: PlanningTarget) -> dict[str, Any]:
    """The document of a plan that cannot be computed."""
    said = {"verdict": planner.UNTOLD, "reason": err.message}
    return plan_values.add_schema(said) | build_job_values(seen)


def build_job_values(seen: PlanningTarget) -> dict[str, Any]:
    return {"job": seen.job.as_json() if seen.job else None}


def get_exit_code_here(answer: LaunchPlan, seen: PlanningTarget) -> int:
    """The exit code: fitting in memory is not enough if the machine cannot run the job for another reason."""
    return CHECK_FAILED if seen.job_elsewhere else get_exit_code(answer)


def describe_outcome_here(answer: LaunchPlan, request: PlanOptions, seen: PlanningTarget) -> dict[str, Any]:
    """Error, exit code and next step of the document."""
    if job := seen.job_elsewhere:
        words = f"envcheck doctor {format_doctor_options(job.recipe, job.method, request.recipes)}"
        return outcome_fields(get_exit_code_here(answer, seen), planned_recipe.describe_unmet(job), words)
    return describe_outcome(answer)


def describe_outcome(answer: LaunchPlan) -> dict[str, Any]:
    """Error, exit code and next step of the document."""
    return outcome_fields(get_exit_code(answer), answer.reason, "envcheck plan --search ranks other layouts")


def describe_best_outcome(answers: list[LaunchPlan]) -> dict[str, Any]:
    best = min(answers, key=get_exit_code, default=None)
    return outcome_fields(CHECK_FAILED, _("no parallel layout is possible")) if best is None else describe_outcome(best)


def get_exit_code(answer: LaunchPlan) -> int:
    codes = {planner.FITS: SUCCESS, planner.NOT: CHECK_FAILED, planner.UNTOLD: UNDETERMINED}
    return codes[answer.verdict]
