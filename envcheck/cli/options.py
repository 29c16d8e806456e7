"""Options that several commands share, each defined once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from envcheck.cli import shell_completion
from envcheck.cli.number_types import Seconds, WholeNumber
from envcheck.cli.option_groups import GroupedOption, OptionGroup
from envcheck.cli.requests import Request, flag, option
from envcheck.core import paths
from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.vendors.names import device_names, resolve_device


def _read_device(ctx: click.Context, param: click.Parameter, value: str) -> str:
    return resolve_device(value)


def read_path(_ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """Return the path with ~ expanded (a click callback)."""
    return None if value is None else paths.parse_path(value, param.opts[0])


def read_environment(_ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """Return the folder of an environment; `current` is the active one, of venv, uv or conda (a click callback)."""
    if value != CURRENT:
        return read_path(_ctx, param, value)
    active = next((os.environ[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if os.environ.get(name)), "")
    if not active:
        raise UsageError(
            _("--into current: no environment is active (VIRTUAL_ENV and CONDA_PREFIX are not set)"),
            _("activate one, or name its folder: --into DIR"),
        )
    return paths.parse_path(active, param.opts[0])


def path_option(*words: str, **more: Any) -> Any:
    """Return a field for an option with a path."""
    return option(*words, type=click.Path(), callback=read_path, **more)


def method_option() -> Any:
    return option(
        "--method", group=OptionGroup.JOB, is_common=True, metavar="NAME",
        shell_complete=shell_completion.complete_from(shell_completion.list_methods),
        help="Method: lora, sft, dpo, ...; to chat: chat, infer.",
    )  # fmt: skip


def config_option(group: OptionGroup, **more: Any) -> Any:
    """Return the field of the settings file: for checks their thresholds and own checks, else the site's sources."""
    return option(
        "--config", group=group, type=click.Path(), metavar="FILE",
        help="Settings file to use instead of envcheck.toml.", **more,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SiteOption(Request):
    """The site's settings."""

    config: str | None = config_option(OptionGroup.MACHINE)


def skip_option() -> Any:
    return option(
        "--skip", group=OptionGroup.CHECKS, is_common=True, multiple=True, metavar="NAME",
        shell_complete=shell_completion.complete_from(shell_completion.list_checks),
        help="Skip this check or area (repeatable).",
    )  # fmt: skip


def replay_option() -> Any:
    return option(
        "--replay", group=OptionGroup.MACHINE, is_common=True, type=click.Path(path_type=Path), metavar="PATH",
        help="Use a recorded snapshot instead of this machine.",
    )  # fmt: skip


def arch_option(**more: Any) -> Any:
    return option(
        "--arch", group=OptionGroup.MACHINE, type=click.Choice(ARCHITECTURES, case_sensitive=False), metavar="ARCH",
        help="Architecture: x86_64 or aarch64.", **more,
    )  # fmt: skip


def output_option(**more: Any) -> Any:
    return option(
        "--output", "-o", group=OptionGroup.OUTPUT, is_common=True, metavar="FILE", help="File to write.",
        type=click.Path(path_type=Path), **more,
    )  # fmt: skip


def as_script_flag(**more: Any) -> Any:
    return flag("--as-script", group=OptionGroup.OUTPUT, is_common=True, help="Print a shell script and exit.", **more)


def as_published_flag(**more: Any) -> Any:
    return flag(
        "--as-published", group=OptionGroup.MACHINE, help="Use the vendor document's own container options.", **more
    )


def undo_flag() -> Any:
    return flag(
        "--undo", group=OptionGroup.MACHINE, is_common=True, help="Undo the changes that this command made earlier."
    )


def strict_flag() -> Any:
    return flag("--strict", group=OptionGroup.CHECKS, is_common=True, help="Exit with code 3 on warnings.")


CURRENT = "current"  # as a folder: ./current
ARCHITECTURES = ("x86_64", "aarch64")
OVER_SSH = ("hosts", "hostfile")


def device_option(
    callback: Callable[[click.Context, click.Parameter, str], str] = _read_device,
    words: Callable[[], Iterable[str]] = shell_completion.list_devices,
) -> Any:
    """Return the field of --device; `callback` reads a value, `words` lists values for the shell's completion."""
    return option(
        "--device", group=OptionGroup.JOB, is_common=True, callback=callback, default="auto", show_default=True,
        shell_complete=shell_completion.complete_from(words), metavar="|".join(device_names()), help="Device type.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DeviceOption(Request):
    device: str = device_option()


@dataclass(frozen=True, kw_only=True)
class RecipesOption(Request):
    recipes: Path | None = path_option(
        "--recipes", group=OptionGroup.JOB, metavar="DIR", help="Folder with your own recipes; they override ours."
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions(DeviceOption):
    """The three options that most users select a job with."""

    model: str | None = option(
        "--model",
        group=OptionGroup.JOB,
        is_common=True,
        metavar="NAME",
        shell_complete=shell_completion.complete_from(shell_completion.list_models),
        help="Model name, full or short: 21b, qwen-7b, tiny.",
    )
    method: str | None = method_option()


@dataclass(frozen=True, kw_only=True)
class JobOptions(RecipesOption, ModelOptions):
    """Options that select a job of a recipe."""

    framework: str | None = option(
        "--framework",
        group=OptionGroup.JOB,
        metavar="NAME",
        help="Framework: erniekit, llamafactory, swift, ...",
    )


@dataclass(frozen=True, kw_only=True)
class RecipeOption(Request):
    recipe: str | None = option(
        "--recipe",
        group=OptionGroup.JOB,
        is_common=True,
        metavar="NAME",
        shell_complete=shell_completion.complete_from(shell_completion.list_recipes),
        help="Recipe; 'envcheck recipes' lists them.",
    )


@dataclass(frozen=True, kw_only=True)
class DevicesOption(Request):
    devices: str | None = option(
        "--devices", group=OptionGroup.JOB, is_common=True, metavar="NUMBERS|auto",
        help="Devices to use: 4,5 or 4-7, or free ones (auto).",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class VariantOption(Request):
    variant: str | None = option(
        "--variant",
        group=OptionGroup.JOB,
        metavar="NAME",
        help="Method variant: zero2, zero3, ddp, full, ...",
    )


@dataclass(frozen=True, kw_only=True)
class VariantOptions(VariantOption):
    node_role: str | None = option(
        "--node-role",
        group=OptionGroup.JOB,
        metavar="ROLE",
        help="Role of this node in a job with mixed devices.",
    )


@dataclass(frozen=True, kw_only=True)
class HostsOptions(Request):
    """Options that select hosts, for a command with its own timeouts."""

    hosts: tuple[str, ...] = option(
        "--hosts", group=OptionGroup.HOSTS, is_common=True, multiple=True, metavar="HOSTS",
        help="SSH hosts: node[01-08], @group, @slurm:npu.",
    )  # fmt: skip
    hostfile: str | None = option(
        "--hostfile", group=OptionGroup.HOSTS, type=click.Path(), metavar="FILE",
        help="File with hosts, one host or set per line.",
    )  # fmt: skip
    exclude: tuple[str, ...] = option(
        "--exclude", group=OptionGroup.HOSTS, multiple=True, metavar="HOSTS", help="Exclude hosts (repeatable).",
        needs=OVER_SSH,
    )  # fmt: skip
    fanout: int = option(
        "--fanout", group=OptionGroup.HOSTS, type=WholeNumber(1, 1024), default=64, show_default=True,
        metavar="COUNT", help="Maximum number of parallel SSH connections.", needs=OVER_SSH,
    )  # fmt: skip
    forget: bool = flag(
        "--forget", group=OptionGroup.HOSTS, help="Remove envcheck from the hosts afterwards.",
        needs=OVER_SSH,
    )  # fmt: skip

    @property
    def is_over_ssh(self) -> bool:
        return bool(self.hosts or self.hostfile)


def host_timeout_option(default_s: float) -> Any:
    """Return the field of the time limit for each host."""
    return option(
        "--host-timeout", group=OptionGroup.HOSTS, type=Seconds(1, 86400), default=default_s, show_default=True,
        metavar="SECONDS", help="Time limit for each host.", needs=OVER_SSH,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FleetOptions(HostsOptions, DeviceOption):
    """Options that select hosts, parallelism and timeouts."""

    host_timeout_s: float = host_timeout_option(120)


@dataclass(frozen=True, kw_only=True)
class DryRunOption(Request):
    dry_run: bool = flag(
        "--dry-run", group=OptionGroup.GENERAL, is_common=True, help="Show what would be done and exit."
    )


@dataclass(frozen=True, kw_only=True)
class YesOption(Request):
    yes: bool = flag("--yes", "-y", group=OptionGroup.GENERAL, is_common=True, help="Do not ask for confirmation.")


@dataclass(frozen=True, kw_only=True)
class ConfirmOptions(YesOption, DryRunOption):
    """Options of a command that changes something."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentOption(Request):
    into: Path | None = option(
        "--into", group=OptionGroup.MACHINE, metavar="DIR|current", type=click.Path(), callback=read_environment,
        help="Environment to use (default: envcheck's own).",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StartOptions(EnvironmentOption, DryRunOption):
    """Options for starting a training or a chat."""

    settings: tuple[str, ...] = option(
        "--set", group=OptionGroup.JOB, is_common=True, multiple=True, metavar="NAME=VALUE",
        help="Set an option of the program (repeatable).",
    )  # fmt: skip
    installed: tuple[str, ...] = option(
        "--installed", group=OptionGroup.MACHINE, multiple=True, metavar="NAME=VERSION",
        help="Override the detected version of a package.",
    )  # fmt: skip
    runs: Path = path_option(
        "--runs", group=OptionGroup.RUN, default="runs", metavar="DIR", show_default=True,
        help="Folder of the runs.",
    )  # fmt: skip
    waive: tuple[str, ...] = option(
        "--waive", group=OptionGroup.PREFLIGHT, multiple=True, metavar="NAME",
        help="Start even if this preflight check fails.",
    )  # fmt: skip
    because: tuple[str, ...] = option(
        "--because", group=OptionGroup.PREFLIGHT, multiple=True, metavar="REASON", is_prose=True,
        help="Reason for --waive; it is recorded.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class JsonOption(Request):
    as_json: bool = flag(
        "--json", group=OptionGroup.OUTPUT, is_common=True, help="Print one JSON document on standard output."
    )


# For groups and short commands without a request type.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
recipes_option = click.option(
    "--recipes", "recipes_folder", cls=GroupedOption, type=click.Path(), callback=read_path, metavar="DIR",
    help="Folder with your own recipes; they override ours.",
)  # fmt: skip
