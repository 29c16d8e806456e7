"""envcheck recipes: list the recipes, or show one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import click

from envcheck.cli import options, shell_completion, usage_errors
from envcheck.cli.requests import argument, command, convert_request
from envcheck.core.errors import UsageError
from envcheck.core.messages import _


@click.group(
    cls=usage_errors.SuggestingGroup,
    invoke_without_command=True,
    short_help="List the recipes, or show one with its sources.",
)
@options.recipes_option
@options.json_option
@click.pass_context
def recipes(ctx: click.Context, recipes_folder: Path | None, as_json: bool) -> None:
    """List the recipes; `show NAME` prints one with the source of each value.

    \b
    envcheck recipes
    envcheck recipes show ernie-300b-npu
    envcheck recipes show tiny-cpu --json
    envcheck recipes --recipes ./mine
    """
    ctx.obj = (recipes_folder, as_json)
    if ctx.invoked_subcommand is None:
        from installers.recipes import catalogue, display

        known = catalogue.load_all(recipes_folder)
        click.echo(display.render_json(known) if as_json else display.render_table(known, _get_terminal_width()))


@dataclass(frozen=True, kw_only=True)
class ShowOptions(options.JsonOption, options.VariantOptions, options.RecipesOption, options.DeviceOption):
    name: str = argument(metavar="NAME", shell_complete=shell_completion.complete_from(shell_completion.list_recipes))
    method: str | None = options.method_option()
    as_published: bool = options.as_published_flag()


@command(ShowOptions, group=recipes, short_help="Show a recipe with the source of each value.")
def show(request: ShowOptions) -> None:
    """Show a recipe as resolved for this machine: each value, its source, and known mistakes in the source.

    \b
    envcheck recipes show ernie-21b-iluvatar
    envcheck recipes show ernie-300b-npu --method lora
    envcheck recipes show qwen-7b-npu-swift --json
    """
    from envcheck.job.local_facts import collect_facts_here
    from envcheck.job.machine_section import describe_job
    from envcheck.job.request import JobRequest
    from envcheck.job.resolve import resolve
    from envcheck.report import screen
    from installers.recipes import catalogue, display

    folder, as_json = click.get_current_context().obj
    folder = request.recipes or folder
    known = catalogue.load_all(folder)
    recipe = catalogue.find_recipe(known, request.name)
    wanted = convert_request(JobRequest, request, recipe=recipe.name, recipes=folder, may_choose=True)
    with screen.show_hint(_("collecting facts from this machine ...")):
        facts = collect_facts_here(wanted)
        try:
            job = resolve(wanted, known, facts)
        except UsageError:  # no devices here that determine the part of a mixed-vendor job
            own = recipe.device if request.device == "auto" else request.device
            job = resolve(replace(wanted, device=own), known, facts)
    if request.as_json or as_json:
        click.echo(display.render_json([recipe], {"job": job.as_json()}))
    else:
        click.echo(display.render_page(recipe, _get_terminal_width(), describe_job(job)))


def _get_terminal_width() -> int:
    """The width of the terminal; wide without one."""
    from installers.recipes.display import WIDTH

    return shutil.get_terminal_size((WIDTH, 24)).columns
