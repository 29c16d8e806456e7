"""Options that several commands share, each defined once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from envcheck.cli import shell_completion
from envcheck.vendors.names import device_names, resolve_device

F = TypeVar("F", bound=Callable[..., Any])


def _device(ctx: click.Context, param: click.Parameter, value: str) -> str:
    return resolve_device(value)


def checks(name: str, help: str) -> Callable[[F], F]:
    """An option that names checks or areas, and may be given again."""
    return click.option(
        name, multiple=True, metavar="NAME", shell_complete=shell_completion.of(shell_completion.checks), help=help
    )


def fleet(command: F) -> F:
    """Which hosts to look at over ssh, and how many at once."""
    for option in reversed(_FLEET):
        command = option(command)
    return command


def hosts(command: F) -> F:
    """Which hosts, for a command that has deadlines of its own."""
    for option in (_FLEET[-1], *reversed(_FLEET[:4])):
        command = option(command)
    return command


_FLEET = (
    click.option(
        "--hosts", multiple=True, metavar="NODES", help="Other machines, over ssh: node[01-08], @group, @slurm:npu."
    ),
    click.option("--hostfile", type=click.Path(), help="A file with such machines, one or a set a line."),
    click.option("--exclude", multiple=True, metavar="NODES", help="Not these of them; may be given again."),
    click.option(
        "--fanout", type=click.IntRange(1, 1024), default=64, show_default=True, help="So many machines at once."
    ),
    click.option(
        "--deadline", type=click.FloatRange(1, 86400), default=120, show_default=True, help="Seconds for each machine."
    ),
    click.option("--forget", is_flag=True, help="Leave nothing of envcheck in ~/.cache on those machines."),
)
device = click.option(
    "--device",
    callback=_device,
    default="auto",
    show_default=True,
    shell_complete=shell_completion.of(shell_completion.devices),
    help=" | ".join(device_names()),
)
model = click.option(
    "--model",
    shell_complete=shell_completion.of(shell_completion.models),
    help="A model, full or short name: tiny, 21b, 300b, qwen-7b.",
)
method = click.option(
    "--method",
    shell_complete=shell_completion.of(shell_completion.methods),
    help="lora, sft, ... as the recipe has them.",
)
framework = click.option("--framework", help="erniekit, llamafactory, swift, envcheck: when a model has several.")
recipe_name = click.option(
    "--recipe",
    "recipe_name",
    metavar="NAME",
    shell_complete=shell_completion.of(shell_completion.recipes),
    help="A recipe by its name; `envcheck recipes` lists them.",
)
recipes_folder = click.option(
    "--recipes", "recipes_folder", type=click.Path(), help="A folder of your own recipes; they win over ours."
)
variant = click.option(
    "--variant", metavar="NAME", help="One of a method's variants: ddp, zero2, zero3, full, 10x16, base."
)
node_role = click.option(
    "--node-role", metavar="ROLE", help="This node's part of a job over mixed cards: nvidia | iluvatar."
)
json_output = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, and stop.")
verbose = click.option("--verbose", "-v", is_flag=True, help="Show the plan whole, however long its lists are.")
yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
