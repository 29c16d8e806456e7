"""envcheck recipes: what set-ups there are, and what one of them says."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from envcheck.cli import options, shell_completion, usage_errors


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


@recipes.command(short_help="One recipe, with where its numbers come from.")
@click.argument("name", shell_complete=shell_completion.of(shell_completion.recipes))
@options.recipes_folder
@options.json_output
@click.pass_obj
def show(outer: tuple[str | None, bool], name: str, recipes_folder: str | None, as_json: bool) -> None:
    """Everything that one recipe says: value, [source], and what the published document said where that was a trap.

    \b
    envcheck recipes show ernie-21b-iluvatar
    envcheck recipes show qwen-7b-npu-swift --json
    """
    from installers.recipes import catalogue, recipe_page

    recipe = catalogue.by_name(catalogue.load_all(_folder(recipes_folder or outer[0])), name)
    click.echo(recipe_page.as_json([recipe]) if as_json or outer[1] else recipe_page.as_page(recipe, _width()))


def _width() -> int:
    """Of the terminal; wide where there is none."""
    from installers.recipes.recipe_page import WIDTH

    return shutil.get_terminal_size((WIDTH, 24)).columns


def _folder(text: str | None) -> Path | None:
    return None if text is None else Path(text)
