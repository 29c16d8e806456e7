"""Options that several commands share, each defined once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from envcheck.cli import shell_completion
from envcheck.cli.requests import Request, flag, option
from envcheck.core import paths
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
    for each in reversed(_FLEET):
        command = each(command)
    return command


def hosts(command: F) -> F:
    """Which hosts, for a command that has deadlines of its own."""
    for each in (_FLEET[-1], *reversed(_FLEET[:4])):
        command = each(command)
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


def read_path(_ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """A click callback: the path that a person wrote, its ~ filled in."""
    return None if value is None else paths.given(value, param.opts[0])


def path_option(*words: str, **more: Any) -> Any:
    """A field that is an option with a path."""
    return option(*words, callback=read_path, **more)


def checks_option(word: str, **more: Any) -> Any:
    """A field that is an option with names of checks or areas, which may be given again."""
    complete = shell_completion.of(shell_completion.checks)
    return option(word, multiple=True, metavar="NAME", shell_complete=complete, **more)


JOB, ASKING, JSON, HOSTS = -1, 1, 2, 3  # where these stand in the help; a command's own options at 0
OVER_SSH = ("hosts", "hostfile")


@dataclass(frozen=True, kw_only=True)
class DeviceOption(Request):
    device: str = option(
        "--device",
        callback=_device,
        default="auto",
        show_default=True,
        shell_complete=shell_completion.of(shell_completion.devices),
        help=" | ".join(device_names()),
        order=JOB,
    )


@dataclass(frozen=True, kw_only=True)
class JobOptions(DeviceOption):
    """A job of the recipes."""

    model: str | None = option(
        "--model",
        shell_complete=shell_completion.of(shell_completion.models),
        help="A model, full or short name: tiny, 21b, 300b, qwen-7b.",
        order=JOB,
    )
    method: str | None = option(
        "--method",
        shell_complete=shell_completion.of(shell_completion.methods),
        help="lora, sft, ... as the recipe has them.",
        order=JOB,
    )
    framework: str | None = option(
        "--framework", help="erniekit, llamafactory, swift, envcheck: when a model has several.", order=JOB
    )
    recipes: Path | None = path_option(
        "--recipes", metavar="DIR", help="A folder of your own recipes; they win over ours.", order=JOB
    )


@dataclass(frozen=True, kw_only=True)
class RecipeOption(Request):
    recipe: str | None = option(
        "--recipe",
        metavar="NAME",
        shell_complete=shell_completion.of(shell_completion.recipes),
        help="A recipe by its name; `envcheck recipes` lists them.",
        order=JOB,
    )


@dataclass(frozen=True, kw_only=True)
class VariantOptions(Request):
    variant: str | None = option(
        "--variant", metavar="NAME", help="One of a method's variants: ddp, zero2, zero3, full, 10x16, base.", order=JOB
    )
    node_role: str | None = option(
        "--node-role", metavar="ROLE", help="This node's part of a job over mixed cards: nvidia | iluvatar.", order=JOB
    )


@dataclass(frozen=True, kw_only=True)
class HostsOptions(Request):
    """Which hosts, for a command that has deadlines of its own."""

    hosts: tuple[str, ...] = option(
        "--hosts", multiple=True, metavar="NODES", help="Other machines, over ssh: node[01-08], @group, @slurm:npu.",
        order=HOSTS,
    )  # fmt: skip
    hostfile: str | None = option(
        "--hostfile", type=click.Path(), help="A file with such machines, one or a set a line.", order=HOSTS
    )
    exclude: tuple[str, ...] = option(
        "--exclude", multiple=True, metavar="NODES", help="Not these of them; may be given again.",
        needs=OVER_SSH, order=HOSTS,
    )  # fmt: skip
    fanout: int = option(
        "--fanout", type=click.IntRange(1, 1024), default=64, show_default=True, help="So many machines at once.",
        needs=OVER_SSH, order=HOSTS,
    )  # fmt: skip
    forget: bool = flag(
        "--forget", help="Leave nothing of envcheck in ~/.cache on those machines.", needs=OVER_SSH, order=HOSTS
    )

    @property
    def is_over_ssh(self) -> bool:
        return bool(self.hosts or self.hostfile)


@dataclass(frozen=True, kw_only=True)
class FleetOptions(HostsOptions):
    """Which hosts, how many at once, and how long each may take."""

    deadline: float = option(
        "--deadline", type=click.FloatRange(1, 86400), default=120, show_default=True, help="Seconds for each machine.",
        needs=OVER_SSH, order=HOSTS,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AskingOptions(Request):
    dry_run: bool = flag("--dry-run", help="Show what would be done, and stop.", order=ASKING)
    yes: bool = flag("--yes", "-y", help="Do not ask.", order=ASKING)


@dataclass(frozen=True, kw_only=True)
class JsonOption(Request):
    as_json: bool = flag("--json", help="One JSON document on standard output.", order=JSON)
