"""envcheck lint: find mistakes in launch scripts, documents and configurations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from envcheck.cli import options
from envcheck.cli.json_document import print_document
from envcheck.cli.requests import argument, command, flag, option
from envcheck.core.errors import UsageError
from envcheck.core.local_files import is_folder
from envcheck.core.messages import _

if TYPE_CHECKING:
    from envcheck.core.lint.target_machine import TargetMachine
    from envcheck.lint.linter import LintResult
    from envcheck.report import Style

KINDS = ("bash", "yaml", "json", "dockerfile", "document")


@dataclass(frozen=True, kw_only=True)
class ListRulesOptions(options.JsonOption):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("list_rules",)

    list_rules: bool = flag("--list-rules", help="List all rules and exit.")


@dataclass(frozen=True, kw_only=True)
class LintOptions(options.JsonOption, options.DeviceOption):
    files: tuple[str, ...] = argument(type=click.Path(), nargs=-1, metavar="FILE|DIR|- ...")
    replay: Path | None = options.replay_option()
    kind: str | None = option(
        "--kind", type=click.Choice(KINDS, case_sensitive=False), metavar="KIND",
        help="File kind: bash, yaml, json, dockerfile, document.",
    )  # fmt: skip
    strict: bool = options.strict_flag()
    fixes: bool = flag("--write-fixed", help="Write a corrected copy and show the diff.", excludes=("as_json", "sarif"))
    sarif: bool = flag("--sarif", help="Print one SARIF 2.1.0 document on standard output.", excludes=("as_json",))
    no_shellcheck: bool = flag("--no-shellcheck", help="Skip bash and shellcheck.")
    verbose: bool = flag("--verbose", "-v", help="Show the complete output.", excludes=("as_json", "sarif"))


@command(
    ListRulesOptions, LintOptions,
    short_help="Find mistakes in launch scripts and training configurations.",
)  # fmt: skip
def lint(request: ListRulesOptions | LintOptions) -> int:
    """Find the lines of files that will fail on this machine, or do something unintended.

    Reads launch scripts (bash), scripts in documents (Markdown, reStructuredText), training YAML, DeepSpeed JSON,
    compose files and Dockerfiles.  Of a folder, scripts and configurations of known programs are read.  The files are
    neither run nor changed.  To ignore a rule, write "# envcheck: ignore RULE" on the line or above it.

    Exit code 0: no failures. 1: a rule failed. 2: usage error, or a file cannot be read. 3: a rule could not decide, or
    a file contains nothing that envcheck knows. Of several files, the worst counts: 1, then 2, then 3.

    \b
    envcheck lint run.sh                         check for this machine
    envcheck lint run.sh train.yaml configs/     check files, and all of a folder
    envcheck lint README.md --device npu         check code blocks, for Ascend
    envcheck lint run.sh --replay snapshot.json  check for a recorded machine
    envcheck lint train.yaml --write-fixed       also write a corrected copy
    envcheck lint docker-compose.yml             check services and their commands
    cat run.sh | envcheck lint - --sarif
    """
    if isinstance(request, ListRulesOptions):
        print_document({"rules": _list_rules()}) if request.as_json else click.echo(_render_rules())
        return 0
    if not request.files:
        raise UsageError(_("lint needs a file"), _("for example: envcheck lint run.sh, or use - for standard input"))
    single = len(request.files) == 1 and not is_folder(request.files[0])
    if request.fixes and not (single and request.files[0] != "-"):
        raise UsageError(_("--write-fixed needs one file, not standard input"), _("specify a file"))
    return _lint_file(request, request.files[0]) if single else _lint_files(request)


def _lint_file(request: LintOptions, file: str) -> int:
    from envcheck.lint import linter, render_remarks
    from envcheck.scripts import source_file

    read = source_file.read_source(file)
    folder = Path(file).absolute().parent if file != "-" else None
    machine = replace(_build_target(request), folder=folder)
    result = linter.lint_source(read, machine, request.device, request.kind or "", not request.no_shellcheck)
    if request.sarif:
        from envcheck.lint.sarif import write_sarif

        click.echo(write_sarif([result]), nl=False)
    elif request.as_json:
        click.echo(render_remarks.as_json(result, request.strict))
    else:
        click.echo(render_remarks.as_text(result, _detect_style(request), request.strict), nl=False)
        _write_fixed_copy(file, result) if request.fixes else None
    return linter.exit_code(result, request.strict)


def _lint_files(request: LintOptions) -> int:
    from envcheck.lint import files, render_run

    listed = files.list_files(request.files)
    machine = _build_target(request)
    run = files.lint_files(listed, machine, request.device, request.kind or "", not request.no_shellcheck)
    if request.sarif:
        from envcheck.lint.sarif import write_sarif

        click.echo(write_sarif([each.result for each in run.results if each.result is not None]), nl=False)
    elif request.as_json:
        click.echo(render_run.run_as_json(run, request.strict))
    else:
        click.echo(render_run.run_as_text(run, _detect_style(request), request.strict), nl=False)
    return run.find_exit_code(request.strict)


def _detect_style(request: LintOptions) -> Style:
    from envcheck.report import screen

    return replace(screen.detect_style(), is_verbose=request.verbose)


def _write_fixed_copy(file: str, result: LintResult) -> None:
    from envcheck.core.language import translate
    from envcheck.lint import fix

    raw, mended = fix.apply_fixes(result)
    if raw == result.source.raw:
        click.echo(translate(_("no automatic fix is available: no copy was written")))
        return
    there = fix.write_fixed_copy(file, raw)
    click.echo(fix.render_diff(result.source, raw, there), nl=False)
    click.echo(translate(_("{file}: {count} fixed", file=there, count=mended)))


def _build_target(request: LintOptions) -> TargetMachine:
    """Facts of the machine, collected only if a rule needs them."""
    import os

    from envcheck.collect.host.answers import SYSROOT
    from envcheck.core.lint.target_machine import TargetMachine

    if request.replay:
        from envcheck.cli.machines import collect_facts

        found = collect_facts.read_recording(request.replay, request.device)
        return TargetMachine(lambda: found)
    sysroot = os.environ.get(SYSROOT)
    return TargetMachine(_collect_facts, live=not sysroot, root=Path(sysroot, "root") if sysroot else None)


def _collect_facts() -> Any:
    from envcheck.job.local_facts import collect_facts_here
    from envcheck.job.request import JobRequest
    from envcheck.report import screen

    with screen.show_hint(_("collecting facts from this machine ...")):
        return collect_facts_here(JobRequest())


def _list_rules() -> list[dict[str, str]]:
    from envcheck.lint.render_remarks import name_severity
    from envcheck.lint.rule_table import RULES

    return [{"name": rule.name, "severity": name_severity(rule.severity), "description": rule.says} for rule in RULES]


def _render_rules() -> str:
    from envcheck.core.language import translate
    from envcheck.lint.render_remarks import label_severity
    from envcheck.lint.rule_table import RULES

    width = max(len(rule.name) for rule in RULES)
    return "\n".join(
        f"{rule.name:<{width}}  {translate(label_severity(rule.severity))}  {translate(rule.says)}" for rule in RULES
    )
