"""envcheck simulate: run a command against a simulated machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import click

from envcheck.cli import options, shell_completion
from envcheck.cli.json_document import print_document
from envcheck.cli.requests import argument, command, flag, option
from envcheck.core.errors import UsageError
from envcheck.core.messages import _

if TYPE_CHECKING:
    from installers.recipes.recipe import Recipe

FOLDER = click.Path(path_type=Path)


@dataclass(frozen=True, kw_only=True)
class MachinesOption(options.JsonOption):
    machines: Path | None = option(
        "--machines", type=FOLDER, metavar="DIR", help="Folder with your own machines; they override ours."
    )


@dataclass(frozen=True, kw_only=True)
class ListMachinesOptions(MachinesOption):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("listing",)

    listing: bool = flag("--list", help="List everything that this command knows and exit.")


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(MachinesOption):
    machine: str | None = argument(
        required=False,
        metavar="[MACHINE]",
        shell_complete=shell_completion.complete_from(shell_completion.list_machines),
    )
    faults: tuple[str, ...] = option(
        "--fault", multiple=True, metavar="NAME[=VALUE]",
        shell_complete=shell_completion.complete_from(shell_completion.faults),
        help="Fault to simulate (repeatable).",
    )  # fmt: skip
    provisioned: tuple[str, ...] = option(
        "--provisioned", multiple=True, metavar="RECIPE",
        shell_complete=shell_completion.complete_from(shell_completion.list_recipes),
        help="Recipe to simulate as installed with its driver.",
    )  # fmt: skip
    keep: Path | None = option("--keep", type=FOLDER, metavar="DIR", help="Keep the folder of simulated tools here.")
    command: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND ...]")


@command(ListMachinesOptions, SimulateOptions, short_help="Run a command against a simulated machine.")
def simulate(request: ListMachinesOptions | SimulateOptions) -> int:
    """Run COMMAND against a simulated MACHINE: vendor tools, lspci, docker and system files answer as on that machine.

    \b
    envcheck simulate --list
    envcheck simulate atlas-800t-a2 -- envcheck doctor
    envcheck simulate bi-v150x8 --fault card-lost=3 --fault hot=101 -- ixsmi
    envcheck simulate p800x8 --provisioned ernie-21b-xpu -- envcheck train --recipe ernie-21b-xpu --method lora --gates
    envcheck simulate h200x8 --keep ./h200    create the folder of tools only
    """
    from envcheck.simulate import faults as known
    from envcheck.simulate import listing as lists
    from envcheck.simulate import machine_file as described
    from envcheck.simulate import simulated_run
    from envcheck.simulate.driver_upgrade import upgrade_driver
    from installers.recipes.recipe import list_driver_minimums

    if isinstance(request, ListMachinesOptions):
        click.echo(lists.as_json(request.machines) if request.as_json else lists.as_text(request.machines))
        return 0
    words = request.command
    if request.as_json and words:
        raise UsageError(
            _("--json requires --list or --keep: standard output belongs to the command"),
            _("pass --json to the command"),
        )
    if request.machine is None:
        raise UsageError(_("no machine specified"), _("list the machines with envcheck simulate --list"))
    machine = described.load_machine(request.machine, request.machines)
    if not words and request.keep is None:
        raise UsageError(
            _("no command specified"), _("envcheck simulate {machine} -- envcheck doctor", machine=request.machine)
        )
    recipes = _find_recipes(request.provisioned)
    minimums = [minimum for recipe in recipes for minimum in list_driver_minimums(recipe, machine.vendor)]
    upgraded = upgrade_driver(machine, minimums)
    ready = known.apply_faults(upgraded, [known.parse_fault(text) for text in request.faults])
    with simulated_run.write_machine_folder(ready, request.keep) as folder:
        simulated_run.note_recipes(folder, [recipe.name for recipe in recipes])
        if words:
            return simulated_run.run_command(words, simulated_run.make_environment(folder))
        print_document({"folder": str(folder)}) if request.as_json else click.echo(lists.how_to_use(folder))
        return 0


def _find_recipes(names: tuple[str, ...]) -> list[Recipe]:
    """Return the recipes; UsageError for an unknown one."""
    from installers.recipes import catalogue

    known = catalogue.load_all(None) if names else ()
    return [catalogue.find_recipe(known, name) for name in names]
