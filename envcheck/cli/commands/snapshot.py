"""envcheck snapshot: everything that doctor reads, in one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envcheck.cli import options
from envcheck.cli.documents import print_document
from envcheck.cli.requests import command, option
from envcheck.core import language
from envcheck.core.errors import FIT, UNFIT, UsageError, outcome
from envcheck.core.language import say

if TYPE_CHECKING:
    from envcheck.core.model import Finding
    from envcheck.fleet.output import HostOutput


@dataclass(frozen=True, kw_only=True)
class SnapshotOptions(options.FleetOptions, options.JsonOption, options.DeviceOption):
    output: str = option(
        "-o", "--output", required=True, type=click.Path(), help="The file to write; - is standard output."
    )


@command(SnapshotOptions, short_help="Record what doctor reads, to judge it elsewhere.")
def snapshot(request: SnapshotOptions) -> int:
    """Record all answers of this machine, secrets removed, so that doctor can judge them elsewhere.

    \b
    envcheck snapshot -o machine.json
    envcheck doctor --replay machine.json             there or here: the same findings
    envcheck snapshot --hosts node[01-08] -o fleet    a folder with a file for each machine, over ssh
    """
    if request.is_over_ssh:
        return _record_hosts(request)
    from envcheck.collect import facts, machine
    from envcheck.collect import snapshot as recording
    from envcheck.report import screen

    file = None if request.output == "-" else Path(request.output)
    if file:
        recording.probe_writable(file)
    with screen.hint("asking the machine ..."):
        answers = facts.ask(machine.here(), request.device)
    text = recording.dump(answers, request.device)
    if file is None:
        click.echo(text, nl=False)
        return FIT
    recording.write(file, text)
    click.echo(language.say(f"{len(answers)} answers in {file}"), err=True)
    if request.as_json:
        print_document({"file": str(file), "answers": len(answers)})
    return FIT


def _record_hosts(request: SnapshotOptions) -> int:
    """A file for each host that answered; a sentence for each that did not, and exit code 1 then."""
    from envcheck.cli.commands import fleet
    from envcheck.collect import snapshot as recording
    from envcheck.core.model import Status
    from envcheck.fleet import connectivity
    from envcheck.report import safe

    folder = Path(request.output)
    if request.output == "-" or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{request.output} is no folder, and each host has a file", "name a folder with -o")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as err:
        raise UsageError(f"cannot make {folder}: {err.strerror}", "choose another folder with -o") from None

    def written(said: HostOutput) -> tuple[str, Finding]:
        found = connectivity.reached(said)
        if said.answers is not None:
            recording.write(folder / f"{said.host}.json", recording.dump(said.answers, request.device))
        return said.host, found

    told = fleet.each_asked(request, written, ())
    bad = [(host, found) for host, found in told if found.status in (Status.FAIL, Status.UNKNOWN)]
    for host, found in bad:
        said = ("envcheck", host, say(found.seen), *found.evidence[:1])  # ssh's word, else what it printed
        click.echo(safe(say(": ").join(said)), err=True)
        if found.remedy:
            next_step = f"{say('next: ')}{say(found.remedy.words)}"
            click.echo("\n    $ ".join((f"  {next_step}", *found.remedy.commands)), err=True)
    counted = say("{} of {} hosts in {}" if len(told) != 1 else "{} of {} host in {}")
    click.echo(counted.format(len(told) - len(bad), len(told), folder), err=True)
    code = UNFIT if bad else FIT
    if request.as_json:
        why = "; ".join(f"{host}: {found.seen}" for host, found in bad[:1])
        hosts = {host: {"status": found.status.name, "seen": found.seen} for host, found in told}
        print_document({"folder": str(folder), "hosts": hosts, **outcome(code, why)})
    return code
