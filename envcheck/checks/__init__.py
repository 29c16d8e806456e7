"""The table of checks, and how they run.  To add one: a function and a table entry in its area's file, four test cases.

A check reads facts and yields findings; the table adds name and source.  Checks know of each other only the names of
causes: `skipped_because` if nothing can be evaluated, `suppressed_by` if the cause's finding covers this one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from envcheck.checks import results, unevaluated_devices
from envcheck.checks.devices import (
    access,
    health,
    links,
    numbering,
    occupancy,
    presence,
    processes,
    uniformity,
    utilization,
)
from envcheck.checks.host import (
    container_engine,
    container_settings,
    master_address,
    network_interfaces,
    pcie,
    rdma_ports,
    system,
    user,
)
from envcheck.checks.software import (
    driver_components,
    driver_tool,
    dynamic_loader,
    package_conflicts,
    python,
    toolkit,
    toolkit_components,
)
from envcheck.compat import version_findings
from envcheck.core import suggestions
from envcheck.core.check import Check
from envcheck.core.derived.device_listing import find_listing_cause
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import skipped_because
from envcheck.core.messages import _, join, verbatim
from envcheck.core.model import Finding, Status
from envcheck.job.requirements import device_memory, devices, host_resources, image, own_job, software_versions
from envcheck.vendors import VENDORS, load_modules

GENERIC: tuple[Check, ...] = (
    *driver_tool.CHECKS,
    *driver_components.CHECKS,
    *presence.CHECKS,
    *access.CHECKS,
    *health.CHECKS,
    *processes.CHECKS,
    *utilization.CHECKS,
    *occupancy.CHECKS,
    *uniformity.CHECKS,
    *numbering.CHECKS,
    *links.CHECKS,
    *toolkit.CHECKS,
    *toolkit_components.CHECKS,
    *network_interfaces.CHECKS,
    *master_address.CHECKS,
    *rdma_ports.CHECKS,
    *system.CHECKS,
    *pcie.CHECKS,
    *user.CHECKS,
    *container_engine.CHECKS,
    *container_settings.CHECKS,
    *python.CHECKS,
    *dynamic_loader.CHECKS,
    *package_conflicts.CHECKS,
    *devices.CHECKS,
    *device_memory.CHECKS,
    *host_resources.CHECKS,
    *software_versions.CHECKS,
    *image.CHECKS,
    *own_job.CHECKS,
)


def _build_check_table() -> tuple[Check, ...]:
    """The generic checks, each limited to the vendors that do not exclude it, and the vendors' own checks."""
    accelerators = [vendor for vendor in VENDORS.values() if vendor.devices]
    table = [
        replace(check, vendors=tuple(v.name for v in accelerators if check.name not in v.not_applicable))
        if check.is_per_vendor
        else check
        for check in GENERIC
    ]
    for vendor, module in load_modules("checks"):
        for check in module.CHECKS:
            own = replace(check, vendors=(vendor.name,)) if check.is_per_vendor else check
            table.insert(_find_insert_position(table, own), own)
    return tuple(table)


def _find_insert_position(table: list[Check], own: Check) -> int:
    """Where to insert a vendor's check: before the check that it names, otherwise at the end of its area."""
    named = (n for n, check in enumerate(table) if check.name == own.before)
    last = max((n for n, check in enumerate(table) if check.area == own.area), default=len(table) - 1)
    return next(named, last + 1)


CHECKS = _build_check_table()


BUDGET_S = 5.0  # of CPU time for one machine; usual ones need a hundredth


def run_checks(
    facts: Facts, only: Iterable[str] = (), skip: Iterable[str] = (), own: tuple[Check, ...] = ()
) -> list[Finding]:
    """Return the findings of all checks and the site's `own`, or of `only` (checks or areas), minus those in `skip`."""
    chosen, left_out = resolve_check_names(only, own), resolve_check_names(skip, own)
    checks = [c for c in (*CHECKS, *own) if (not chosen or c.name in chosen) and c.name not in left_out]
    needed = [check for check in checks if facts.wanted is not None or not check.of_job]
    budget = _CpuBudget(BUDGET_S)
    parts = [part for check in needed for part in _run_within_budget(check, facts, budget)]
    found = results.merge_parts(results.resolve_causes(parts, {check.name for check in checks}))
    return found if chosen else unevaluated_devices.add_unevaluated_devices(facts, found)


