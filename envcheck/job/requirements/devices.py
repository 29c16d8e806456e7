"""Device requirements of a job: vendor, number of devices, and parallel degrees that divide its model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, job_check
from envcheck.core.derived.device_details import is_partitioned
from envcheck.core.derived.device_listing import find_listing_cause
from envcheck.core.facts import Facts, SystemFacts, VendorFacts
from envcheck.core.findings import (
    count_missing_devices,
    fail,
    ok,
    quote_values,
    skip,
    skipped_because,
    suppressed_by,
    unknown,
    vendor_commands,
    warn,
)
from envcheck.core.messages import Message, _, join, ngettext
from envcheck.core.model import Finding, diagnose, fix, manual
from envcheck.job.requirements.demand import (
    CPU,
    RECIPES,
    cite_recipe,
    find_vendor,
    get_demand,
    list_candidates,
    tell_unanswered,
)
from envcheck.vendors import VENDORS


def check_device(facts: Facts) -> Iterator[Finding]:
    """The host has devices of the vendor that the job needs."""
    wanted = get_demand(facts)
    here = [v for v in facts.vendors if v.name == wanted.device]
    if wanted.device in (*CPU, "auto"):
        yield ok(_("the job runs on the CPU"))
    elif here and (legacy := _find_legacy(here[0])):
        seen = _("{names}: the builds of this recipe do not run on these cards", names=join(", ", legacy))
        words = _("Choose a machine with newer cards, or train with a build for these cards without a recipe.")
        yield fail(seen, diagnose(words, RECIPES), evidence=cite_recipe(facts, device=wanted.device))
    elif here and here[0].devices:
        yield ok(_("{count} × {title}", count=len(here[0].devices), title=here[0].vendor.title))
    elif here and not _is_absent(here[0]):
        yield skipped_because(find_listing_cause(here[0]))
    else:
        title = VENDORS[wanted.device].title if wanted.device in VENDORS else wanted.device
        own = fail(
            _("this job needs {title} devices; this machine has none", title=title),
            diagnose(
                _("Choose a recipe for this machine, or use a machine with {title} devices.", title=title), RECIPES
            ),
            evidence=cite_recipe(facts, device=wanted.device),
        )
        yield suppressed_by(find_listing_cause(here[0]) if here else "", own)


def _find_legacy(v: VendorFacts) -> tuple[str, ...]:
    """Return the names of devices on which the recipes' builds do not run."""
    names = dict.fromkeys(device.name for device in v.devices if device.name)
    pattern = v.vendor.legacy_devices
    return tuple(name for name in names if pattern and re.search(pattern, name, re.IGNORECASE))


def _is_absent(v: VendorFacts) -> bool:
    """Whether bus, /dev and tool were all examined and none of them shows such a card."""
    return not v.devices and v.pci == () and not v.nodes


def check_card_count(facts: Facts) -> Iterator[Finding]:
    """The host has as many devices, or CPU cores, as the job starts processes per node; MIG is off for multi-device
    jobs."""
    wanted, v = get_demand(facts), find_vendor(facts)
    if wanted.device in CPU:
        yield _count_processors(facts)
    elif wanted.cards is None:
        yield skip(_("the job has no device count requirement"))
    elif v is None or (not v.devices and not _is_cut_off(v)):
        yield skipped_because("job.device")
    elif _is_cut_off(v) and len(v.devices) < wanted.cards:
        seen = _(
            "this job needs {cards}; the vendor tool's output is truncated after {devices_count}",
            cards=ngettext("{count} device", "{count} devices", wanted.cards),
            devices_count=len(v.devices),
        )
        yield suppressed_by(
            "driver.whole_answer",
            unknown(seen, diagnose(_("Check why the vendor tool's output is truncated."), *_get_list_command(v))),
        )
    elif len(v.devices) < wanted.cards:
        own = fail(
            _compare_counts(wanted.cards, v),
            diagnose(
                _(
                    "Use a node with at least {cards}, or choose another --method.",
                    cards=ngettext("{count} device", "{count} devices", wanted.cards),
                ),
                RECIPES,
            ),
            evidence=cite_recipe(facts, cards=wanted.cards),
        )
        yield suppressed_by(
            "devices.count" if len(v.devices) + count_missing_devices(facts, v) >= wanted.cards else "", own
        )
    elif wanted.cards > 1 and any(is_partitioned(d) for _unused, d in list_candidates(wanted, v)):
        yield _describe_cut_devices(facts, v)
    else:
        yield ok(_compare_counts(wanted.cards, v))


