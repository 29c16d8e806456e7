"""envcheck solve: find package versions that match this machine's driver."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envcheck.cli import options
from envcheck.cli.json_document import print_document
from envcheck.cli.requests import command, option
from envcheck.core.messages import _, join

if TYPE_CHECKING:
    from envcheck.compat.version_records import CompatibilityTable, SolverGoal
    from envcheck.core.facts import Facts
    from envcheck.report.version_sets import SolveReport

LIBRARIES = ("paddle", "torch")


@dataclass(frozen=True, kw_only=True)
class SolveOptions(options.JsonOption, options.DeviceOption):
    library: str = option(
        "--library", type=click.Choice(LIBRARIES, case_sensitive=False), default="paddle", show_default=True,
        metavar="NAME", help="Deep learning library: paddle or torch.",
    )  # fmt: skip
    driver: str | None = option("--driver", metavar="VERSION", help="Driver version (default: the installed one).")
    arch: str | None = options.arch_option()
    replay: Path | None = options.replay_option()


@command(SolveOptions, short_help="Find the newest tested set of versions for a driver.")
def solve(request: SolveOptions) -> int:
    """Find the newest set of package versions that is tested with the driver, and what a newer set needs.

    Exit code 0: a tested set exists. 1: no table lists a set for this driver. 3: unknown: the set is only derived, or
    installed without known problems (verify it with `envcheck doctor --deep`), or the driver version is unknown.

    \b
    envcheck solve --device npu --library paddle
    envcheck solve --device npu --library torch --driver 25.2.0
    envcheck solve --device nvidia --driver 550.54.15 --json
    envcheck solve --replay snapshot.json
    """
    from envcheck.report import version_sets

    told = _solve_versions(request)
    if request.as_json:
        print_document(version_sets.as_json(told) | version_sets.describe_outcome(told))
    else:
        from envcheck.report import screen

        click.echo(version_sets.as_text(told, screen.detect_style().width), nl=False)
    return version_sets.exit_code(told)


def _solve_versions(request: SolveOptions) -> SolveReport:
    from envcheck.compat import detect, pair_verdicts, solver, table_loader
    from envcheck.report.version_sets import SolveReport

    if request.driver is not None:
        _refuse_driver(request.driver, request)
    facts = None if request.driver is not None and not request.replay else _collect_facts(request)
    device = _resolve_device(request.device, facts)
    table = table_loader.own_version_table()
    goal = _find_goal(device, request.library, table)
    found = detect.detect_versions(facts) if facts else {}
    driver = (request.driver or _find_driver(device, goal, found)).strip()
    architecture = request.arch or found.get("architecture") or _detect_architecture()
    answer = solver.solve_versions(goal, driver, architecture, table, found.get("python", ""))
    verdicts = pair_verdicts.evaluate_pairs(found, detect.list_machine_rows(facts) if facts else (), table)
    return SolveReport(device, request.library, driver, architecture, goal, answer, found, verdicts, table)


def _refuse_driver(driver: str, request: SolveOptions) -> None:
    """Raise UsageError for a driver version that cannot be compared, or without a vendor."""
    from envcheck.core import versions
    from envcheck.core.errors import UsageError
    from envcheck.vendors.names import accelerator_choice

    if versions.sort_key(driver) is None:
        raise UsageError(
            _("--driver {driver!r} is not a version", driver=driver),
            _("use the tool's format, for example 24.1.rc1 or 4.3.0"),
        )
    if request.device == "auto" and not request.replay:
        raise UsageError(_("--driver requires a vendor"), _("add --device {devices}", devices=accelerator_choice()))


def _collect_facts(request: SolveOptions) -> Facts:
    from envcheck.collect import answer_sources, facts
    from envcheck.collect.fact_reader import read_facts
    from envcheck.report import screen

    if request.replay:
        from envcheck.collect import snapshot

        answers, recorded = snapshot.load_snapshot(request.replay)
        return read_facts(answers, recorded if request.device == "auto" else request.device)
    with screen.show_hint(_("collecting facts from this machine ...")):
        return facts.gather_facts(answer_sources.local_machine(), request.device)


def _resolve_device(device: str, facts: Facts | None) -> str:
    """The selected vendor, or the only one in the machine."""
    from envcheck.core.errors import UndeterminedError, UsageError

    if device != "auto" or facts is None:
        return device
    found = [v.name for v in facts.vendors]
    if len(found) > 1:
        raise UsageError(
            _("found devices of {found_count} vendors", found_count=len(found)),
            _("choose one with --device {found}", found=" or --device ".join(found)),
        )
    if not found:
        raise UndeterminedError(
            _("no accelerator found"), _("specify one, for example envcheck solve --device npu --driver 24.1.rc1")
        )
    return found[0]


def _find_goal(device: str, framework: str, table: CompatibilityTable) -> SolverGoal:
    from envcheck.core.errors import EnvcheckError, UsageError
    from envcheck.vendors.names import accelerator_choice

    if device == "cpu":
        raise UsageError(
            _("--device cpu has no driver to solve for"),
            _("specify an accelerator with --device {devices}", devices=accelerator_choice()),
        )
    known = [name for kind, name in table.goals if kind == device]
    if not known:
        there = " or --device ".join(dict.fromkeys(kind for kind, _unused in table.goals))
        raise EnvcheckError(
            _("no version table covers --device {device}", device=device),
            _("use --device {there}", there=there),
        )
    if framework not in known:
        raise EnvcheckError(
            _("no version table covers {framework} on {device}", framework=framework, device=device),
            _("--library {known}", known=join(_(" or "), known)),
        )
    return table.goals[device, framework]


def _find_driver(device: str, goal: SolverGoal, found: dict[str, str]) -> str:
    from envcheck.core import versions
    from envcheck.core.errors import UndeterminedError

    driver = found.get(goal.driver, "")
    if not driver:
        fix = _(
            "Specify it with envcheck solve --device {device} --driver VERSION, or run envcheck doctor --only driver.",
            device=device,
        )
        raise UndeterminedError(_("cannot determine the driver version"), fix)
    if versions.sort_key(driver) is None:
        raise UndeterminedError(
            _("the driver version {driver!r} cannot be compared", driver=driver),
            _("specify it with --driver VERSION"),
        )
    return driver


def _detect_architecture() -> str:
    """This machine's architecture, as wheels name it."""
    import platform

    said = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(said, said)
