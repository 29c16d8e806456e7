"""What `envcheck plan` does with a job: plan it, rank its layouts, or vary one option."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from envcheck.cli.json_document import print_document
from envcheck.cli.planning.completed_request import complete_job
from envcheck.cli.planning.plan_documents import (
    build_unknown_document,
    describe_best_outcome,
    get_exit_code,
    get_exit_code_here,
)
from envcheck.cli.planning.plan_options import LayoutOptions, PlanOptions, SearchOptions, SweepOptions
from envcheck.cli.planning.plan_screen import get_terminal_width, print_plan, render_request_job
from envcheck.cli.planning.planning_target import DESCRIBED, PlanningTarget, examine_machines, lay_out_job
from envcheck.cli.requests import EITHER
from envcheck.core import local_files
from envcheck.core.errors import UndeterminedError, UsageError
from envcheck.core.messages import _
from launch.memory.planned_job import PlannedJob
from launch.planner import LaunchPlan, calibration, machines, search, sweep
from launch.planner.output import picture, plan_values, plots, png, terminal_text
from launch.planner.resolve import PlannedMachine

SIZE_HINT = _("Set the memory size of the instance with --memory-gib.")


def answer_request(request: SearchOptions | SweepOptions | PlanOptions) -> int:
    """Print the answer and return the exit code."""
    if isinstance(request, SweepOptions):
        return _sweep_values(request)
    request = complete_job(request)
    seen = examine_machines(request)
    machine, job = _lay_out_or_explain(seen, request)
    return (
        _plan_one_job(machine, job, request, seen) if isinstance(request, PlanOptions) else _rank_layouts(job, request)
    )


def _lay_out_or_explain(seen: PlanningTarget, request: LayoutOptions) -> tuple[PlannedMachine, PlannedJob]:
    """Devices and layout; if they are unknown, what was read of an own job is shown before the error."""
    try:
        return lay_out_job(seen, request)
    except UndeterminedError as err:
        if lines := render_request_job(request, seen):
            click.echo("\n".join(lines))
        if isinstance(request, PlanOptions):
            err.document = build_unknown_document(err, seen)
        raise


def _plan_one_job(machine: PlannedMachine, job: PlannedJob, request: PlanOptions, seen: PlanningTarget) -> int:
    found = seen.spread
    answer, advised = machines.answer_for_machine(machine, job, SIZE_HINT), job
    if request.calibrate:
        correction = calibration.learn_correction(request.calibrate)
        answer, advised = calibration.correct_plan(answer, correction), calibration.adjust_card_size(job, correction)
    if request.output:
        _save_picture(request.output, picture.draw_plan_svg(answer))
    print_plan(answer, None if machine.parted else advised, request, seen)
    code = get_exit_code_here(answer, seen)
    return 3 if found is not None and found.silent and code == 0 else code  # it fits on the hosts that responded


def _rank_layouts(job: PlannedJob, request: SearchOptions) -> int:
    layouts = search.search_layouts(job if request.grad_accum else replace(job, grad_accum=None))
    if request.output:
        _save_picture(request.output, plots.draw_search_svg(layouts))
    if request.as_json:
        print_document(
            plan_values.build_layouts_document(layouts) | describe_best_outcome([found.plan for found in layouts])
        )
    else:
        click.echo("\n".join(terminal_text.format_search(layouts, get_terminal_width())))
    return min((get_exit_code(found.plan) for found in layouts), default=1)


def _sweep_values(request: SweepOptions) -> int:
    """Plan the job for each value as the command with that value does."""
    axis, values = sweep.parse_axis(request.sweep)
    name = axis.replace("-", "_")
    if request.is_over_ssh and name in DESCRIBED:
        raise UsageError(_("{name} cannot be combined with {other}", name=f"--sweep {axis}", other="--hosts"), EITHER)
    seen = examine_machines(complete_job(_set_option(request, name, values[0])))

    def plan_value(name: str, value: int) -> LaunchPlan:
        machine, job = _lay_out_or_explain(seen, complete_job(_set_option(request, name, value)))
        return machines.answer_for_machine(machine, job, SIZE_HINT)

    points = sweep.sweep_option(name, values, plan_value)
    if request.output:
        _save_picture(request.output, plots.draw_sweep_svg(request.sweep, points))
    if request.as_json:
        print_document(
            plan_values.build_points_document(points)
            | describe_best_outcome([p for _unused, p in points if not isinstance(p, str)])
        )
    else:
        click.echo("\n".join(terminal_text.format_sweep(points, get_terminal_width())))
    codes = [get_exit_code(p) for _unused, p in points if not isinstance(p, str)]
    return min(codes, default=2)


def _set_option(request: SweepOptions, name: str, value: int) -> SweepOptions:
    """The request with this value on its command line."""
    changed: dict[str, Any] = {name: value}
    return replace(request, given=request.given | {name}, **changed)


def _save_picture(path: Path, svg: str) -> None:
    local_files.write_file(path, png.convert_svg(svg) if path.suffix.lower() == ".png" else svg)
