"""envcheck lint: what a launch script, a document or a configuration will do other than meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from envcheck.cli import options
from envcheck.cli.documents import print_document

if TYPE_CHECKING:
    from envcheck.core.lint.target_machine import TargetMachine
    from envcheck.lint.lint import Result

KINDS = ("bash", "yaml", "json", "dockerfile", "document")


@click.command(short_help="What a launch script or training configuration will do other than meant.")
@click.argument("file", type=click.Path(), required=False, default="")
@options.device
@click.option("--replay", type=click.Path(), help="Judge for the machine of a snapshot instead of this one.")
@click.option("--kind", type=click.Choice(KINDS), help="What the file is, where its name does not say.")
@click.option("--strict", is_flag=True, help="Warnings count: exit code 3.")
@click.option(
    "--fix", "fixes", is_flag=True, help="Write a corrected copy beside it (FILE.fixed.sh), and show what differs."
)
@click.option("--sarif", is_flag=True, help="One SARIF 2.1.0 document on standard output.")
@click.option("--no-shellcheck", is_flag=True, help="Do not ask bash and shellcheck as well.")
@click.option("--list-rules", is_flag=True, help="Name all rules, and stop.")
@options.json_output
def lint(file: str, **asked: Any) -> int:
    """Read a launch script (bash), a document that shows some (Markdown, reStructuredText), a training's YAML, a
    DeepSpeed JSON, a compose file or a Dockerfile, and say line by line what will fail on this machine, or do
    something other than meant.

    Nothing of it is run or changed.  # envcheck: ignore RULE on a line, or above it, waives a rule there.

    Exit code 0: nothing fails. 1: something will. 3: something cannot be told from here, or
    there was nothing to read, or nothing that a known program reads. 2: asked wrongly.

    \b
    envcheck lint run.sh                              for this machine
    envcheck lint README.md --device npu              a document's blocks, for NPUs
    envcheck lint run.sh --replay snapshot.json       for the machine that was recorded
    envcheck lint train.yaml --fix                    and a corrected copy
    envcheck lint docker-compose.yml                  services, and what they start
    cat run.sh | envcheck lint - --sarif
    """
    from envcheck.core.errors import UsageError
    from envcheck.lint import lint as linter
    from envcheck.lint import show
    from envcheck.scripts import source

    if asked["list_rules"]:
        print_document({"rules": _rules()}) if asked["as_json"] else click.echo(_listing())
        return 0
    if not file:
        raise UsageError("lint needs a file", "as in envcheck lint run.sh, or - for standard input")
    if asked["as_json"] and asked["sarif"]:
        raise UsageError("--json and --sarif are two documents", "ask for one of them")
    if asked["fixes"] and (file == "-" or asked["as_json"] or asked["sarif"]):
        raise UsageError("--fix writes beside a file, and shows what differs", "leave out -, --json and --sarif")
    read = source.read(file)
    machine = _machine(file, asked)
    result = linter.lint(read, machine, asked["device"], asked["kind"] or "", not asked["no_shellcheck"])
    if asked["sarif"]:
        from envcheck.lint.sarif import as_sarif

        click.echo(as_sarif(result), nl=False)
    elif asked["as_json"]:
        click.echo(show.as_json(result, asked["strict"]))
    else:
        from envcheck.report import screen

        click.echo(show.as_text(result, screen.style(), asked["strict"]), nl=False)
        _fixed(file, result) if asked["fixes"] else None
    return linter.exit_code(result, asked["strict"])


def _fixed(file: str, result: Result) -> None:
    from envcheck.core.language import say
    from envcheck.lint import fix

    raw, mended = fix.corrected(result)
    if raw == result.source.raw:
        click.echo(say("nothing of it can be mended without you: no copy is written"))
        return
    there = fix.write(file, raw)
    click.echo(fix.diff(result.source, raw, there), nl=False)
    click.echo(f"{there}{say(': ')}{say(f'{mended} mended')}")


def _machine(file: str, asked: dict[str, Any]) -> TargetMachine:
    """What is asked of the machine only when a rule wants to know."""
    import os
    from pathlib import Path

    from envcheck.collect.machine import SYSROOT
    from envcheck.core.lint.target_machine import TargetMachine

    folder = Path(file).absolute().parent if file != "-" else None
    if asked["replay"]:
        found = _replayed(asked["replay"], asked["device"])
        return TargetMachine(lambda: found, folder=folder)
    sysroot = os.environ.get(SYSROOT)
    return TargetMachine(_gathered, live=not sysroot, folder=folder, root=Path(sysroot, "root") if sysroot else None)


def _gathered() -> Any:
    from envcheck.job.here import collect_facts_here
    from envcheck.job.request import JobRequest
    from envcheck.report import screen

    with screen.hint("asking the machine ..."):
        return collect_facts_here(JobRequest())


def _replayed(path: str, device: str) -> Any:
    from envcheck.cli.commands import collect_facts

    return collect_facts.replayed(path, "auto" if device == "auto" else device)


def _rules() -> list[dict[str, str]]:
    from envcheck.lint.table import RULES

    return [{"name": rule.name, "severity": rule.severity.name, "says": rule.says} for rule in RULES]


def _listing() -> str:
    from envcheck.core.language import say
    from envcheck.lint.table import RULES

    width = max(len(rule.name) for rule in RULES)
    return "\n".join(f"{rule.name:<{width}}  {say(rule.severity.name)}  {say(rule.says)}" for rule in RULES)
