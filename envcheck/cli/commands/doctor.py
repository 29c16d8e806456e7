"""envcheck doctor: what stands between this machine and training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from envcheck import settings
from envcheck.cli import options
from envcheck.fleet import argv as fleet_words

# as in reports.formats, which is imported when there is something to report
WITH_NEXT = ("table", "html", "markdown")  # what people read
FORMATS = ("table", "json", "html", "junit", "sarif", "prometheus", "markdown")

if TYPE_CHECKING:
    from envcheck.cli.commands.collect_facts import ExaminedMachine
    from envcheck.core.check import Check
    from envcheck.core.model import Finding
    from envcheck.report import Report
    from envcheck.settings.site_settings import Settings


@click.command(short_help="What stands between this machine and training.")
@options.device
@options.model
@options.method
@options.framework
@options.recipes_folder
@options.variant
@options.node_role
@options.fleet
@click.option(
    "--between", is_flag=True, help="With --hosts: try them against each other: names, clocks, ports, speed, RDMA."
)
@click.option("--ports", metavar="LIST", help="With --between: ports that must be open, 29500,60000-60015.")
@click.option(
    "--rank-table",
    type=click.Path(),
    metavar="FILE",
    help="With --hosts: Ascend's table of ranks, written, or checked where it is there.",
)
@options.checks("--only", help="Only this check or area; may be given again.")
@options.checks("--skip", help="Not this check or area; may be given again.")
@click.option("--config", type=click.Path(), help="Waivers, thresholds and checks of your own; else envcheck.toml.")
@click.option("--show-thresholds", is_flag=True, help="Print the figures that decide, with their sources, and stop.")
@click.option("--list-checks", is_flag=True, help="Name all checks, and stop.")
@click.option("--deep", is_flag=True, help="Test the cards themselves, too: says first what that disturbs, and asks.")
@click.option("--fix", is_flag=True, help="Apply the remedies that are safe: shown first, proved after, journaled.")
@click.option("--undo", is_flag=True, help="Take back what --fix did.")
@options.dry_run
@options.yes
@click.option("--strict", is_flag=True, help="Warnings count: exit code 3.")
@click.option("--replay", type=click.Path(), help="Judge a snapshot instead of this machine.")
@click.option("--format", type=click.Choice(FORMATS), help="How the report is written; else by the ending of -o.")
@click.option("--output", "-o", type=click.Path(), metavar="FILE", help="Write the report to FILE.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value=5.0,
    type=click.FloatRange(1, 3600),
    metavar="[SECONDS]",
    help="Look again every 5 s, or SECONDS, until Ctrl-C; the exit code is the last verdict's.",
)
@options.json_output
def doctor(**asked: Any) -> None:
    """Look at this machine and say what stands between it and training; changes nothing.

    Exit code 0: fit. 1: something fails. 3: nothing fails, but something could not be told, or nothing was judged.

    \b
    envcheck doctor                                   whichever cards are here
    envcheck doctor --model 21b --method lora         and what this job needs
    envcheck doctor --only devices --skip devices.ecc
    envcheck doctor --replay snapshot.json --json     a recording, as JSON
    envcheck doctor -o report.html                    a page to look at
    envcheck doctor --watch 10                        again every 10 s, in the terminal
    envcheck doctor --fix --dry-run                   which remedies are safe to apply
    envcheck doctor --deep                            and multiply, copy and add up on every card
    envcheck doctor --hosts node[01-08]               eight machines over ssh, and which is the odd one
    envcheck doctor --hosts node[01-08] --between     and whether they reach each other, and how fast
    """
    site = settings.load(asked["config"])
    if asked["show_thresholds"] or asked["list_checks"]:
        click.echo(_listing(asked, site))
        return
    _of_deeds(asked)
    if fleet_words.chosen(asked) or _is_folder(asked["replay"]):
        from envcheck.cli.commands import fleet

        raise SystemExit(
            fleet.doctor(asked, site, lambda found: _findings(asked, _looking().completed(asked, site, found), site))
        )
    _of_fleets(asked)
    if asked["fix"] and asked["undo"]:
        from envcheck.core.errors import UsageError

        raise UsageError("--fix applies remedies, --undo takes them back", "leave one of them out")
    if asked["undo"]:
        raise SystemExit(_fixing().undo(asked))
    if asked["fix"]:
        _fixing().refuse(asked)
    if asked["deep"]:
        _deep_tests().refuse(asked)
    if asked["only"] or asked["skip"]:
        _named(asked, site)  # before the machine is asked, not after
    if asked["watch"]:
        raise SystemExit(_watch(asked, site))
    written_as = _format(asked)
    seen = _examined(asked, site)
    if asked["deep"] and asked["dry_run"]:
        raise SystemExit(_deep_shown(asked, seen, site))
    findings = _findings(asked, seen, site)
    if asked["fix"]:
        again = lambda: _findings(asked, _examined(asked, site), site)  # noqa: E731
        raise SystemExit(_fixing().fix(asked, findings, seen.facts, again))
    raise SystemExit(_report(asked, written_as, findings, seen))


def _of_deeds(asked: dict[str, Any]) -> None:
    """What is shown first, or not asked, is what changes something."""
    from envcheck.core.errors import UsageError

    given = next((name for name in ("dry_run", "yes") if asked[name]), None)
    if given and not any(asked[name] for name in ("deep", "fix", "undo")):
        option = f"--{given.replace('_', '-')}"
        raise UsageError(f"{option} is for --fix, --undo and --deep", "leave it out: doctor itself changes nothing")


def _of_fleets(asked: dict[str, Any]) -> None:
    """What is between machines wants machines."""
    from envcheck.core.errors import UsageError

    for name in ("between", "ports", "rank_table"):
        if asked[name]:
            raise UsageError(f"--{name.replace('_', '-')} is for --hosts", "name the machines with --hosts")


def _is_folder(path: str | None) -> bool:
    from pathlib import Path

    return path is not None and Path(path).is_dir()


def _watch(asked: dict[str, Any], site: Settings) -> int:
    import sys

    from envcheck.core.language.findings import localised
    from envcheck.report import HostReport, Report, watch

    def look() -> Report:
        seen = _examined(asked, site)
        found = _findings(asked, seen, site)
        return _of_job(Report((HostReport(localised(found), seen.facts),), strict=asked["strict"]), asked, seen, found)

    watch.refuse(asked, sys.stdout.isatty())
    return watch.watch(look, asked["watch"])


def _format(asked: dict[str, Any]) -> str:
    """What the report is written as; refused before the machine is asked where that, or its place, cannot be."""
    if asked["output"] is None and not (asked["format"] or asked["as_json"]):
        return "table"
    from pathlib import Path

    from envcheck.report import formats, write

    if asked["output"] not in (None, "-"):
        write.check(Path(asked["output"]))
    return formats.chosen(asked["format"], asked["as_json"], asked["output"])


def _report(asked: dict[str, Any], written_as: str, findings: list[Finding], seen: ExaminedMachine) -> int:
    """Print or write it; the exit code."""
    import datetime
    from pathlib import Path

    from envcheck.core import language
    from envcheck.core.language.findings import localised
    from envcheck.report import HostReport, Report, Style, exit_code, formats, screen, write

    if written_as == "json":
        language.for_a_program()
    to_file = asked["output"] not in (None, "-")
    style = Style(width=screen.WIDEST) if to_file else screen.style()
    now = datetime.datetime.now(datetime.timezone.utc)
    host = HostReport(localised(findings), seen.facts)
    about = Report((host,), strict=asked["strict"], style=style, lang=language.chosen(), made=now)
    report = _of_job(about, asked, seen, findings if written_as in WITH_NEXT else None)
    text = formats.render(written_as, report)
    if to_file:
        write.write(Path(asked["output"]), text)
        click.echo(language.say(f"envcheck: the report is in {asked['output']}"), err=True)
    else:
        click.echo(text if written_as == "table" else text.encode(), nl=False)  # a page says itself that it is UTF-8
    return exit_code(findings, asked["strict"])


def _of_job(report: Report, asked: dict[str, Any], seen: ExaminedMachine, next_of: list[Finding] | None) -> Report:
    """With what it tells of the named job, and of what to do next where none of these findings is amiss."""
    from dataclasses import replace

    if seen.job:
        report = replace(report, job=seen.job.as_json(), assumed_host=seen.job.assumed_host)
    from envcheck.report import next_step

    if next_of is None or next_step(next_of):
        return report
    import sys

    from envcheck.job.next_command import suggest_command

    looking = _looking()
    known, request = looking.recipes(asked["recipes_folder"]), looking.request_of(asked)
    ask = sys.stdin.isatty() or asked["output"] is not None
    return replace(report, next_command=suggest_command(request, seen.job, known, seen.facts, ask))


def _listing(asked: dict[str, Any], site: Settings) -> str:
    """--list-checks, --show-thresholds: for people, or one document."""
    as_json = asked["as_json"] or asked["format"] == "json"
    if asked["output"] not in (None, "-") or asked["format"] not in (None, "table", "json"):
        from envcheck.core.errors import UsageError

        what = "--list-checks" if asked["list_checks"] else "--show-thresholds"
        raise UsageError(f"{what} is no report: it prints a list, or JSON", "leave --format and -o out, or add --json")
    if asked["show_thresholds"]:
        from envcheck.settings import thresholds

        return (thresholds.as_json if as_json else thresholds.listing)(site.thresholds, site.file)
    from envcheck.checks import custom
    from envcheck.report import check_list, screen

    checks = custom.checks(site)
    return check_list.as_json(checks) if as_json else check_list.as_text(screen.style().width, checks)


def _named(asked: dict[str, Any], site: Settings) -> None:
    from envcheck import checks
    from envcheck.checks import custom
    from envcheck.deep import table

    deep = table.checks() if asked["deep"] else ()
    checks.named((*asked["only"], *asked["skip"]), (*custom.checks(site), *deep))


def _fixing() -> Any:
    from envcheck.cli.commands import fixing

    return fixing


def _looking() -> Any:
    from envcheck.cli.commands import collect_facts

    return collect_facts


def _examined(asked: dict[str, Any], site: Settings) -> ExaminedMachine:
    found: ExaminedMachine = _looking().gathered(asked, site)
    return found


def _deep_tests() -> Any:
    from envcheck.cli.commands import deep

    return deep


def _deep(asked: dict[str, Any], seen: ExaminedMachine, more: tuple[Check, ...]) -> tuple[Check, ...]:
    """The tests of --deep, done: of the machine's cards, with what the named job trains with."""
    if not asked["deep"]:
        return ()
    from envcheck.deep import table

    return table.checks(_deep_tests().found(*_of_deep(asked, seen, more)), bool(seen.facts.vendors))


