"""envcheck solve: which versions belong together on this machine's driver."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envcheck.cli import options
from envcheck.cli.documents import print_document
from envcheck.cli.requests import command, option

if TYPE_CHECKING:
    from envcheck.compat.model import Goal, Table
    from envcheck.core.facts import Facts
    from envcheck.report.version_sets import Told

FRAMEWORKS = ("paddle", "torch")
ARCHITECTURES = ("x86_64", "aarch64")


@dataclass(frozen=True, kw_only=True)
class SolveOptions(options.JsonOption, options.DeviceOption):
    framework: str = option("--framework", type=click.Choice(FRAMEWORKS), default="paddle", show_default=True)
    driver: str | None = option(
        "--driver", metavar="VERSION", help="Of this driver, instead of the one that is installed."
    )
    architecture: str | None = option(
        "--architecture", type=click.Choice(ARCHITECTURES), help="Of this processor, instead of this machine's."
    )
    replay: Path | None = option(
        "--replay", type=click.Path(path_type=Path), help="Ask a snapshot instead of this machine."
    )


@command(SolveOptions, short_help="The newest versions that are tested together on this driver.")
def solve(request: SolveOptions) -> int:
    """The newest set of versions that is known to work together on the driver, and what a newer one would want.

    Exit code 0: there is a tested set. 1: no table names one for this driver. 3: unknown: one follows from other facts,
    or is installed, of which nothing is known bad (envcheck doctor --deep decides); or the driver could not be told.

    \b
    envcheck solve --device npu --framework paddle
    envcheck solve --device npu --framework torch --driver 25.2.0
    envcheck solve --device nvidia --driver 550.54.15 --json
    envcheck solve --replay snapshot.json
    """
    from envcheck.report import version_sets

    told = _solved(request)
    if request.as_json:
        print_document(version_sets.as_json(told) | version_sets.end_of(told))
    else:
        from envcheck.report import screen

        click.echo(version_sets.as_text(told, screen.style().width), nl=False)
    return version_sets.exit_code(told)


def _solved(request: SolveOptions) -> Told:
    from envcheck.compat import detect, judging, loading, solving
    from envcheck.report.version_sets import Told

    if request.driver is not None:
        _refuse_driver(request.driver, request)
    facts = None if request.driver is not None and not request.replay else _facts(request)
    device = _device(request.device, facts)
    table = loading.table()
    goal = _goal(device, request.framework, table)
    found = detect.installed(facts) if facts else {}
    driver = (request.driver or _driver(device, goal, found)).strip()
    architecture = request.architecture or found.get("architecture") or _processor()
    answer = solving.solve(goal, driver, architecture, table, found.get("python", ""))
    verdicts = judging.judge(found, detect.told(facts) if facts else (), table)
    return Told(device, request.framework, driver, architecture, goal, answer, found, verdicts, table)


def _refuse_driver(driver: str, request: SolveOptions) -> None:
    """A version that cannot be ordered, or whose vendor nobody named, is refused before anything is asked."""
    from envcheck.core import versions
    from envcheck.core.errors import UsageError
    from envcheck.vendors.names import accelerator_choice

    if versions.key(driver) is None:
        raise UsageError(f"--driver {driver!r} is no version", "write it as the tool shows it: 24.1.rc1, 4.3.0")
    if request.device == "auto" and not request.replay:
        raise UsageError("--driver says no vendor", f"name it: --device {accelerator_choice()}")


def _facts(request: SolveOptions) -> Facts:
    from envcheck.collect import facts, machine
    from envcheck.collect.fact_reader import read_facts
    from envcheck.report import screen

    if request.replay:
        from envcheck.collect import snapshot

        answers, recorded = snapshot.load(request.replay)
        return read_facts(answers, recorded if request.device == "auto" else request.device)
    with screen.hint("asking the machine ..."):
        return facts.gather(machine.here(), request.device)


def _device(device: str, facts: Facts | None) -> str:
    """The vendor that is meant: named, or the only one in the machine."""
    from envcheck.core.errors import UntoldError, UsageError

    if device != "auto" or facts is None:
        return device
    found = [v.name for v in facts.vendors]
    if len(found) > 1:
        raise UsageError(f"{len(found)} vendors' cards are here", f"name one: --device {' or --device '.join(found)}")
    if not found:
        raise UntoldError("no accelerator is here", "say which: envcheck solve --device npu --driver 24.1.rc1")
    return found[0]


def _goal(device: str, framework: str, table: Table) -> Goal:
    from envcheck.core.errors import EnvcheckError, UsageError
    from envcheck.vendors.names import accelerator_choice

    if device == "cpu":
        raise UsageError("--device cpu has no driver to solve for", f"name cards: --device {accelerator_choice()}")
    known = [name for kind, name in table.goals if kind == device]
    if not known:
        there = " or --device ".join(dict.fromkeys(kind for kind, _ in table.goals))
        raise EnvcheckError(f"no table names a set of versions for --device {device}", f"name one: --device {there}")
    if framework not in known:
        raise EnvcheckError(
            f"no table names a set of versions for {framework} on {device}", f"--framework {' or '.join(known)}"
        )
    return table.goals[device, framework]


def _driver(device: str, goal: Goal, found: dict[str, str]) -> str:
    from envcheck.core import versions
    from envcheck.core.errors import UntoldError

    driver = found.get(goal.driver, "")
    if not driver:
        fix = f"say it: envcheck solve --device {device} --driver VERSION; or look: envcheck doctor --only driver"
        raise UntoldError("the driver's version could not be told", fix)
    if versions.key(driver) is None:
        raise UntoldError(f"the driver calls itself {driver!r}, which cannot be ordered", "say it: --driver VERSION")
    return driver


def _processor() -> str:
    """This machine's, in the spelling of wheels."""
    import platform

    said = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(said, said)