class _CpuBudget:
    """CPU time of this thread from now on."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s, self._began, self._began_cpu = limit_s, time.monotonic(), time.thread_time()

    def is_spent(self) -> bool:
        """Return whether the limit is exceeded; the time of the clock is never less, and ten times as fast to read."""
        return time.monotonic() - self._began > self._limit_s and time.thread_time() - self._began_cpu > self._limit_s


def _run_within_budget(check: Check, facts: Facts, budget: _CpuBudget) -> Iterable[Finding]:
    """Return a check's findings, or that it was left out: an answer that is slow to judge must not hold up a fleet."""
    if not budget.is_spent():
        return run_check(check, facts)
    why = _("not evaluated: judging this machine took more than {budget_s:.10g} s", budget_s=BUDGET_S)
    return [Finding(check.name, Status.UNKNOWN, why)]


def run_check(check: Check, facts: Facts) -> Iterator[Finding]:
    """Yield one check's findings; at least one, unless it is a check of a job and no job is given."""
    if check.of_job and facts.wanted is None:
        return
    if check.judge:
        yield from _run_safely(check, "", check.judge, facts)
        return
    here = [v for v in facts.vendors if v.name in check.vendors]
    for v in here:
        yield from _run_vendor_check(check, facts, v)
    if not here:
        why = (
            _("no accelerator found")
            if not facts.vendors
            else _("does not apply to {vendors}", vendors=join(", ", (v.vendor.title for v in facts.vendors)))
        )
        yield Finding(check.name, Status.NOT_APPLICABLE, why)


def _run_vendor_check(check: Check, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    if check.needs_devices and not v.devices:
        yield replace(skipped_because(find_listing_cause(v)), name=check.name, device=v.name)
        return
    if check.judge_versions:
        yield from _run_safely(check, v.name, check.judge_versions, facts, v, version_findings)
    elif check.judge_card:
        yield from _run_safely(check, v.name, check.judge_card, facts, v)


def _run_safely(check: Check, device: str, judge: Callable[..., Iterator[Finding]], *seen: object) -> list[Finding]:
    """A check that crashes, or yields nothing, is a finding: neither may look like a pass."""
    try:
        found = list(judge(*seen)) or [Finding("", Status.UNKNOWN, _("the check returned no result"))]
    except Exception as err:
        found = [Finding("", Status.UNKNOWN, _("the check crashed: {name}: {err}", name=type(err).__name__, err=err))]
    return [_stamp_finding(f, check, device) for f in found]


def _stamp_finding(finding: Finding, check: Check, device: str) -> Finding:
    """Return a copy with the check's name and source; dataclasses.replace would slow a fleet's evaluation by 10 %."""
    copy = object.__new__(Finding)
    copy.__dict__.update(finding.__dict__, name=check.name, source=check.source, device=device)
    return copy


def resolve_check_names(names: Iterable[str], own: tuple[Check, ...] = (), whole: bool = True) -> set[str]:
    """Return the full names of checks and areas (areas only if `whole`).

    Raises UsageError, with the nearest name, for an unknown one.
    """
    names = tuple(names)
    if not names:
        return set()
    checks = (*CHECKS, *own)
    known, areas, found = {c.name for c in checks}, {c.area for c in checks if whole}, set()
    for word in names:
        name = suggestions.match_name(word, [*known, *areas]) or word
        if name not in known and name not in areas:
            more = _("list all checks with `envcheck doctor --list-checks`")
            next_step = suggestions.suggest(name, [*known, *areas], more=more, limit=3, cutoff=0.5)
            if name.partition(".")[0] == "deep":
                raise UsageError(
                    _("check {name!r} requires --deep", name=name),
                    verbatim("envcheck doctor --deep --dry-run"),
                )
            raise UsageError(_("unknown check {name!r}", name=name), next_step)
        found |= {c.name for c in checks if name in (c.name, c.area)}
    return found
