"""The devices that a job requires: its vendor's, as many as it starts processes, and degrees that divide its model."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, of_job
from envcheck.core.derived.driver import unlisted_because
from envcheck.core.derived.per_device import is_cut
from envcheck.core.facts import Facts, Host, VendorFacts
from envcheck.core.findings import (
    commands,
    fail,
    figures,
    follows,
    missing,
    ok,
    plural,
    skip,
    told_by,
    unknown,
    warn,
)
from envcheck.core.model import Finding, Remedy
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


def device(facts: Facts) -> Iterator[Finding]:
    """The job's kind of device is in this machine."""
    wanted = get_demand(facts)
    here = [v for v in facts.vendors if v.name == wanted.device]
    if wanted.device in (*CPU, "auto"):
        yield ok("the job runs on the CPU")
    elif here and here[0].devices:
        yield ok(f"{len(here[0].devices)} × {here[0].vendor.title}")
    elif here and not _is_absent(here[0]):
        yield follows(unlisted_because(here[0]))
    else:
        title = VENDORS[wanted.device].title if wanted.device in VENDORS else wanted.device
        own = fail(
            f"this job needs {title} devices; this machine has none",
            f"Choose a recipe for this machine, or use a machine with {title} devices.",
            RECIPES,
            evidence=cite_recipe(facts, device=wanted.device),
        )
        yield told_by(unlisted_because(here[0]) if here else "", own)


def _is_absent(v: VendorFacts) -> bool:
    """No such card is on the bus or in /dev, both of which were asked, and the tool lists none."""
    return not v.devices and v.pci == () and not v.nodes


def cards(facts: Facts) -> Iterator[Finding]:
    """There are as many devices, or processors, as the job starts processes on one node; MIG cuts none of several."""
    wanted, v = get_demand(facts), find_vendor(facts)
    if wanted.device in CPU:
        yield _count_processors(facts)
    elif wanted.cards is None:
        yield skip("the job names no number of devices")
    elif v is None or (not v.devices and not _is_cut_off(v)):
        yield follows("job.device")
    elif _is_cut_off(v) and len(v.devices) < wanted.cards:
        seen = f"this job needs {plural(wanted.cards, 'device')}; the tool's answer is cut off after {len(v.devices)}"
        yield told_by("driver.whole_answer", unknown(seen, "Check why the tool does not answer in full.", *_list(v)))
    elif len(v.devices) < wanted.cards:
        own = fail(
            _compare_counts(wanted.cards, v),
            f"Use a node with at least {plural(wanted.cards, 'device')}, or choose another --method.",
            RECIPES,
            evidence=cite_recipe(facts, cards=wanted.cards),
        )
        yield told_by("devices.count" if len(v.devices) + missing(facts, v) >= wanted.cards else "", own)
    elif wanted.cards > 1 and any(is_cut(d) for _, d in list_candidates(wanted, v)):
        yield _cut(facts, v)
    else:
        yield ok(_compare_counts(wanted.cards, v))


def _compare_counts(needed: int, v: VendorFacts) -> str:
    chips = f" ({v.vendor.chips_per_card} per card)" if v.vendor.chips_per_card > 1 else ""
    return f"this job needs {plural(needed, 'device')}; {len(v.devices)} found{chips}"


def _is_cut_off(v: VendorFacts) -> bool:
    return bool(v.document and v.document.truncated)


def _list(v: VendorFacts) -> tuple[str, ...]:
    return v.vendor.commands.get("list", ())


def _count_processors(facts: Facts) -> Finding:
    needed, found = get_demand(facts).processes, (facts.host or Host()).cpu_count
    if found is None:
        return tell_unanswered(facts, "host", "host")
    seen = f"this job starts {plural(needed, 'process')}; {plural(found, 'processor')} found"
    if found < needed:
        shown = figures("os.cpu_count", processors=found)
        return warn(seen, "It will run, but slowly: use a host with more processors.", "nproc", evidence=shown)
    return ok(seen)


def _cut(facts: Facts, v: VendorFacts) -> Finding:
    """Instances of MIG do not train together."""
    wanted = get_demand(facts)
    cut = [d for _, d in list_candidates(wanted, v) if is_cut(d)]
    seen = f"this job needs {plural(wanted.cards or 0, 'whole device')}; MIG cuts {len(cut)} of {len(v.devices)}"
    off = commands(v, "whole", *cut)
    words = "Turn MIG off and reset the devices, or choose a job of one device."
    return fail(seen, words, *off, evidence=figures(v.vendor.tool, mig_mode=cut[0].mig_mode))


def degrees(facts: Facts) -> Iterator[Finding]:
    """Heads, layers and experts of the model divide by the job's parallel degrees."""
    found = get_demand(facts).degrees
    if found is None:
        yield skip("the planner does not know this model, or the job does not train")
    elif found.fits:
        yield ok(found.reason)
    elif found.fits is None:
        remedy = found.remedy or Remedy("")
        yield unknown(found.reason, remedy.words, *remedy.commands)
    else:
        remedy = found.remedy or Remedy("Choose other parallel degrees.")
        evidence = cite_recipe(facts, method=get_demand(facts).method)
        yield fail(found.reason, remedy.words, *remedy.commands, evidence=evidence)


CHECKS: tuple[Check, ...] = (
    of_job(
        "job.device",
        device,
        reads="the vendor's tool",
        rule="FAIL when no card of the job's vendor is there",
        fix="Another recipe, or driver.tool's remedy.",
    ),
    of_job(
        "job.cards",
        cards,
        reads="the vendor's tool",
        rule="FAIL when there are fewer devices than the job needs, or MIG cuts one of several; WARN for fewer "
        "processors than processes; follows from devices.count where it misses devices",
        fix="A node with more, or another method.",
    ),
    of_job(
        "job.degrees",
        degrees,
        reads="the recipe, the planner's models",
        source="vLLM's ERNIE MoE source; the recipes' frameworks",
        rule="FAIL when a degree does not divide, or the framework refuses the layout",
        fix="A degree that divides, by a recipe of your own or train's --set.",
    ),
)
