"""Options that several commands share, each defined once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from envcheck.cli import shell_completion
from envcheck.cli.requests import Request, flag, option
from envcheck.core import paths
from envcheck.vendors.names import device_names, resolve_device


def _device(ctx: click.Context, param: click.Parameter, value: str) -> str:
    return resolve_device(value)


def read_path(_ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """A click callback: the path that a person wrote, its ~ filled in."""
    return None if value is None else paths.given(value, param.opts[0])


def path_option(*words: str, **more: Any) -> Any:
    """A field that is an option with a path."""
    return option(*words, callback=read_path, **more)


def method_option() -> Any:
    complete = shell_completion.of(shell_completion.methods)
    return option("--method", shell_complete=complete, help="lora, sft, ... as the recipe has them.", order=JOB)


def checks_option(word: str, **more: Any) -> Any:
    """A field that is an option with names of checks or areas, which may be given again."""
    complete = shell_completion.of(shell_completion.checks)
    return option(word, multiple=True, metavar="NAME", shell_complete=complete, **more)


OWN_RECIPES = "A folder of your own recipes; they win over ours."
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
class RecipesOption(Request):
    recipes: Path | None = path_option("--recipes", metavar="DIR", help=OWN_RECIPES, order=JOB)


@dataclass(frozen=True, kw_only=True)
class JobOptions(RecipesOption, DeviceOption):
    """A job of the recipes."""

    model: str | None = option(
        "--model",
        shell_complete=shell_completion.of(shell_completion.models),
        help="A model, full or short name: tiny, 21b, 300b, qwen-7b.",
        order=JOB,
    )
    method: str | None = method_option()
    framework: str | None = option(
        "--framework", help="erniekit, llamafactory, swift, envcheck: when a model has several.", order=JOB
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
class FleetOptions(HostsOptions, DeviceOption):
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
class StartOptions(Request):
    """How a training or a talk is started."""

    settings: tuple[str, ...] = option(
        "--set", multiple=True, metavar="NAME=VALUE", help="An option of the program; several times."
    )
    installed: tuple[str, ...] = option(
        "--installed", multiple=True, metavar="NAME=VERSION", help="An upstream's version where envcheck cannot look."
    )
    into: Path | None = path_option(
        "--into", metavar="VENV", help="The virtual environment to run in, not envcheck's own."
    )
    runs: Path = path_option("--runs", default="runs", metavar="DIR", show_default=True, help="A folder for each run.")
    waive: tuple[str, ...] = option(
        "--waive", multiple=True, metavar="GATE", help="Start although this gate is closed; see --because."
    )
    because: tuple[str, ...] = option(
        "--because", multiple=True, metavar="WHY", help="The reason for a --waive; it goes on the record."
    )
    dry_run: bool = flag("--dry-run", help="Show what would be done, and stop.", order=ASKING)


@dataclass(frozen=True, kw_only=True)
class JsonOption(Request):
    as_json: bool = flag("--json", help="One JSON document on standard output.", order=JSON)


# For groups of commands and for commands of a few words, which have no request.
json_output = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
recipes_folder = click.option("--recipes", "recipes_folder", callback=read_path, metavar="DIR", help=OWN_RECIPES)
