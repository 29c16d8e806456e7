"""envcheck recipes: what set-ups there are, and what one of them says."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from envcheck.cli import options, shell_completion, usage_errors
from envcheck.core.errors import UsageError


@click.group(
    cls=usage_errors.Group,
    invoke_without_command=True,
    short_help="The set-ups there are, each number with its source.",
)
@options.recipes_folder
@options.json_output
@click.pass_context
def recipes(ctx: click.Context, recipes_folder: str | None, as_json: bool) -> None:
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

        known = catalogue.load_all(_folder(recipes_folder))
        click.echo(recipe_page.as_json(known) if as_json else recipe_page.as_table(known, _width()))


@recipes.command(short_help="One recipe: its job on this machine, and where its numbers come from.")
@click.argument("name", shell_complete=shell_completion.of(shell_completion.recipes))
@options.method
@options.variant
@options.node_role
@options.device
@click.option("--as-published", is_flag=True, help="The container with the vendor document's own options.")
@options.recipes_folder
@options.json_output
@click.pass_obj
def show(outer: tuple[str | None, bool], /, **asked: Any) -> None:
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

    folder = _folder(asked["recipes_folder"] or outer[0])
    known = catalogue.load_all(folder)
    recipe = catalogue.by_name(known, asked["name"])
    said = {name: asked[name] for name in ("method", "variant", "node_role", "device", "as_published")}
    request = JobRequest(recipe=recipe.name, recipes=folder, may_choose=True, **said)
    with screen.hint("asking the machine ..."):
        facts = collect_facts_here(request)
        try:
            job = resolve(request, known, facts)
        except UsageError:  # no cards here that tell which part of a job of two vendors is meant
            own = recipe.device if asked["device"] == "auto" else asked["device"]
            job = resolve(replace(request, device=own), known, facts)
    if asked["as_json"] or outer[1]:
        click.echo(recipe_page.as_json([recipe], {"job": job.as_json()}))
    else:
        click.echo(recipe_page.as_page(recipe, _width(), describe_job(job)))


def _width() -> int:
    """Of the terminal; wide where there is none."""
    from installers.recipes.recipe_page import WIDTH

    return shutil.get_terminal_size((WIDTH, 24)).columns


def _folder(text: str | None) -> Path | None:
    return None if text is None else Path(text)
