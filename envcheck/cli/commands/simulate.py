"""envcheck simulate: run a command on a machine that is not there."""

from __future__ import annotations

from pathlib import Path

import click

from envcheck.cli import options, shell_completion
from envcheck.cli.documents import print_document


@click.command(short_help="Run a command on a machine that is not there.")
@click.argument("machine", required=False, shell_complete=shell_completion.of(shell_completion.machines))
@click.option("--fault", "faults", multiple=True, metavar="NAME[=VALUE]", help="What is wrong there; may be repeated.")
@click.option("--machines", type=click.Path(path_type=Path), help="A folder of your own NAME.toml; they win over ours.")
@click.option("--keep", type=click.Path(path_type=Path), help="Leave the folder of tools here, to use it by hand.")
@click.option("--list", "listing", is_flag=True, help="The machines and the faults that there are.")
@options.json_output
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def simulate(
    machine: str | None,
    faults: tuple[str, ...],
    machines: Path | None,
    keep: Path | None,
    listing: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND on MACHINE: npu-smi, ixsmi, nvidia-smi, lspci, docker and the files beside them answer as there.

    \b
    envcheck simulate --list
    envcheck simulate atlas-800t-a2 -- envcheck doctor
    envcheck simulate bi-v150x8 --fault card-lost=3 --fault hot=101 -- ixsmi
    envcheck simulate h200x8 --keep ./h200              the folder alone, for tests of your own
    """
    from envcheck.core.errors import UsageError
    from envcheck.simulate import faults as known
    from envcheck.simulate import listing as lists
    from envcheck.simulate import machine_file as described
    from envcheck.simulate import session

    if listing:
        click.echo(lists.as_json(machines) if as_json else lists.as_text(machines))
        return 0
    if as_json and command:
        raise UsageError("--json is for --list and --keep; standard output is the command's", "give it to the command")
    if machine is None:
        raise UsageError("which machine?", "envcheck simulate --list names them")
    if not command and keep is None:
        raise UsageError("no command to run", f"envcheck simulate {machine} -- envcheck doctor")
    ready = known.apply(described.load(machine, machines), [known.asked(text) for text in faults])
    with session.written(ready, keep) as folder:
        env = session.environment(folder)
        if command:
            return session.run(command, env)
        print_document({"folder": str(folder)}) if as_json else click.echo(lists.how_to_use(folder))
        return 0
