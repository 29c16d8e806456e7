"""Build the monitor of a run: stop rules, limits and cards."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from envcheck.collect import answer_sources, facts
from envcheck.core import suggestions
from envcheck.core.errors import UsageError
from envcheck.core.findings import device_label
from envcheck.core.messages import _, join
from envcheck.core.model import Device
from envcheck.vendors import VENDORS
from launch.gates.context import GateContext
from launch.gates.device_selection import NUMBERS
from launch.gates.results import read_visible_devices, select_job_devices
from launch.run.watch import ProgressLine
from launch.targets.train_request import TrainRequest
from launch.watching import stop_rules
from launch.watching.card_sampler import CardSampler
from launch.watching.full_screen import WatchScreen
from launch.watching.monitor import Monitor
from launch.watching.warning_rules import WARNINGS


def build_monitor(request: TrainRequest, seen: GateContext, run: Path) -> Monitor:
    """Return the monitor; it samples the cards of this machine, if there are any of the job's type."""
    found = next((v for v in seen.facts.vendors if v.name == seen.device), None)
    vendor = VENDORS[seen.device]
    sampler = CardSampler(answer_sources.local_machine(), vendor, found.devices) if found and vendor.devices else None
    rules, mine = parse_rules(request.no_stop, request.limits, request.stop), list_card_labels(seen)
    monitor = Monitor(rules, sampler, run / "log", seen.stage.run_mark(run), mine)
    monitor.ends = frozenset(_check_name("--stop", name, tuple(WARNINGS)) for name in request.stop)
    monitor.base = replace(
        monitor.base,
        vocabulary=seen.plan.job.model.vocab if seen.plan else None,
        cards=mine,
        first_rank=(seen.rank or 0) * seen.job.processes,
        host=socket.gethostname(),
    )
    return monitor


def build_plain_monitor(watch: Mapping[str, Any], device: str, run: Path, mark: str, mine: Iterable[str]) -> Monitor:
    """Return the monitor of an adopted run; `watch` are its recorded options, `mine` the labels of its cards."""
    off, changed, ends = (
        [*watch[key]] if isinstance(watch.get(key), list) else [] for key in ("no_stop", "limits", "stop")
    )
    vendor = VENDORS.get(device)
    machine = answer_sources.local_machine()
    found = facts.gather_facts(machine, device).vendors if vendor and vendor.devices else ()
    sampler = next((CardSampler(machine, v.vendor, v.devices) for v in found if v.name == device), None)
    monitor = Monitor(parse_rules(off, changed, ends), sampler, run / "log", mark, mine)
    monitor.ends = frozenset(ends)
    return monitor


def list_card_labels(seen: GateContext) -> tuple[str, ...]:
    """Return the labels of the job's cards, () if they are unknown."""
    found = any(vendor.name == seen.device for vendor in seen.facts.vendors)
    return tuple(map(device_label, _select_own_cards(seen))) if found else ()


def _select_own_cards(seen: GateContext) -> tuple[Device, ...]:
    """Return the cards of the job; none if they are selected by UUID, which is not resolved here."""
    said = read_visible_devices(seen)
    named = said is not None and not NUMBERS.fullmatch(said) and seen.choice is None
    return () if named else select_job_devices(seen)


def choose_progress_display(
    request: TrainRequest, seen: GateContext, run: Path, monitor: Monitor
) -> ProgressLine | WatchScreen:
    """Return the progress display: a line, or the full screen with --dashboard."""
    most = seen.job.steps.get("max")
    if not request.dashboard or request.detach:
        return ProgressLine(of=most)
    screen = WatchScreen(f"{seen.recipe.name}, {seen.job.method}  {run.name}", of=most)
    monitor.show = screen.draw_page
    return screen


def parse_rules(off: Iterable[str], changed: Iterable[str], ends: Iterable[str] = ()) -> dict[str, dict[str, float]]:
    """Return the active stop rules and warnings with their limits; UsageError for unknown names and invalid numbers.

    `off` are rules without effect, `ends` warnings that end the run.
    """
    table = {**stop_rules.RULES, **WARNINGS}
    names = tuple(table)
    keys = tuple(f"{name}.{limit}" for name, rule in table.items() for limit in rule.limits)
    for name in ends:
        _check_name("--stop", name, tuple(WARNINGS))
    off = [_check_name("--no-stop", name, names) for name in off]
    numbers = {}
    for text in changed:
        key, _unused, value = text.partition("=")
        numbers[_check_name("--limit", key.strip(), keys)] = _parse_limit(text, value)
    return stop_rules.list_active_rules(off, numbers, table)


def _check_name(option: str, name: str, names: tuple[str, ...]) -> str:
    matched = suggestions.match_name(name, names)
    if matched is not None:
        return matched
    meant = suggestions.suggest(name, names, _("available: {names}", names=join(", ", names)))
    raise UsageError(_("{option} {name}: unknown rule or limit", option=option, name=name), meant)


def _parse_limit(text: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise UsageError(
            _("--limit {limit}: expected a finite number of at least 0", limit=text),
            _("use, for example, --limit stalled.seconds=1800"),
        )
    return number
