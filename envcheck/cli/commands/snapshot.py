"""envcheck snapshot: record everything that doctor reads, in one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envcheck.cli import options
from envcheck.cli.json_document import print_document
from envcheck.cli.requests import command, option
from envcheck.core import language
from envcheck.core.errors import CHECK_FAILED, SUCCESS, UsageError, describe_os_error, outcome_fields
from envcheck.core.language import translate
from envcheck.core.messages import _, ngettext

if TYPE_CHECKING:
    from envcheck.core.model import Finding
    from envcheck.fleet.output import HostOutput


@dataclass(frozen=True, kw_only=True)
class SnapshotOptions(options.FleetOptions, options.JsonOption, options.DeviceOption):
    output: Path | None = options.output_option(
        excludes=options.OVER_SSH, hint=_("specify a directory with --output-dir")
    )
    output_dir: Path | None = option(
        "--output-dir", type=click.Path(path_type=Path), metavar="DIR",
        help="Folder to write, with one file per host.", needs=options.OVER_SSH,
    )  # fmt: skip


@command(SnapshotOptions, short_help="Record this machine, to check it elsewhere.")
def snapshot(request: SnapshotOptions) -> int:
    """Record everything that `envcheck doctor` reads on this machine, without secrets.

    -o - writes to standard output.

    \b
    envcheck snapshot -o machine.json
    envcheck doctor --replay machine.json    check the recording, here or elsewhere
    envcheck snapshot --hosts node[01-08] --output-dir fleet
    """
    if request.is_over_ssh:
        return _record_hosts(request)
    from envcheck.collect import answer_sources, facts
    from envcheck.collect import snapshot as recording
    from envcheck.core import local_files
    from envcheck.report import screen

    if request.output is None:
        raise UsageError(_("snapshot needs --output"), _("for example: envcheck snapshot -o machine.json"))
    file = None if request.output == Path("-") else request.output
    if file:
        local_files.check_writable(file)
    with screen.show_hint(_("collecting facts from this machine ...")):
        answers = facts.ask_machine(answer_sources.local_machine(), request.device)
    text = recording.render_snapshot(answers, request.device)
    if file is None:
        click.echo(text, nl=False)
        return SUCCESS
    recording.write_snapshot(file, text)
    click.echo(
        language.translate(
            _("{answers_count} command results recorded in {file}", answers_count=len(answers), file=file)
        ),
        err=True,
    )
    if request.as_json:
        print_document({"file": str(file), "answers": len(answers)})
    return SUCCESS


def _record_hosts(request: SnapshotOptions) -> int:
    """Write a file for each host that responds; report the others and return exit code 1."""
    from envcheck.cli.machines import fleet
    from envcheck.collect import snapshot as recording
    from envcheck.core.model import Status
    from envcheck.fleet import connectivity
    from envcheck.report import safe

    folder = request.output_dir
    if folder is None:
        raise UsageError(
            _("snapshot --hosts needs --output-dir"),
            _("for example: envcheck snapshot --hosts node[01-08] --output-dir fleet"),
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            _("--output-dir {folder} is not a folder", folder=folder), _("specify another directory with --output-dir")
        )
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as err:
        raise UsageError(
            _("cannot create {folder}: {strerror}", folder=folder, strerror=describe_os_error(err)),
            _("specify another directory with --output-dir"),
        ) from None

    def written(said: HostOutput) -> tuple[str, Finding]:
        found = connectivity.judge_answer(said)
        if said.answers is not None:
            recording.write_snapshot(
                folder / f"{said.host}.json", recording.render_snapshot(said.answers, request.device)
            )
        return said.host, found

    told = fleet.ask_each_host(request, written, ())
    bad = [(host, found) for host, found in told if found.status in (Status.FAIL, Status.UNKNOWN)]
    for host, found in bad:
        said = ("envcheck", host, translate(found.seen), *found.evidence[:1])  # the error of ssh, otherwise its output
        click.echo(safe(translate(": ").join(said)), err=True)
        if found.remedy:
            next_step = translate(_("next: {next_step}", next_step=found.remedy.words))
            click.echo("\n    $ ".join((f"  {next_step}", *found.remedy.commands)), err=True)
    counted = ngettext(
        "{written} of {count} host in {folder}",
        "{written} of {count} hosts in {folder}",
        len(told),
        written=len(told) - len(bad),
        folder=folder,
    )
    click.echo(translate(counted), err=True)
    code = CHECK_FAILED if bad else SUCCESS
    if request.as_json:
        why = "; ".join(f"{host}: {found.seen}" for host, found in bad[:1])
        hosts = {host: {"status": found.status.name, "seen": found.seen} for host, found in told}
        print_document({"folder": str(folder), "hosts": hosts, **outcome_fields(code, why)})
    return code
