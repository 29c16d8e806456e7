"""The request with what its job states: the values of the user's own job, the recipe's model and method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import click

from envcheck.cli.job_argument import read_own_job
from envcheck.cli.planning import planned_recipe
from envcheck.cli.planning.plan_documents import build_unknown_document
from envcheck.cli.planning.plan_options import LayoutOptions
from envcheck.cli.planning.planning_target import examine_machines
from envcheck.core.errors import UndeterminedError, UsageError
from envcheck.core.lint.own_job import OwnJob, ValueState
from envcheck.core.messages import _
from envcheck.job.own_job_text import render_own_job
from envcheck.vendors.names import accelerator_choice, device_names
from launch.catalogue import devices, models
from launch.planner.option_words import is_same_method
from launch.planner.own_fit import explain_unknown_job

SIZES = {"seq_len", "micro_batch", "grad_accum", "lora_rank"}  # options that replace a value of an own job
FILLABLE = ("model", "method")  # options that fill what an own job does not state
T = TypeVar("T", bound=LayoutOptions)


def complete_job(request: T) -> T:
    """The request with the job of its recipe or file; UsageError for one without a job."""
    request = _add_recipe_job(_add_own_job(_separate_hardware(request)))
    if not (request.model and request.method):
        raise UsageError(
            _("plan needs --model and --method"), _("for example: envcheck plan --model 21b --method lora")
        )
    if request.output and request.output.suffix.lower() not in (".svg", ".png"):
        raise UsageError(
            _("-o {output}: only .svg and .png are supported", output=request.output),
            _("specify a file that ends in .svg or .png"),
        )
    return request


def _separate_hardware(request: T) -> T:
    """The request with the card of --device as `hardware` and its vendor as `device`."""
    if request.device in device_names():
        return request
    if request.is_over_ssh:
        raise UsageError(
            _("--device {name} describes hardware; the hosts have their own", name=request.device),
            _("name the vendor: --device {choices}", choices=accelerator_choice()),
        )
    card = devices.find_named_device(request.device)
    return replace(request, device=card.vendor, hardware=card.name)


def _add_own_job(request: T) -> T:
    """The request with the values of the user's own job; options of the command line win."""
    own = read_own_job(request.words, request.given, fillable=FILLABLE)
    if own is None:
        return request
    own = _fill_own_job(own, request)
    given = {"device": ("--device", request.device)} if "device" in request.given else {}
    if own.nodes == 1 and request.cards:
        given |= {"cards": ("--cards", str(request.cards))}
    sizes = {value.name for value in own.values} & SIZES & request.given
    given |= {name: (f"--{name.replace('_', '-')}", str(request.option_values[name])) for name in sizes}
    own = own.settle_values(given)
    is_unplanned = own.unplanned_framework and "framework" not in request.given
    if not (own.model and own.method) or own.list_invalid() or is_unplanned:
        raise _explain_unplannable(replace(request, own_job=own), own)
    values: dict[str, Any] = {
        "model": own.model,
        "method": own.method,
        "framework": own.framework or None,
        "nodes": own.nodes,
    }
    if request.device == "auto" and own.device:
        values["device"] = own.device
    if request.is_described and not request.cards:
        values["cards"] = own.nodes * (own.cards or request.cards_per_node or 1)
    known = vars(request).keys()
    read = {**(own.divided_plan if "tp" in request.given else {}), **own.plan}
    values |= {name: value for name, value in read.items() if name in known and name not in request.given}
    if not request.is_described or own.nodes == 1:
        values.pop("nodes")
    return replace(request, own_job=own, **{name: value for name, value in values.items() if name not in request.given})


def _fill_own_job(own: OwnJob, request: LayoutOptions) -> OwnJob:
    """The job with --model and --method where it states none; UsageError where it states another one."""

    def is_same(name: str, value: str, stated: str) -> bool:
        same_model = models.find_exact_name(value) == stated or value == stated
        return same_model if name == "model" else is_same_method(value, stated)

    filled = {name: str(request.option_values[name]) for name in FILLABLE if name in request.given}
    if own.no_training:
        return own
    for name, value in filled.items():
        stated, read = getattr(own, name), own.find_value(name)
        is_read = read is not None and read.state is ValueState.READ
        if stated and is_read and not is_same(name, value, stated):
            raise UsageError(
                _("--{name} {value}: the job sets {stated}", name=name, value=value, stated=stated),
                _("change the value in the job, or remove --{name}", name=name),
            )
    changed: dict[str, Any] = filled
    return replace(
        own.settle_values({name: (f"--{name}", value) for name, value in filled.items()}),
        **{name: getattr(own, name) or value for name, value in changed.items()},
    )


def _add_recipe_job(request: T) -> T:
    """The request with model and method of the recipe that it names, and its device unless hardware is described."""
    if request.recipe is None:
        return request
    model, method, device = planned_recipe.name_recipe_job(request.option_values)
    is_given = "device" in request.given or request.is_described
    return replace(request, model=model, method=method, device=request.device if is_given else device)


def _explain_unplannable(request: LayoutOptions, own: OwnJob) -> UndeterminedError:
    """The error for a job whose model or method the planner does not know; shows what was read of it."""
    lacking = [f"--{name} NAME" for name in FILLABLE if not getattr(own, name)]
    is_fillable = lacking and not (own.no_training or own.unplanned_framework)
    known = _("compare it with a known job: envcheck plan --model NAME --method NAME")
    fill = _("add {options}", options=" ".join(lacking))
    correct = _("correct these values in the job")
    err = UndeterminedError(explain_unknown_job(own), correct if own.list_invalid() else fill if is_fillable else known)
    if request.as_json:
        err.document = build_unknown_document(err, examine_machines(request))
    else:
        click.echo("\n".join(render_own_job(own)))
    return err
