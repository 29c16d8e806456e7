"""The monitor that a request means: which rules, with which limits, over which cards."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from pathlib import Path

from envcheck.collect import machine
from envcheck.core.errors import UsageError
from envcheck.core.findings import label
from envcheck.core.model import Device
from envcheck.vendors import VENDORS
from launch.gates.answers import used, visible
from launch.gates.cards import NUMBERS
from launch.gates.context import GateContext
from launch.run.watch import Teller
from launch.targets.request import TrainRequest
from launch.watching import rules
from launch.watching.cards import Sampler
from launch.watching.monitor import Monitor
from launch.watching.screen import WatchScreen


def build_monitor(request: TrainRequest, seen: GateContext, run: Path) -> Monitor:
    """Its cards are those of this machine; with an engine elsewhere there are none here, and none is looked at."""
    found = next((v for v in seen.facts.vendors if v.name == seen.device), None)
    vendor = VENDORS[seen.device]
    sampler = Sampler(machine.here(), vendor, found.devices) if found and vendor.devices else None
    mine = map(label, _own(seen)) if found else ()
    return Monitor(parse_rules(request.no_stop, request.limits), sampler, run / "log", seen.stage.mark(run), mine)


def _own(seen: GateContext) -> tuple[Device, ...]:
    """The job's cards; none where a list of UUIDs, which are not looked up here, says which they are."""
    said = visible(seen)
    return () if said is not None and not NUMBERS.fullmatch(said) else used(seen)


def choose_teller(request: TrainRequest, seen: GateContext, run: Path, monitor: Monitor) -> Teller | WatchScreen:
    """What tells a person: one line, or with --watch the whole screen."""
    most = seen.job.steps.get("max")
    if not request.watch or request.detach:
        return Teller(of=most)
    screen = WatchScreen(f"{seen.recipe.name}, {seen.job.method}  {run.name}", of=most)
    monitor.show = screen.show
    return screen


def parse_rules(off: Iterable[str], changed: Iterable[str]) -> dict[str, dict[str, float]]:
    """The rules in force.  UsageError for names and numbers that are none, with the nearest that is."""
    names = tuple(rules.RULES)
    keys = tuple(f"{name}.{limit}" for name, rule in rules.RULES.items() for limit in rule.limits)
    off = [_known("--no-stop", name, names) for name in off]
    numbers = {}
    for text in changed:
        key, _, value = text.partition("=")
        numbers[_known("--limit", key.strip(), keys)] = _number(text, value)
    return rules.in_force(off, numbers)


def _known(option: str, name: str, names: tuple[str, ...]) -> str:
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, 1)
    meant = f"did you mean {near[0]}" if near else f"there are {', '.join(names)}"
    raise UsageError(f"{option} {name}: no such rule or limit", meant)


def _number(text: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise UsageError(
            f"--limit {text}: not a number that could be a limit", "write for example stalled.seconds=1800"
        )
    return number
