"""What `envcheck provision` does with a recipe and a folder: show, ask, perform, print, and the exit code."""

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
from envcheck.core.language import label, say
from envcheck.core.signals import heard_by, interrupt
from envcheck.job.job import Job
from installers import execute, undo
from installers.bundle import lock_notes
from installers.bundle.sources import Supply
from installers.containers.container_options import Wish
from installers.output.plan_text import Screen, as_text, as_values
from installers.plan import host_facts
from installers.plan.step import Plan
from installers.provisioner import Provisioner, with_job
from installers.recipes.recipe import Recipe
from installers.venv_environment import VenvProvisioner


@dataclass(frozen=True)
class ProvisionRequest:
    """`job` is what the machine of these `facts` is made fit for; `own`: the folder was given, so that the packages go
    there even where the recipe has an image.

    `gated`: what is left to a person, and the machine itself, are judged by the gates of a training that follows.
    `whole`: the plan is shown with all that it creates, however long.
    """

    job: Job
    facts: Facts
    folder: Path
    own: bool
    dry_run: bool
    yes: bool
    as_json: bool
    gated: bool = False
    wish: Wish | None = None
    supply: Supply | None = None
    lock_file: str = ""
    whole: bool = False

    @property
    def recipe(self) -> Recipe:
        return self.job.recipe

    @property
    def ground(self) -> Provisioner:
        """The recipe's container, unless a folder was named; a training that follows does not make it."""
        wanted = self.supply.narrowed if self.supply else self.recipe
        folder, recipe = self.folder.absolute(), narrow_to_node(wanted, self.job)
        terms = (self.job.method.role or recipe.device, self.supply, self.facts, None if self.gated else self.job)
        if recipe.image is None or recipe.container is None or self.own or self.gated:
            by_hand = recipe.image is not None and not self.own
            return VenvProvisioner(recipe, folder, *terms, by_hand)
        from installers.container_environment import ContainerProvisioner

        return ContainerProvisioner(recipe, folder, *terms, self.wish or Wish())


def narrow_to_node(recipe: Recipe, job: Job) -> Recipe:
    """The recipe as this node sees it: the device and the driver of its part, where each role has its own."""
    return replace(recipe, device=job.device, driver_minimum=job.wanted.driver_minimum)


def run_plan(asked: ProvisionRequest) -> int:
    """Provision, or with --dry-run show what it would be."""
    ground = asked.ground
    if asked.dry_run:
        plan = ground.look()
        code = plan.obstacle.code if plan.obstacle else _code(asked, plan)
        _tell(asked, plan, "planned" if plan.steps else _finished(plan), code)
        return code
    with heard_by(interrupt), Screen() as screen:
        try:
            outcome = execute.provision(ground, ask=lambda plan: _agreed(asked, plan), report=screen.show)
        except errors.EnvcheckError as err:
            err.document = _failed(asked, err)
            raise
    plan = outcome.plan
    if outcome.declined:
        _tell(asked, plan, "declined", errors.UNFIT, outcome, shown=True)
        return errors.UNFIT
    if asked.lock_file:
        lock_notes.export(asked.folder, asked.recipe, Path(asked.lock_file))
    code = _code(asked, plan)
    _tell(asked, plan, "done" if outcome.performed else _finished(plan), code, outcome, shown=bool(plan.steps))
    return code


def run_script(asked: ProvisionRequest) -> int:
    """The plan as a shell script; the exit code is that of --dry-run."""
    from installers.as_script import script

    ground = asked.ground
    plan = ground.look()
    click.echo(script(ground.recipe, plan, host_facts.read(ground.folder).interpreter), nl=False)
    return plan.obstacle.code if plan.obstacle else _code(asked, plan)


def _agreed(asked: ProvisionRequest, plan: Plan) -> bool:
    """Show, and ask unless told not to.  Nobody there to answer is wrong usage, never a yes."""
    click.echo(as_text(plan, whole=asked.whole), err=asked.as_json)
    if asked.yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("there is nobody to ask", "add --yes to do what the plan says, or --dry-run to only see it")
    return click.confirm(say("Do this?"), err=asked.as_json)


def _finished(plan: Plan) -> str:
    return "by-hand" if plan.by_hand else "ready"


def _code(asked: ProvisionRequest, plan: Plan) -> int:
    return errors.UNFIT if plan.by_hand and not asked.gated else errors.FIT


def _tell(
    asked: ProvisionRequest,
    plan: Plan,
    result: str,
    code: int,
    outcome: execute.ProvisionOutcome | None = None,
    shown: bool = False,
) -> None:
    """The plan, where it was not shown yet, and the end of the story."""
    if asked.as_json:
        click.echo(json.dumps(as_values(plan, result, outcome.performed if outcome else (), code), indent=1))
        return
    if not shown:
        click.echo(as_text(plan, whole=asked.whole))
    if outcome and outcome.performed:
        ready = "{} is ready in the container {}: {}" if plan.boxed else "{} is ready in {}: {}"
        proved = say(outcome.performed[-1][1])
        click.echo(say(ready).format(plan.recipe, plan.boxed or plan.folder, proved))
    if outcome and outcome.declined:
        click.echo(say("nothing was done"))
    elif plan.by_hand and result != "planned":
        click.echo(say('what is marked "by hand" was not done'))


def _failed(asked: ProvisionRequest, err: errors.EnvcheckError) -> dict[str, Any]:
    plan, performed = _known(asked, err)
    return as_values(plan, "failed", performed, err.code)


def _known(asked: ProvisionRequest, err: errors.EnvcheckError) -> tuple[Plan, tuple[tuple[str, str], ...]]:
    """What was planned and what was done, as far as it came."""
    if isinstance(err, execute.BrokenOffError):
        return err.outcome.plan, err.outcome.performed
    return err.plan if isinstance(err, execute.BlockedError) else _empty_plan(asked), ()


def _empty_plan(asked: ProvisionRequest) -> Plan:
    return with_job(Plan(asked.recipe.name, asked.folder, ()), asked.job)


def run_undo(asked: ProvisionRequest) -> int:
    """Show what would be taken back, ask, take it back."""
    try:
        return _undo(asked)
    except errors.EnvcheckError as err:
        err.document = _failed(asked, err)
        raise


def _undo(asked: ProvisionRequest) -> int:
    what, told = undo.removable(asked.folder), tuple[str, ...]()
    if not asked.as_json:
        none = say("nothing to remove: {} is not there").format(asked.folder)
        click.echo("\n".join(say("removes {}").format(each) for each in what) or none)
    if what and not asked.dry_run:
        if not asked.yes:
            if not sys.stdin.isatty():
                raise UsageError("there is nobody to ask", "add --yes to remove it")
            if not click.confirm(say("Remove it?"), err=asked.as_json):
                if asked.as_json:
                    values = as_values(_empty_plan(asked), "declined", (), errors.UNFIT)
                    click.echo(json.dumps(values | {"removes": what}, indent=1))
                return errors.UNFIT
        with heard_by(interrupt):
            told = undo.undo(asked.folder)
        if not asked.as_json:
            click.echo("\n".join((*map(say, told), label("removed"))))
    if asked.as_json:
        result = "planned" if asked.dry_run else "removed" if what else "absent"
        document = as_values(_empty_plan(asked), result)
        click.echo(json.dumps(document | {"removes": what, "kept": told}, indent=1))
    return errors.FIT
