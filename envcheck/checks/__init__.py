"""The table of checks, and running it.  To add one: a function and a line in its area's file, four test cases.

A check reads facts and yields findings; the table stamps name and source on them.  Checks do not know each other, but
for the names of those that tell a cause: `follows` where nothing can be judged, `told_by` where something was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from envcheck.checks import results, unjudged
from envcheck.checks.devices import access, health, kinds, links, order, owners, presence, processes, use
from envcheck.checks.host import (
    bus,
    engine,
    engine_parts,
    master,
    network,
    rdma,
    system,
    user,
)
from envcheck.checks.software import (
    driver,
    driver_parts,
    loading,
    packages,
    python,
    toolkit,
    toolkit_parts,
)
from envcheck.compat import version_findings
from envcheck.core.check import Check
from envcheck.core.derived.driver import unlisted_because
from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import follows
from envcheck.core.model import Finding, Status
from envcheck.job.requirements import device_memory, devices, host_resources, image, software_versions
from envcheck.vendors import VENDORS, load_modules

GENERIC: tuple[Check, ...] = (
    *driver.CHECKS,
    *driver_parts.CHECKS,
    *presence.CHECKS,
    *access.CHECKS,
    *health.CHECKS,
    *processes.CHECKS,
    *use.CHECKS,
    *owners.CHECKS,
    *kinds.CHECKS,
    *order.CHECKS,
    *links.CHECKS,
    *toolkit.CHECKS,
    *toolkit_parts.CHECKS,
    *network.CHECKS,
    *master.CHECKS,
    *rdma.CHECKS,
    *system.CHECKS,
    *bus.CHECKS,
    *user.CHECKS,
    *engine.CHECKS,
    *engine_parts.CHECKS,
    *python.CHECKS,
    *loading.CHECKS,
    *packages.CHECKS,
    *devices.CHECKS,
    *device_memory.CHECKS,
    *host_resources.CHECKS,
    *software_versions.CHECKS,
    *image.CHECKS,
)


def _table() -> tuple[Check, ...]:
    """The generic checks, each with the accelerators that its vendors' records do not exclude, and the vendors' own."""
    accelerators = [vendor for vendor in VENDORS.values() if vendor.devices]
    table = [
        replace(check, vendors=tuple(v.name for v in accelerators if check.name not in v.not_applicable))
        if check.is_of_cards
        else check
        for check in GENERIC
    ]
    for vendor, module in load_modules("checks"):
        for check in module.CHECKS:
            own = replace(check, vendors=(vendor.name,)) if check.is_of_cards else check
            table.insert(_place(table, own), own)
    return tuple(table)


def _place(table: list[Check], own: Check) -> int:
    """Where a vendor's check stands: before the one that it names, else at the end of its area."""
    named = (n for n, check in enumerate(table) if check.name == own.before)
    last = max((n for n, check in enumerate(table) if check.area == own.area), default=len(table) - 1)
    return next(named, last + 1)


CHECKS = _table()


def run_all(
    facts: Facts, only: Iterable[str] = (), skip: Iterable[str] = (), own: tuple[Check, ...] = ()
) -> list[Finding]:
    """The findings of all checks and the site's `own`, or of those that `only` names (checks, areas), less `skip`."""
    chosen, left_out = named(only, own), named(skip, own)
    checks = [c for c in (*CHECKS, *own) if (not chosen or c.name in chosen) and c.name not in left_out]
    parts = [part for check in checks for part in run(check, facts)]
    found = results.merge_parts(results.resolve_causes(parts, {check.name for check in checks}))
    return found if chosen else unjudged.with_unjudged(facts, found)


def run(check: Check, facts: Facts) -> Iterator[Finding]:
    """One check's findings; at least one, unless it belongs to a job and none is named."""
    if check.of_job and facts.wanted is None:
        return
    if check.judge:
        yield from _judged(check, "", check.judge, facts)
        return
    here = [v for v in facts.vendors if v.name in check.vendors]
    for v in here:
        yield from _judged_card(check, facts, v)
    if not here:
        why = (
            "no accelerator"
            if not facts.vendors
            else f"does not apply to {', '.join(v.vendor.title for v in facts.vendors)}"
        )
        yield Finding(check.name, Status.NOT_APPLICABLE, why)


def _judged_card(check: Check, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    if check.needs_devices and not v.devices:
        yield replace(follows(unlisted_because(v)), name=check.name, device=v.name)
        return
    if check.judge_versions:
        yield from _judged(check, v.name, check.judge_versions, facts, v, version_findings)
    elif check.judge_card:
        yield from _judged(check, v.name, check.judge_card, facts, v)


def _judged(check: Check, device: str, judge: Callable[..., Iterator[Finding]], *seen: object) -> list[Finding]:
    """A check that crashes is a finding, and so is one that says nothing: neither may look green."""
    try:
        found = list(judge(*seen)) or [Finding("", Status.UNKNOWN, "the check said nothing")]
    except Exception as err:
        found = [Finding("", Status.UNKNOWN, f"the check crashed: {type(err).__name__}: {err}")]
    return [_stamped(f, check, device) for f in found]


def _stamped(finding: Finding, check: Check, device: str) -> Finding:
    """A copy with the check's name and source; dataclasses.replace would cost a fleet's judging a tenth."""
    copy = object.__new__(Finding)
    copy.__dict__.update(finding.__dict__, name=check.name, source=check.source, device=device)
    return copy


def named(names: Iterable[str], own: tuple[Check, ...] = (), whole: bool = True) -> set[str]:
    """Names of checks and areas, spelt out; UsageError with the nearest for one that is neither.  `whole`: areas are
    taken."""
    names = tuple(names)
    if not names:
        return set()
    checks = (*CHECKS, *own)
    known, areas, found = {c.name for c in checks}, {c.area for c in checks if whole}, set()
    for name in names:
        if name not in known and name not in areas:
            import difflib

            near = difflib.get_close_matches(name, [*known, *areas], n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(near)}? " if near else ""
            if name.partition(".")[0] == "deep":
                raise UsageError(f"there is no check {name!r} without --deep", "envcheck doctor --deep --dry-run")
            raise UsageError(f"there is no check {name!r}", f"{hint}envcheck doctor --list-checks names all")
        found |= {c.name for c in checks if name in (c.name, c.area)}
    return found
