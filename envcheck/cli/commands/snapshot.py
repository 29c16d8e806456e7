"""envcheck snapshot: everything that doctor reads, in one file."""

from __future__ import annotations

from typing import Any

import click

from envcheck.cli import options
from envcheck.core import language
from envcheck.fleet import argv as fleet_words


@click.command(short_help="Record what doctor reads, to judge it elsewhere.")
@options.device
@options.fleet
@click.option("-o", "--output", required=True, type=click.Path(), help="The file to write; - is standard output.")
def snapshot(device: str, output: str, **asked: Any) -> None:
    """Record all answers of this machine, secrets removed, so that doctor can judge them elsewhere.

    \b
    envcheck snapshot -o machine.json
    envcheck doctor --replay machine.json             there or here: the same findings
    envcheck snapshot --hosts node[01-08] -o fleet    a folder with a file for each machine, over ssh
    """
    if fleet_words.chosen(asked):
        from envcheck.cli.commands import fleet

        raise SystemExit(fleet.snapshot({**asked, "device": device, "output": output}))
    from pathlib import Path

    from envcheck.collect import facts, machine
    from envcheck.collect import snapshot as recording
    from envcheck.report import screen

    if output != "-":
        recording.probe_writable(Path(output))
    with screen.hint("asking the machine ..."):
        answers = facts.ask(machine.here(), device)
    text = recording.dump(answers, device)
    if output == "-":
        click.echo(text, nl=False)
    else:
        recording.write(Path(output), text)
        click.echo(language.say(f"{len(answers)} answers in {output}"), err=True)
