"""envcheck recipes: what set-ups there are, and what one of them says."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import click

from envcheck.cli import options, shell_completion, usage_errors
from envcheck.cli.requests import argument, command, convert_request, flag
from envcheck.core.errors import UsageError


@click.group(
    cls=usage_errors.Group,
    invoke_without_command=True,
    short_help="The set-ups there are, each number with its source.",
)
@options.recipes_folder
@options.json_output
@click.pass_context
def recipes(ctx: click.Context, recipes_folder: Path | None, as_json: bool) -> None:
    """What set-ups there are; `show NAME` prints one with where its numbers come from.

    \b
    envcheck recipes
    envcheck recipes show ernie-300b-npu
    envcheck recipes show tiny-cpu --json
    envcheck recipes --recipes ./mine
    """
    ctx.obj = (recipes_folder, as_json)
    if ctx.invoked_subcommand is None:
        from installers.recipes import catalogue, recipe_page

        known = catalogue.load_all(recipes_folder)
        click.echo(recipe_page.as_json(known) if as_json else recipe_page.as_table(known, _width()))


@dataclass(frozen=True, kw_only=True)
class ShowOptions(options.JsonOption, options.VariantOptions, options.RecipesOption, options.DeviceOption):
    name: str = argument(shell_complete=shell_completion.of(shell_completion.recipes))
    method: str | None = options.method_option()
    as_published: bool = flag("--as-published", help="The container with the vendor document's own options.")


@command(ShowOptions, group=recipes, short_help="One recipe: its job on this machine, and where its numbers come from.")
def show(request: ShowOptions) -> None:
    """What one recipe's job is on this machine, and everything that the recipe says: value, [source], and what the
    published document said where that was a trap.

    \b
    envcheck recipes show ernie-21b-iluvatar
    envcheck recipes show ernie-300b-npu --method lora
    envcheck recipes show qwen-7b-npu-swift --json
    """
    from envcheck.job.here import collect_facts_here
    from envcheck.job.machine_section import describe_job
    from envcheck.job.request import JobRequest
    from envcheck.job.resolve import resolve
    from envcheck.report import screen
    from installers.recipes import catalogue, recipe_page

    folder, as_json = click.get_current_context().obj
    folder = request.recipes or folder
    known = catalogue.load_all(folder)
    recipe = catalogue.by_name(known, request.name)
    wanted = convert_request(JobRequest, request, recipe=recipe.name, recipes=folder, may_choose=True)
    with screen.hint("asking the machine ..."):
        facts = collect_facts_here(wanted)
        try:
            job = resolve(wanted, known, facts)
        except UsageError:  # no cards here that tell which part of a job of two vendors is meant
            own = recipe.device if request.device == "auto" else request.device
            job = resolve(replace(wanted, device=own), known, facts)
    if request.as_json or as_json:
        click.echo(recipe_page.as_json([recipe], {"job": job.as_json()}))
    else:
        click.echo(recipe_page.as_page(recipe, _width(), describe_job(job)))


def _width() -> int:
    """Of the terminal; wide where there is none."""
    from installers.recipes.recipe_page import WIDTH

    return shutil.get_terminal_size((WIDTH, 24)).columns
