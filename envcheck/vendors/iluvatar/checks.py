"""Checks that apply only to Iluvatar: cards with two chips, CoreX and driver versions, preloaded libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, device_check, vendor_check
from envcheck.core.derived.driver_install import driver_install_command
from envcheck.core.derived.installed_versions import toolkit_trees
from envcheck.core.derived.key_value import driver_version
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    find_incomplete_cause,
    local_severity,
    ok,
    quote_answer,
    quote_values,
    report_unanswered,
    skip,
    skipped_because,
    suppressed_by,
    unknown,
    vendor_commands,
    warn_or_fail,
)
from envcheck.core.messages import _, join
from envcheck.core.model import Finding, Outcome, diagnose, fix
from probes.host import schemas

PRELOADS = "list /usr/local/corex*/lib64/libcuda.so.1"


def check_chips(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """All chips of each card are present. A BI-V150 has two; counts and memory are per chip."""
    each, n = v.vendor.chips_per_card, len(v.devices)
    if not any("V150" in (d.name or "") for d in v.devices):
        known = all(d.name for d in v.devices)
        yield skip(_("not a multi-chip card")) if known else unknown(_("the devices have no names"))
    elif cause := find_incomplete_cause(facts, v):
        yield skipped_because(cause)
    elif n % each:
        seen = _("{n} chips found; each card has {each}", n=n, each=each)
        yield fail(
            seen,
            diagnose(_("Check the PCI bus: a chip is missing."), *vendor_commands(v, "pci")),
            evidence=quote_answer(v.tool, "V150"),
        )
    else:
        size = v.devices[0].memory_total_mib
        yield ok(
            _(
                "{chips} chips of {size} MiB on {cards} cards; each chip is a device",
                chips=n,
                size=size,
                cards=n // each,
            )
            if size
            else _("{chips} chips on {cards} cards; each chip is a device", chips=n, cards=n // each)
        )


def check_preload(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The library in LD_PRELOAD exists; otherwise the loader only warns and symbols are missing later."""
    answer = facts.answers.get(PRELOADS)
    if facts.environment is None or answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield report_unanswered(facts, "ask environment", PRELOADS)
        return
    wanted = [p for p in re.split(r"[\s:]+", facts.environment.get("LD_PRELOAD", "")) if p.endswith("libcuda.so.1")]
    missing = [path for path in wanted if path not in answer.out.split()]
    if missing:
        there = next(iter(answer.out.split()), "/usr/local/corex/lib64/libcuda.so.1")
        shown = quote_values("environment", LD_PRELOAD=facts.environment["LD_PRELOAD"])
        seen = _("LD_PRELOAD contains {path}, which does not exist", path=missing[0])
        yield fail(seen, fix(_("Correct the path."), f"export LD_PRELOAD={there}"), evidence=shown)
    elif wanted:
        yield ok(_("LD_PRELOAD contains {path}", path=wanted[0]))
    else:
        yield skip(_("LD_PRELOAD is not set; `envcheck train` sets it"))


def check_corex(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The CoreX installation matches the kernel driver; otherwise the tool lists cards but frameworks find none."""
    known = schemas.read_kernel(facts)
    running = (known.versions.get("iluvatar") if known else None) or driver_version(v)
    named = [found[1] for path in toolkit_trees(facts, v) if (found := re.search(r"corex-(\d+\.\d+)", path))]
    short = re.match(r"\d+\.\d+", running or "")
    if not toolkit_trees(facts, v):
        yield skipped_because("toolkit.present")
    elif short is None and not v.devices:
        yield skipped_because("driver.tool")
    elif not named or short is None:
        yield unknown(_("cannot determine the versions of the driver and CoreX"))
    elif short[0] in named:
        yield ok(_("driver {running}, CoreX {named}", running=running, named=join(", ", named)))
    else:
        words = _("On the host, install the driver that matches the image's CoreX, or choose an image for this driver.")
        seen = _("driver is {running}, but CoreX is {named}", running=running, named=join(", ", named))
        shown = quote_values("ls /usr/local", corex=", ".join(named))
        other = re.match(r"\d+\.\d+", (v.document.tool_version if v.document else None) or "")
        cause = "driver.agrees" if other and other[0] in named else ""  # the tool is from this tree
        yield suppressed_by(
            cause,
            warn_or_fail(
                local_severity(facts),
                seen,
                fix(words, driver_install_command(facts, v), *vendor_commands(v, "driver")),
                evidence=shown,
            ),
        )


CHECKS: tuple[Check, ...] = (
    device_check(
        "devices.chips",
        check_chips,
        before="devices.visible",
        reads="ixsmi",
        source="ERNIE guide for Iluvatar; ix-device-plugin splitboard",
        rule="FAIL if a card lacks a chip",
        fix="Check the PCI bus.",
    ),
    vendor_check(
        "toolkit.preload",
        check_preload,
        before="toolkit.copies",
        reads="LD_PRELOAD, /usr/local/corex*",
        source="ERNIE guide for Iluvatar",
        rule="FAIL if LD_PRELOAD names a libcuda.so.1 that does not exist",
        fix="Correct the path.",
    ),
    vendor_check(
        "toolkit.corex",
        check_corex,
        reads="/sys/module/iluvatar/version, ixsmi, /usr/local/corex*",
        source="Paddle#73741; FlagTree wiki",
        rule="FAIL if no CoreX installation has the driver's release; WARN on hosts that run jobs in containers",
        fix="Install driver and CoreX of the same release.",
    ),
)
