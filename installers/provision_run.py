"""`envcheck provision` for a recipe and a folder: show the plan, ask, carry it out, print the result."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from envcheck.core import errors
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.language import translate
from envcheck.core.messages import _
from envcheck.core.signals import handle_signals, raise_interrupt
from envcheck.job.definition import Job
from installers import execute, undo
from installers.bundle import recipe_locks
from installers.bundle.sources import Supply
from installers.containers.container_options import ContainerOptions
from installers.output.plan_text import ProgressScreen, add_messages, build_document, render_shown_plan
from installers.plan.interpreters import PythonChoice
from installers.plan.step import Plan
from installers.provisioner import Provisioner, add_job
from installers.recipes.recipe import Recipe
from installers.venv_provisioner import VenvProvisioner


@dataclass(frozen=True)
class ProvisionRequest:
    """`job` is the job to provision for on the machine of these `facts`; `own`: the user named the folder, so packages
    are installed there even if the recipe has an image.

    `gated`: the preflight checks of a following training check manual steps and the machine.  `whole`: show lists of
    the plan in full.  `python` is the user's choice for a new virtual environment.
    """

    job: Job
    facts: Facts
    folder: Path
    own: bool
    dry_run: bool
    yes: bool
    as_json: bool
    gated: bool = False
    wish: ContainerOptions | None = None
    supply: Supply | None = None
    lock_file: str = ""
    whole: bool = False
    python: PythonChoice | None = None

    @property
    def recipe(self) -> Recipe:
        """Return the recipe of the job."""
        return self.job.recipe

    @property
    def provisioner(self) -> Provisioner:
        """Return the provisioner: for the recipe's container, or for a folder if named or if training follows."""
        wanted = self.supply.narrowed_recipe if self.supply else self.recipe
        folder, recipe = self.folder.absolute(), narrow_to_node(wanted, self.job)
        terms = (self.job.method.role or recipe.device, self.supply, self.facts, None if self.gated else self.job)
        if recipe.image is None or recipe.container is None or self.own or self.gated:
            by_hand = recipe.image is not None and not self.own
            return VenvProvisioner(recipe, folder, *terms, by_hand, self.python)
        from installers.container_provisioner import ContainerProvisioner

        cards = self.job.container.cards if self.job.container and self.job.choice else ()
        return ContainerProvisioner(recipe, folder, *terms, replace(self.wish or ContainerOptions(), cards=cards))


def narrow_to_node(recipe: Recipe, job: Job) -> Recipe:
    """Return the recipe with device and driver of the job, which may differ by node role."""
    return replace(recipe, device=job.device, driver_minimum=job.wanted.driver_minimum)


def run_plan(asked: ProvisionRequest) -> int:
    """Provision, or with --dry-run only show the plan; return the exit code."""
    ground = asked.provisioner
    if asked.dry_run:
        plan = ground.make_current_plan()
        code = plan.first_obstacle.code if plan.first_obstacle else _exit_code(asked, plan)
        _report_result(asked, plan, "planned" if plan.steps else _finished_result(plan), code)
        return code
    with handle_signals(raise_interrupt), ProgressScreen() as screen:
        try:
            outcome = execute.provision_target(
                ground, ask=lambda plan: _ask_agreement(asked, plan), report=screen.show_event
            )
        except errors.EnvcheckError as err:
            err.document = _failure_document(asked, err)
            raise
    plan = outcome.plan
    if outcome.declined:
        _report_result(asked, plan, "declined", errors.CHECK_FAILED, outcome, shown=True)
        return errors.CHECK_FAILED
    if asked.lock_file:
        recipe_locks.export_lock(asked.folder, asked.recipe, Path(asked.lock_file))
    code = _exit_code(asked, plan)
    _report_result(
        asked, plan, "done" if outcome.performed else _finished_result(plan), code, outcome, shown=bool(plan.steps)
    )
    return code


def run_script(asked: ProvisionRequest) -> int:
    """Print the plan as a shell script; return the exit code of --dry-run."""
    from installers.plan_script import render_script

    ground = asked.provisioner
    plan = ground.make_current_plan()
    click.echo(render_script(ground.recipe, plan, ground.script_interpreter, ground.site), nl=False)
    return plan.first_obstacle.code if plan.first_obstacle else _exit_code(asked, plan)