def _compare_counts(needed: int, v: VendorFacts) -> Message:
    devices, chips = ngettext("{count} device", "{count} devices", needed), v.vendor.chips_per_card
    if chips > 1:
        return _(
            "this job needs {needed}; {found} found ({chips} per card)",
            needed=devices,
            found=len(v.devices),
            chips=chips,
        )
    return _("this job needs {needed}; {found} found", needed=devices, found=len(v.devices))


def _is_cut_off(v: VendorFacts) -> bool:
    return bool(v.document and v.document.truncated)


def _get_list_command(v: VendorFacts) -> tuple[str, ...]:
    return v.vendor.commands.get("list", ())


def _count_processors(facts: Facts) -> Finding:
    needed, found = get_demand(facts).processes, (facts.host or SystemFacts()).cpu_count
    if found is None:
        return tell_unanswered(facts, "host", "host")
    seen = _(
        "this job starts {needed}; {found} found",
        needed=ngettext("{count} process", "{count} processes", needed),
        found=ngettext("{count} processor", "{count} processors", found),
    )
    if found < needed:
        shown = quote_values("os.cpu_count", processors=found)
        return warn(
            seen, diagnose(_("Use a host with more CPU cores: the job runs, but slowly."), "nproc"), evidence=shown
        )
    return ok(seen)


def _describe_cut_devices(facts: Facts, v: VendorFacts) -> Finding:
    """Return the failure for a multi-device job with devices in MIG mode: instances do not train together."""
    wanted = get_demand(facts)
    cut = [d for _unused, d in list_candidates(wanted, v) if is_partitioned(d)]
    seen = _(
        "this job needs {cards}; {cut_count} of {total} are in MIG mode",
        cards=ngettext("{count} whole device", "{count} whole devices", wanted.cards or 0),
        cut_count=len(cut),
        total=len(v.devices),
    )
    off = vendor_commands(v, "whole", *cut)
    words = _("Turn MIG off and reset the devices, or choose a single-device job.")
    return fail(seen, fix(words, *off), evidence=quote_values(v.vendor.tool, mig_mode=cut[0].mig_mode))


def check_degrees(facts: Facts) -> Iterator[Finding]:
    """The parallel degrees of the job divide the model's heads, layers and experts."""
    found = get_demand(facts).degrees
    if found is None:
        yield skip(_("the planner has no figures of this model or framework, or the job does not train"))
    elif found.fits:
        yield ok(found.reason)
    elif found.fits is None:
        yield unknown(found.reason, found.remedy)
    else:
        remedy = found.remedy or manual(_("Choose other parallel degrees."))
        evidence = cite_recipe(facts, method=get_demand(facts).method)
        yield fail(found.reason, remedy, evidence=evidence)


CHECKS: tuple[Check, ...] = (
    job_check(
        "job.device",
        check_device,
        reads="the vendor tool",
        rule="FAIL if no device of that vendor is found, or the recipe's builds do not run on its cards",
        fix="Choose another recipe, or follow driver.tool.",
    ),
    job_check(
        "job.cards",
        check_card_count,
        reads="the vendor tool",
        rule=(
            "FAIL if there are fewer devices, or a multi-device job has a GPU with MIG; WARN for fewer cores than "
            "processes; blocked by devices.count if devices are missing there"
        ),
        fix="Use a node with more devices, or another method.",
    ),
    job_check(
        "job.degrees",
        check_degrees,
        reads="the recipe, the model catalogue",
        source="ERNIE MoE source in vLLM; the frameworks of the recipes",
        rule="FAIL if a degree does not divide, or the framework rejects the layout",
        fix="Set a degree that divides with train --set, or in your own recipe.",
    ),
)
