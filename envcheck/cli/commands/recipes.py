"""envcheck recipes: list the recipes, or show one."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envcheck.cli import options, shell_completion, usage_errors
from envcheck.cli.job_argument import JobCommand, job_argument, read_own_job
from envcheck.cli.json_document import print_document
from envcheck.cli.requests import argument, command, convert_request, flag
from envcheck.core.errors import UsageError, describe_os_error
from envcheck.core.language import translate
from envcheck.core.messages import _, join
from envcheck.core.secrets import list_secret_words

if TYPE_CHECKING:
    from installers.recipes.recipe import Recipe


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
    envcheck recipes create my.yaml -o mine/my.toml
    """
    ctx.obj = recipes_folder
    if ctx.invoked_subcommand is None:
        from installers.recipes import catalogue, display

        known = catalogue.load_all(recipes_folder)
        click.echo(display.render_json(known) if as_json else display.render_table(known, _get_terminal_width()))


@dataclass(frozen=True, kw_only=True)
class ShowOptions(options.JsonOption, options.VariantOptions, options.RecipesOption, options.DeviceOption):
    name: str = argument(metavar="NAME", shell_complete=shell_completion.complete_from(shell_completion.list_recipes))
    method: str | None = options.method_option()
    as_published: bool = options.as_published_flag()
    as_toml: bool = flag(
        "--toml",
        excludes=("as_json", "method", "as_published", "variant", "node_role", "device"),
        help="Print the recipe's file, to copy and change it.",
    )


@command(ShowOptions, group=recipes, short_help="Show a recipe with the source of each value.")
def show(request: ShowOptions) -> None:
    """Show a recipe as resolved for this machine: each value, its source, and known mistakes in the source.

    With --method, values of other methods are left out.  A terminal gets a pager ($PAGER) if the page is longer.

    \b
    envcheck recipes show ernie-21b-iluvatar
    envcheck recipes show ernie-300b-npu --method lora
    envcheck recipes show qwen-7b-npu-swift --json
    envcheck recipes show tiny-cpu --toml > mine/my.toml
    """
    from envcheck.job.local_facts import collect_facts_here
    from envcheck.job.machine_section import describe_job
    from envcheck.job.request import JobRequest
    from envcheck.job.resolve import resolve
    from envcheck.report import screen
    from installers.recipes import catalogue, display, loader

    folder = request.recipes or click.get_current_context().obj
    known = catalogue.load_all(folder)
    recipe = catalogue.find_recipe(known, request.name)
    if request.as_toml:
        click.echo(loader.read_recipe_text(Path(recipe.file)), nl=False)
        return
    _refuse_other_job(recipe, request)
    wanted = convert_request(JobRequest, request, recipe=recipe.name, recipes=folder, may_choose=True)
    with screen.show_hint(_("collecting facts from this machine ...")):
        facts = collect_facts_here(wanted)
        try:
            job = resolve(wanted, known, facts)
        except UsageError:  # no devices here that determine the part of a mixed-vendor job
            own = recipe.device if request.device == "auto" else request.device
            job = resolve(replace(wanted, device=own), known, facts)
    shown = display.select_method(recipe, request.method) if request.method else recipe
    if request.as_json:
        click.echo(display.render_json([shown], {"job": job.as_json()}))
    else:
        _print_page(display.render_page(shown, _get_terminal_width(), describe_job(job)))


def _refuse_other_job(recipe: Recipe, request: ShowOptions) -> None:
    """Raise UsageError, with the options on the command line, if the recipe has no such job."""
    from installers.recipes import catalogue

    shape = catalogue.JobShape(request.variant, request.node_role)
    try:
        catalogue.list_possible([recipe], None, request.method, request.device, None, shape)
    except UsageError as err:
        names = [name for name in ("method", "variant", "node_role", "device") if name in request.given]
        typed = " ".join(f"--{name.replace('_', '-')} {str(getattr(request, name))[:80]}" for name in names)
        raise UsageError(
            _("recipe {name} has no job for {options}", name=recipe.name, options=typed), err.next_step
        ) from None


