"""Iluvatar's own: cards of two chips, CoreX beside the driver, and what is preloaded of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, of_devices, of_vendor
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    fail,
    figures,
    follows,
    graded,
    here,
    incomplete,
    not_told,
    ok,
    quote,
    skip,
    told_by,
    unknown,
)
from envcheck.core.installed_versions import toolkit_trees
from envcheck.core.key_value import driver_version
from envcheck.core.model import Finding, Outcome
from probes.host import schemas

PRELOADS = "list /usr/local/corex*/lib64/libcuda.so.1"


def chips(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Chips come in whole cards: a BI-V150 carries two, and counts and memory are per chip."""
    each, n = v.vendor.chips_per_card, len(v.devices)
    if not any("V150" in (d.name or "") for d in v.devices):
        known = all(d.name for d in v.devices)
        yield skip("not a card with several chips") if known else unknown("the devices are not named")
    elif cause := incomplete(facts, v):
        yield follows(cause)
    elif n % each:
        seen = f"{n} chips cannot be whole cards of {each}"
        yield fail(seen, "A chip is missing: look at the bus.", *commands(v, "pci"), evidence=quote(v.tool, "V150"))
    else:
        size = v.devices[0].memory_total_mib
        yield ok(f"{n} chips{f' of {size} MiB' if size else ''} on {n // each} cards; plan with chips")


def preload(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The library that LD_PRELOAD names is there: the loader only warns, and symbols are missing later."""
    answer = facts.answers.get(PRELOADS)
    if facts.environment is None or answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield not_told(facts, "ask environment", PRELOADS)
        return
    wanted = [p for p in re.split(r"[\s:]+", facts.environment.get("LD_PRELOAD", "")) if p.endswith("libcuda.so.1")]
    missing = [path for path in wanted if path not in answer.out.split()]
    if missing:
        there = next(iter(answer.out.split()), "/usr/local/corex/lib64/libcuda.so.1")
        shown = figures("environment", LD_PRELOAD=facts.environment["LD_PRELOAD"])
        seen = f"LD_PRELOAD names {missing[0]}, which is not there"
        yield fail(seen, "Correct the path.", f"export LD_PRELOAD={there}", evidence=shown)
    elif wanted:
        yield ok(f"LD_PRELOAD names {wanted[0]}")
    else:
        yield skip("LD_PRELOAD is not set here; the launch sets it")


def corex(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The CoreX tree is of the kernel driver's release: cards are listed, and frameworks see none otherwise."""
    known = schemas.kernel(facts)
    running = (known.versions.get("iluvatar") if known else None) or driver_version(v)
    named = [found[1] for path in toolkit_trees(facts, v) if (found := re.search(r"corex-(\d+\.\d+)", path))]
    short = re.match(r"\d+\.\d+", running or "")
    if not toolkit_trees(facts, v):
        yield follows("toolkit.present")
    elif short is None and not v.devices:
        yield follows("driver.tool")
    elif not named or short is None:
        yield unknown("the versions of driver and CoreX tree could not be told")
    elif short[0] in named:
        yield ok(f"driver {running}, CoreX {', '.join(named)}")
    else:
        words = "Install the driver of the image's CoreX on the host, or choose an image of the driver's release."
        seen = f"driver {running}, but CoreX {', '.join(named)}"
        shown = figures("ls /usr/local", corex=", ".join(named))
        other = re.match(r"\d+\.\d+", (v.document.tool_version if v.document else None) or "")
        cause = "driver.agrees" if other and other[0] in named else ""  # the tool came with this tree
        yield told_by(cause, graded(here(facts), seen, words, *commands(v, "driver"), evidence=shown))


CHECKS: tuple[Check, ...] = (
    of_devices(
        "devices.chips",
        chips,
        before="devices.visible",
        reads="ixsmi",
        source="ERNIE's Iluvatar page; ix-device-plugin splitboard",
        rule="FAIL when chips do not make whole cards",
        fix="Look at the bus.",
    ),
    of_vendor(
        "toolkit.preload",
        preload,
        before="toolkit.copies",
        reads="LD_PRELOAD, /usr/local/corex*",
        source="ERNIE's Iluvatar page",
        rule="FAIL when LD_PRELOAD names a libcuda.so.1 that is not there",
        fix="Correct the path.",
    ),
    of_vendor(
        "toolkit.corex",
        corex,
        reads="/sys/module/iluvatar/version, ixsmi, /usr/local/corex*",
        source="Paddle#73741; FlagTree's wiki",
        rule="FAIL when no tree is of the driver's release; WARN where containers can be started",
        fix="Bring driver and CoreX to one release.",
    ),
)