def _deep_shown(asked: dict[str, Any], seen: ExaminedMachine, site: Settings) -> int:
    """--deep --dry-run: what the tests would disturb; the exit code."""
    from envcheck.checks import custom

    code: int = _deep_tests().shown(*_of_deep(asked, seen, custom.checks(site)))
    return code


def _of_deep(asked: dict[str, Any], seen: ExaminedMachine, more: tuple[Check, ...]) -> tuple[Any, ...]:
    """What the tests want to know: with the names that --only and --skip leave, and the named job's recipe."""
    from envcheck import checks
    from envcheck.deep import table

    known = (*more, *table.checks())
    chosen, left_out = checks.named(asked["only"], known), checks.named(asked["skip"], known)
    names = frozenset(n for n in table.NAMES if (not chosen or n in chosen) and n not in left_out)
    return seen.facts, asked, names, seen.job.recipe if seen.job else None


def _findings(asked: dict[str, Any], seen: ExaminedMachine, site: Settings) -> list[Finding]:
    import datetime

    from envcheck import checks
    from envcheck.checks import custom
    from envcheck.deep import table

    more = custom.checks(site)
    checks.named([waiver.check for waiver in site.waivers], (*more, *table.checks()), whole=False)
    more = (*more, *_deep(asked, seen, more))
    found = checks.run_all(seen.facts, asked["only"], asked["skip"], more)
    return custom.waived(found, site, datetime.date.today())