def _print_page(page: str) -> None:
    """Print the page, on a terminal with a pager if it is longer than the terminal is high."""
    if sys.stdout.isatty() and page.count("\n") + 2 > shutil.get_terminal_size().lines:
        click.echo_via_pager(page + "\n")
    else:
        click.echo(page)


@dataclass(frozen=True, kw_only=True)
class CreateOptions(options.JsonOption, options.DeviceOption):
    output: Path | None = options.output_option()
    words: tuple[str, ...] = job_argument(metavar="FILE | -- COMMAND")


@command(CreateOptions, group=recipes, cls=JobCommand, short_help="Write a recipe for your own job.")
def create(request: CreateOptions) -> None:
    """Write a recipe for your own job: a configuration, a script, or a command after --.

    The recipe keeps what was read of the job, so that `plan` gives the same answer for it.  Use it with --recipes and
    the folder of the file, also on other hosts.  Without -o it is printed.

    \b
    envcheck recipes create my.yaml -o recipes/my.toml
    envcheck recipes create run.sh
    envcheck train --recipe my --recipes recipes
    """
    from envcheck.job.local_facts import collect_facts_here
    from envcheck.job.own_recipe_builder import build_own_recipe
    from envcheck.job.recipe_text import make_recipe_name, render_recipe
    from envcheck.job.request import JobRequest

    own = read_own_job(request.words, request.given)
    if own is None:
        raise UsageError(_("no job specified"), _("for example: envcheck recipes create my.yaml -o recipes/my.toml"))
    if own.no_training:
        raise UsageError(own.no_training, _("specify the file or the command that starts the training"))
    if invalid := own.list_invalid():
        raise UsageError(join("; ", [value.where for value in invalid]), _("correct these values in the job"))
    if secrets := list_secret_words((*own.argv, *own.arguments)):
        raise UsageError(
            _(
                "the job has a secret in {names}, which a recipe file would show to its readers",
                names=join(", ", secrets),
            ),
            _("remove it from the job, and set it in an environment variable that the program reads"),
        )
    recipe = build_own_recipe(own, collect_facts_here(JobRequest(device=request.device)), request.device)
    if request.output is not None:
        _check_file(request.output)
    name = make_recipe_name(request.output.stem if request.output else own.name)
    text = render_recipe(recipe, name)
    if request.output is not None:
        _write_recipe(request.output, text)
    if request.as_json:
        written = None if request.output is None else str(request.output)
        print_document({"name": name, "file": written, "text": text})
        return
    if request.output is None:
        click.echo(text, nl=False)
        return
    command = shlex.join(("envcheck", "train", "--recipe", name, "--recipes", str(request.output.parent)))
    click.echo(translate(_("wrote {path}: {command}", path=request.output, command=command)))


def _check_file(path: Path) -> None:
    """Raise UsageError for a file that would not be found in its folder, or makes the recipes in it invalid."""
    from envcheck.job.recipe_text import make_recipe_name
    from installers.recipes.catalogue import SUFFIX

    if path.suffix != SUFFIX:
        raise UsageError(
            _("{path}: the name of a recipe file ends in {suffix}", path=path, suffix=SUFFIX),
            _("use -o {path}", path=shlex.quote(f"{path}{SUFFIX}")),
        )
    name = make_recipe_name(path.stem)
    same = (each for each in path.parent.glob(f"*{SUFFIX}") if each != path and make_recipe_name(each.stem) == name)
    if (other := next(same, None)) is not None:
        raise UsageError(
            _("{path}: the recipe would have the name of {other}: {name}", path=path, other=other, name=name),
            _("specify another file"),
        )


def _write_recipe(path: Path, text: str) -> None:
    """Write and check a new recipe; an existing file is not replaced."""
    from envcheck.core import local_files
    from installers.recipes.loader import load_recipe

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise UsageError(
            _("cannot write {path}: {reason}", path=path, reason=describe_os_error(err)),
            _("specify a writable file"),
        ) from None
    local_files.write_file(path, text, is_new=True)
    load_recipe(path)


def _get_terminal_width() -> int:
    """The width of the terminal; wide without one."""
    from installers.recipes.display import WIDTH

    return shutil.get_terminal_size((WIDTH, 24)).columns
