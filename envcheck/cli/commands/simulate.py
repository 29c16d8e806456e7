"""envcheck simulate: run a command on a machine that is not there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from envcheck.cli import options, shell_completion
from envcheck.cli.documents import print_document
from envcheck.cli.requests import argument, command, flag, option
from envcheck.core.errors import UsageError

FOLDER = click.Path(path_type=Path)


@dataclass(frozen=True, kw_only=True)
class MachinesOption(options.JsonOption):
    machines: Path | None = option(
        "--machines", type=FOLDER, help="A folder of your own NAME.toml; they win over ours."
    )


@dataclass(frozen=True, kw_only=True)
class ListMachinesOptions(MachinesOption):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("listing",)

    listing: bool = flag("--list", help="The machines and the faults that there are.")


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(MachinesOption):
    machine: str | None = argument(required=False, shell_complete=shell_completion.of(shell_completion.machines))
    faults: tuple[str, ...] = option(
        "--fault", multiple=True, metavar="NAME[=VALUE]", help="What is wrong there; may be repeated."
    )
    keep: Path | None = option("--keep", type=FOLDER, help="Leave the folder of tools here, to use it by hand.")
    command: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED)


@command(ListMachinesOptions, SimulateOptions, short_help="Run a command on a machine that is not there.")
def simulate(request: ListMachinesOptions | SimulateOptions) -> int:
    """Run COMMAND on MACHINE: npu-smi, ixsmi, nvidia-smi, lspci, docker and the files beside them answer as there.

    \b
    envcheck simulate --list
    envcheck simulate atlas-800t-a2 -- envcheck doctor
    envcheck simulate bi-v150x8 --fault card-lost=3 --fault hot=101 -- ixsmi
    envcheck simulate h200x8 --keep ./h200              the folder alone, for tests of your own
    """
    from envcheck.simulate import faults as known
    from envcheck.simulate import listing as lists
    from envcheck.simulate import machine_file as described
    from envcheck.simulate import session

    if isinstance(request, ListMachinesOptions):
        click.echo(lists.as_json(request.machines) if request.as_json else lists.as_text(request.machines))
        return 0
    words = request.command
    if request.as_json and words:
        raise UsageError("--json is for --list and --keep; standard output is the command's", "give it to the command")
    if request.machine is None:
        raise UsageError("which machine?", "envcheck simulate --list names them")
    if not words and request.keep is None:
        raise UsageError("no command to run", f"envcheck simulate {request.machine} -- envcheck doctor")
    machine = described.load(request.machine, request.machines)
    ready = known.apply(machine, [known.asked(text) for text in request.faults])
    with session.written(ready, request.keep) as folder:
        if words:
            return session.run(words, session.environment(folder))
        print_document({"folder": str(folder)}) if request.as_json else click.echo(lists.how_to_use(folder))
        return 0
