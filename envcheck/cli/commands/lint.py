"""envcheck lint: what a launch script, a document or a configuration will do other than meant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from envcheck.cli import options
from envcheck.cli.documents import print_document
from envcheck.cli.requests import argument, command, flag, option
from envcheck.core.errors import UsageError

if TYPE_CHECKING:
    from envcheck.core.lint.target_machine import TargetMachine
    from envcheck.lint.lint import Result

KINDS = ("bash", "yaml", "json", "dockerfile", "document")


@dataclass(frozen=True, kw_only=True)
class ListRulesOptions(options.JsonOption):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("list_rules",)

    list_rules: bool = flag("--list-rules", help="Name all rules, and stop.")


@dataclass(frozen=True, kw_only=True)
class LintOptions(options.JsonOption, options.DeviceOption):
    file: str = argument(type=click.Path(), required=False, default="")
    replay: Path | None = option(
        "--replay", type=click.Path(path_type=Path), help="Judge for the machine of a snapshot instead of this one."
    )
    kind: str | None = option("--kind", type=click.Choice(KINDS), help="What the file is, where its name does not say.")
    strict: bool = flag("--strict", help="Warnings count: exit code 3.")
    fixes: bool = flag(
        "--fix", help="Write a corrected copy beside it (FILE.fixed.sh), and show what differs.",
        excludes=("as_json", "sarif"),
    )  # fmt: skip
    sarif: bool = flag("--sarif", help="One SARIF 2.1.0 document on standard output.", excludes=("as_json",))
    no_shellcheck: bool = flag("--no-shellcheck", help="Do not ask bash and shellcheck as well.")


@command(
    ListRulesOptions, LintOptions,
    short_help="What a launch script or training configuration will do other than meant.",
)  # fmt: skip
def lint(request: ListRulesOptions | LintOptions) -> int:
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
    from envcheck.lint import lint as linter
    from envcheck.lint import show
    from envcheck.scripts import source

    if isinstance(request, ListRulesOptions):
        print_document({"rules": _rules()}) if request.as_json else click.echo(_listing())
        return 0
    file = request.file
    if not file:
        raise UsageError("lint needs a file", "as in envcheck lint run.sh, or - for standard input")
    if request.fixes and file == "-":
        raise UsageError("--fix writes beside a file, and shows what differs", "name a file")
    read = source.read(file)
    machine = _machine(request)
    result = linter.lint(read, machine, request.device, request.kind or "", not request.no_shellcheck)
    if request.sarif:
        from envcheck.lint.sarif import as_sarif

        click.echo(as_sarif(result), nl=False)
    elif request.as_json:
        click.echo(show.as_json(result, request.strict))
    else:
        from envcheck.report import screen

        click.echo(show.as_text(result, screen.style(), request.strict), nl=False)
        _fixed(file, result) if request.fixes else None
    return linter.exit_code(result, request.strict)


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


def _machine(request: LintOptions) -> TargetMachine:
    """What is asked of the machine only when a rule wants to know."""
    import os

    from envcheck.collect.host.answers import SYSROOT
    from envcheck.core.lint.target_machine import TargetMachine

    folder = Path(request.file).absolute().parent if request.file != "-" else None
    if request.replay:
        from envcheck.cli.commands import collect_facts

        found = collect_facts.replayed(request.replay, request.device)
        return TargetMachine(lambda: found, folder=folder)
    sysroot = os.environ.get(SYSROOT)
    return TargetMachine(_gathered, live=not sysroot, folder=folder, root=Path(sysroot, "root") if sysroot else None)


def _gathered() -> Any:
    from envcheck.job.here import collect_facts_here
    from envcheck.job.request import JobRequest
    from envcheck.report import screen

    with screen.hint("asking the machine ..."):
        return collect_facts_here(JobRequest())


def _rules() -> list[dict[str, str]]:
    from envcheck.lint.table import RULES

    return [{"name": rule.name, "severity": rule.severity.name, "says": rule.says} for rule in RULES]


def _listing() -> str:
    from envcheck.core.language import say
    from envcheck.lint.table import RULES

    width = max(len(rule.name) for rule in RULES)
    return "\n".join(f"{rule.name:<{width}}  {say(rule.severity.name)}  {say(rule.says)}" for rule in RULES)
