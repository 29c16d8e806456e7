"""envcheck solve: which versions belong together on this machine's driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from envcheck.cli import options

if TYPE_CHECKING:
    from envcheck.compat.model import Goal, Table
    from envcheck.core.facts import Facts
    from envcheck.report.version_sets import Told

FRAMEWORKS = ("paddle", "torch")
ARCHITECTURES = ("x86_64", "aarch64")


@click.command(short_help="The newest versions that are tested together on this driver.")
@options.device
@click.option("--framework", type=click.Choice(FRAMEWORKS), default="paddle", show_default=True)
@click.option("--driver", metavar="VERSION", help="Of this driver, instead of the one that is installed.")
@click.option("--architecture", type=click.Choice(ARCHITECTURES), help="Of this processor, instead of this machine's.")
@click.option("--replay", type=click.Path(), help="Ask a snapshot instead of this machine.")
@options.json_output
def solve(**asked: Any) -> None:
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

    told = _solved(asked)
    if asked["as_json"]:
        import json

        click.echo(json.dumps(version_sets.as_json(told), indent=2, ensure_ascii=False))
    else:
        from envcheck.report import screen

        click.echo(version_sets.as_text(told, screen.style().width), nl=False)
    raise SystemExit(version_sets.exit_code(told))


def _solved(asked: dict[str, Any]) -> Told:
    from envcheck.compat import detect, judging, loading, solving
    from envcheck.report.version_sets import Told

    if asked["driver"] is not None:
        _driver_given(asked)
    facts = None if asked["driver"] is not None and not asked["replay"] else _facts(asked)
    device = _device(asked["device"], facts)
    table = loading.table()
    goal = _goal(device, asked["framework"], table)
    found = detect.installed(facts) if facts else {}
    driver = (asked["driver"] or _driver(device, goal, found)).strip()
    architecture = asked["architecture"] or found.get("architecture") or _processor()
    answer = solving.solve(goal, driver, architecture, table, found.get("python", ""))
    verdicts = judging.judge(found, detect.told(facts) if facts else (), table)
    return Told(device, asked["framework"], driver, architecture, goal, answer, found, verdicts, table)


def _driver_given(asked: dict[str, Any]) -> None:
    """A version that cannot be ordered, or whose vendor nobody named, is refused before anything is asked."""
    from envcheck.core import versions
    from envcheck.core.errors import UsageError
    from envcheck.vendors.names import accelerator_choice

    if versions.key(asked["driver"]) is None:
        raise UsageError(
            f"--driver {asked['driver']!r} is no version", "write it as the tool shows it: 24.1.rc1, 4.3.0"
        )
    if asked["device"] == "auto" and not asked["replay"]:
        raise UsageError("--driver says no vendor", f"name it: --device {accelerator_choice()}")


def _facts(asked: dict[str, Any]) -> Facts:
    from envcheck.collect import facts, machine
    from envcheck.report import screen

    if asked["replay"]:
        from pathlib import Path

        from envcheck.collect import snapshot

        answers, recorded = snapshot.load(Path(asked["replay"]))
        return facts.read(answers, recorded if asked["device"] == "auto" else asked["device"])
    with screen.hint("asking the machine ..."):
        return facts.gather(machine.here(), asked["device"])


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