def _ask_agreement(asked: ProvisionRequest, plan: Plan) -> bool:
    """Show the plan and ask for confirmation; --yes skips the question, without a terminal it is a UsageError."""
    click.echo(render_shown_plan(plan, asked.whole), err=asked.as_json)
    if asked.yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(
            _("cannot ask for confirmation: no terminal"),
            _("add --yes to carry out the plan, or --dry-run to print it only"),
        )
    return click.confirm(translate(_("Continue?")), err=asked.as_json)


def _finished_result(plan: Plan) -> str:
    return "manual" if plan.manual_steps else "ready"


def _exit_code(asked: ProvisionRequest, plan: Plan) -> int:
    return errors.CHECK_FAILED if plan.manual_steps and not asked.gated else errors.SUCCESS


def _report_result(
    asked: ProvisionRequest,
    plan: Plan,
    result: str,
    code: int,
    outcome: execute.ProvisionOutcome | None = None,
    shown: bool = False,
) -> None:
    """Print the plan, unless it was shown already, and the result."""
    if asked.as_json:
        click.echo(json.dumps(build_document(plan, result, outcome.performed if outcome else (), code), indent=1))
        return
    if not shown:
        click.echo(render_shown_plan(plan, asked.whole))
    if outcome and outcome.performed:
        proved = outcome.performed[-1][1]
        ready = (
            _(
                "{recipe} is ready in container {container}: {proof}",
                recipe=plan.recipe,
                container=plan.container,
                proof=proved,
            )
            if plan.container
            else _("{recipe} is ready in {folder}: {proof}", recipe=plan.recipe, folder=plan.folder, proof=proved)
        )
        click.echo(translate(ready))
    if outcome and outcome.declined:
        click.echo(translate(_("no changes made")))
    elif plan.manual_steps and result != "planned":
        click.echo(translate(_('steps marked "manual" were not run')))


def _failure_document(asked: ProvisionRequest, err: errors.EnvcheckError) -> dict[str, Any]:
    plan, performed = _known_progress(asked, err)
    return build_document(plan, "failed", performed, err.code)


def _known_progress(asked: ProvisionRequest, err: errors.EnvcheckError) -> tuple[Plan, tuple[tuple[str, str], ...]]:
    """Return the plan and the steps that were carried out before the error."""
    if isinstance(err, execute.StepFailedError):
        return err.outcome.plan, err.outcome.performed
    return err.plan if isinstance(err, execute.BlockedError) else _empty_plan(asked), ()


def _empty_plan(asked: ProvisionRequest) -> Plan:
    return add_job(Plan(asked.recipe.name, asked.folder, ()), asked.job)


def run_undo(asked: ProvisionRequest) -> int:
    """Show what will be removed, ask, and remove it; return the exit code."""
    try:
        return _undo_folder(asked)
    except errors.EnvcheckError as err:
        err.document = _failure_document(asked, err)
        raise


def _undo_folder(asked: ProvisionRequest) -> int:
    removes, kept = undo.list_removable(asked.folder), tuple[str, ...]()
    if not asked.as_json:
        none = translate(_("nothing to remove: {folder} does not exist", folder=asked.folder))
        click.echo("\n".join(translate(_("remove {what}", what=each)) for each in removes) or none)
    if removes and not asked.dry_run:
        if not asked.yes:
            if not sys.stdin.isatty():
                raise UsageError(_("cannot ask for confirmation: no terminal"), _("add --yes to remove it"))
            if not click.confirm(translate(_("Remove it?")), err=asked.as_json):
                if asked.as_json:
                    values = build_document(_empty_plan(asked), "declined", (), errors.CHECK_FAILED)
                    click.echo(json.dumps(add_messages(values | {"removes": removes}), indent=1))
                return errors.CHECK_FAILED
        with handle_signals(raise_interrupt):
            kept = undo.undo_provisioning(asked.folder)
        if not asked.as_json:
            click.echo("\n".join((*map(translate, kept), translate(_("removed")))))
    if asked.as_json:
        result = "planned" if asked.dry_run else "removed" if removes else "absent"
        document = build_document(_empty_plan(asked), result)
        click.echo(json.dumps(add_messages(document | {"removes": removes, "kept": kept}), indent=1))
    return errors.SUCCESS
