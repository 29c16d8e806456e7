"""Checks that apply only to Kunlunxin: XRE, card generations, errors of the driver, BKCL's variables, linked cards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from envcheck.core import versions
from envcheck.core.check import Check, device_check, vendor_check
from envcheck.core.derived.key_value import driver_version
from envcheck.core.derived.link_groups import judge_group
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    count_missing_devices,
    fail,
    format_ranges,
    name_devices,
    ok,
    pci_commands,
    quote_answer,
    quote_values,
    report_unanswered,
    skip,
    skipped_because,
    unknown,
    vendor_commands,
    warn,
)
from envcheck.core.messages import _, join, ngettext, verbatim
from envcheck.core.model import Finding, Outcome, Remedy, Topology, diagnose, fix, manual
from probes.kunlunxin.firmware_versions import read_sbl_versions

PROBE_ERRORS = "read /proc/xpu/probe_error"
PROPERTIES = "run xpu-smi -q -x"
SBL_MINIMUM = "1.48"  # FastDeploy's installation page; FastDeploy#2660 and #5360 show failures with 1.39
GENERATION_3 = re.compile(r"P800", re.IGNORECASE)
GENERATION_4 = re.compile(r"M[13]00", re.IGNORECASE)
VISIBLE, CUDA = "XPU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"
TOPOLOGY = "run xpu-smi topo -m"


def check_xre(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """xpu-smi finds the runtime XRE; without it, the tool shows an interface's version and programs find no card."""
    runtime = v.document.runtime_version if v.document else None
    reported = v.document.driver_version if v.document else None
    if v.document is None or not v.devices:
        yield skipped_because("driver.tool")
    elif runtime and (running := driver_version(v)) and not _is_same_release(runtime, running):
        seen = _("XRE {runtime} with driver {driver}: no document names this pair", runtime=runtime, driver=running)
        words = _("Use an image whose XRE has the driver's release, or verify the pair with `envcheck doctor --deep`.")
        shown = quote_answer(facts.answers.get("run xpu-smi"), runtime)
        yield unknown(seen, diagnose(words, "envcheck doctor --deep"), evidence=shown)
    elif runtime:
        yield ok(_("XRE {runtime}", runtime=runtime))
    elif reported and driver_version(v) != reported:
        words = _("Use an image that contains XRE, or mount /usr/local/xpu from the host.")
        seen = _("xpu-smi finds no XRE: it shows the interface version {reported}", reported=reported)
        yield warn(seen, diagnose(words, "ls -d /usr/local/xpu*"), evidence=quote_answer(v.tool, reported))
    else:
        yield unknown(_("xpu-smi does not report the version of XRE"))


def _is_same_release(runtime: str, driver: str) -> bool:
    """XRE 5.0.21 belongs to driver 5.0.21.26; older tools print 4.0 or 4.31 for both."""
    left, right = runtime.split("."), driver.split(".")
    common = min(3, len(left), len(right))
    return left[:common] == right[:common] if int(left[0]) >= 5 else left[0] == right[0]


def check_probe_errors(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The driver initialised every card; the drivers 4.x list the cards that failed."""
    answer = facts.answers.get(PROBE_ERRORS)
    if answer is None or answer.outcome is Outcome.ABSENT:
        yield skip(_("this driver has no list of failed cards"))
    elif answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        yield report_unanswered(facts, PROBE_ERRORS)
    elif lines := [line.strip() for line in answer.out.splitlines() if line.strip()]:
        seen = ngettext(
            "the driver could not initialise {count} card: {line}",
            "the driver could not initialise {count} cards; the first: {line}",
            len(lines),
            line=lines[0][:160],
        )
        words = _(
            "Reboot. If it fails again, turn on Above 4G Decoding in the BIOS, then reseat the card or use fewer cards."
        )
        yield fail(
            seen, diagnose(words, *chain(*pci_commands(facts, v))), evidence=quote_answer(answer, *lines[0].split()[:2])
        )
    else:
        yield ok(_("the driver lists no failed card"))


def check_sbl(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The SBL firmware of all P800 cards has the version that published set-ups need."""
    answer = facts.answers.get(PROPERTIES)
    found = read_sbl_versions(answer.out) if answer else ()
    reached = [versions.is_at_least(sbl, SBL_MINIMUM) for sbl in found]
    old = [place for place, is_new in enumerate(reached) if is_new is False]
    if not any(GENERATION_3.search(device.name or "") for device in v.devices):
        yield skip(_("no document has a minimum for the firmware of these cards"))
    elif v.document and v.document.truncated:
        yield skipped_because("driver.whole_answer")
    elif len(found) != len(v.devices) or (None in reached and not old):
        words = _("Compare the versions with {minimum}, the minimum for FastDeploy.", minimum=SBL_MINIMUM)
        yield unknown(
            _("xpu-smi does not report the SBL firmware of each card"),
            diagnose(words, "xpu-smi -q | grep -E '^XPU|SBL'"),
            evidence=quote_answer(answer),
        )
    elif old:
        seen = _(
            "{devices}: SBL firmware {found} is older than {minimum}, the minimum for FastDeploy",
            devices=name_devices(v.devices[place] for place in old),
            found=join(", ", sorted({found[place] for place in old})),
            minimum=SBL_MINIMUM,
        )
        words = _("Get the firmware and its installation procedure from the vendor: no public document has them.")
        yield warn(seen, manual(words), evidence=quote_answer(answer, "sbl", found[old[0]]))
    else:
        yield ok(_("SBL firmware {found}", found=join(", ", sorted(set(found)))))


def check_generation(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """All cards are P800: the wheels and images of the published set-ups do not run on older cards."""
    names = sorted({d.name for d in v.devices if d.name})
    older = [name for name in names if re.search(v.vendor.legacy_devices, name, re.IGNORECASE)]
    if not v.devices:
        yield skipped_because("devices.present")
    elif older:
        seen = _("{names}: an older generation than P800", names=join(", ", older))
        words = _(
            "The recipes need P800 cards. Other training needs the wheel from the index stable/xpu, not "
            "stable/xpu-p800."
        )
        yield warn(seen, manual(words), evidence=quote_answer(v.tool, older[0]))
    elif names and all(GENERATION_3.search(name) for name in names):
        yield ok(join(", ", names))
    elif names and all(GENERATION_3.search(name) or GENERATION_4.search(name) for name in names):
        seen = _("{names}: no published set-up names these cards", names=join(", ", names))
        words = _("Test the machine with `envcheck doctor --deep` before you rely on it.")
        yield unknown(seen, manual(words), evidence=quote_answer(v.tool, names[0]))
    else:
        yield unknown(_("cannot determine the generation of the cards"))


def check_visible_agree(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """XPU_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES are the same: different programs read different ones."""
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    own, cuda = (facts.environment.get(name) for name in (VISIBLE, CUDA))
    if own is None or cuda is None:
        yield skip(_("{own} and {cuda} are not both set", own=VISIBLE, cuda=CUDA))
    elif own == cuda:
        yield ok(verbatim(f"{VISIBLE}={own}"))
    else:
        seen = _("{own_name} is {own}, {cuda_name} is {cuda}", own_name=VISIBLE, own=own, cuda_name=CUDA, cuda=cuda)
        words = _(
            "Set both to the same list: {own_name} has priority, but some libraries read only the other.",
            own_name=VISIBLE,
        )
        shown = quote_values("environment", **{VISIBLE: own, CUDA: cuda})
        yield warn(seen, fix(words, f"export {CUDA}=${VISIBLE}"), evidence=shown)


def check_linked_group(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The cards of the job, or the visible cards, are linked to each other by XPULink, or are whole groups."""
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    value = facts.environment.get(VISIBLE) or facts.environment.get(CUDA) or ""
    listed = sorted({int(number) for number in re.findall(r"\d{1,4}", value)})
    job = facts.wanted.devices if facts.wanted and facts.wanted.device == v.name else None
    chosen = list(job or listed or range(len(v.devices)))
    if len(chosen) < 2:
        yield skip(_("fewer than two cards are used"))
    elif chosen[-1] >= len(v.devices):
        yield skipped_because("devices.visible")
    elif count_missing_devices(facts, v) or (v.document and v.document.truncated):
        yield skipped_because("devices.count" if count_missing_devices(facts, v) else "driver.whole_answer")
    elif v.topology is None or chosen[-1] >= len(v.topology.names):
        yield skipped_because("links.topology")
    else:
        shown = quote_values("environment", **{VISIBLE: value}) if value and not job else ()
        yield _describe_group(facts, v, v.topology, chosen, shown)


def _describe_group(
    facts: Facts, v: VendorFacts, topology: Topology, chosen: list[int], shown: tuple[str, ...]
) -> Finding:
    verdict = judge_group(topology, v.vendor.group_link, v.vendor.group_size, chosen)
    if verdict.fits:
        return ok(_("cards {cards} work together", cards=format_ranges(chosen)))
    first, second = verdict.unlinked or (0, 0)
    row, column = topology.names[first], topology.names[second]
    relation = topology.matrix.get(row, {}).get(column) or ""
    shown = shown or quote_answer(facts.answers.get(TOPOLOGY), row, relation)
    shown = shown or quote_values(v.vendor.tool, **{f"{row} {column}": relation})
    seen = _("cards {first} and {second} are used together, but have no direct link", first=first, second=second)
    if verdict.fits is None:
        words = _("Use all cards of the host, or fewer cards that are all linked to each other.")
        return unknown(seen, diagnose(words, *vendor_commands(v, "topology")), evidence=shown)
    if not verdict.groups:
        words = _("Use a host, or ask the scheduler for cards, with {count} linked to each other.", count=len(chosen))
        return fail(seen, diagnose(words, *vendor_commands(v, "topology")), evidence=shown)
    named = join(_(" or "), map(format_ranges, verdict.groups))
    words = _("Use cards that are linked to each other with --devices: {groups}.", groups=named)
    return fail(seen, diagnose(words, *vendor_commands(v, "topology")), evidence=shown)


def check_bkcl_debug(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """BKCL_DEBUG is a number; with a word, BKCL crashes at the start."""
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    value = facts.environment.get("BKCL_DEBUG")
    if not value:
        yield skip(_("BKCL_DEBUG is not set"))
    elif re.fullmatch(r"\d{1,4}", value):
        yield ok(verbatim(f"BKCL_DEBUG={value}"))
    else:
        shown = quote_values("environment", BKCL_DEBUG=value)
        words = _("Set a number: BKCL reads it as one and crashes with a stoi error otherwise.")
        yield fail(verbatim(f"BKCL_DEBUG={value[:40]}"), fix(words, "export BKCL_DEBUG=1"), evidence=shown)


def check_bkcl_nics(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """BKCL_RDMA_NICS names one existing network interface for each card, in the order of the cards."""
    if facts.environment is None or facts.network is None:
        yield report_unanswered(facts, "ask environment", "ask network")
        return
    value = facts.environment.get("BKCL_RDMA_NICS")
    if not value:
        yield skip(_("BKCL_RDMA_NICS is not set"))
        return
    named, shown = [name.strip() for name in value.split(",")], quote_values("environment", BKCL_RDMA_NICS=value)
    there = quote_values("interfaces", names=", ".join(facts.network.interfaces))
    missing = sorted({name for name in named if name not in facts.network.interfaces})
    if missing:
        seen = _("BKCL_RDMA_NICS names {missing}, which this host does not have", missing=join(", ", missing))
        yield fail(seen, _ask_for_nics(), evidence=(*shown, *there))
    elif v.devices and len(named) != len(v.devices):
        seen = _("BKCL_RDMA_NICS has {count} names for {cards} cards", count=len(named), cards=len(v.devices))
        yield fail(seen, _ask_for_nics(), evidence=shown)
    else:
        yield ok(_("one interface for each of {count} cards", count=len(named)))


def _ask_for_nics() -> Remedy:
    words = _("List one interface of this host for each card, in the order of the cards: the nearest in the topology.")
    return diagnose(words, "ip -brief address", "xpu-smi topo -m")


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "driver.probe_errors",
        check_probe_errors,
        reads="/proc/xpu/probe_error",
        source="XRE guide",
        rule="FAIL if the driver lists a card that it could not initialise",
        fix="Reboot, and check the BIOS.",
    ),
    device_check(
        "driver.sbl",
        check_sbl,
        reads="xpu-smi -q -x",
        source="FastDeploy's XPU installation page; FastDeploy#2660, FastDeploy#5360",
        rule="WARN if a P800 card has an SBL firmware older than 1.48; UNKNOWN if xpu-smi does not report it",
        fix="Update the firmware with the vendor's package.",
    ),
    device_check(
        "devices.card_series",
        check_generation,
        before="devices.visible",
        reads="xpu-smi",
        source="Paddle#73315, Paddle#77475",
        rule="WARN for cards older than P800; UNKNOWN for names without a published set-up",
        fix="Use P800 cards, or the wheel and image for the older generation.",
    ),
    device_check(
        "devices.visible_agree",
        check_visible_agree,
        before="devices.order",
        reads="environment variables",
        source="ERNIE, docs/devices/README_XPU.md; Paddle's XPU pages",
        rule="WARN if XPU_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES differ",
        fix="Set both to the same list.",
    ),
    device_check(
        "devices.linked_group",
        check_linked_group,
        reads="environment variables, xpu-smi topo -m",
        source="FastDeploy#2794",
        rule="FAIL if two of up to four cards that a job uses, or that are visible, have no XPULink between them",
        fix="Use cards 0-3 or 4-7.",
    ),
    vendor_check(
        "toolkit.xre",
        check_xre,
        reads="xpu-smi",
        source="Paddle's installation page for P800; Paddle#75925",
        rule="WARN if xpu-smi shows only the version of an interface; UNKNOWN if XRE and driver are of two releases",
        fix="Use an image that contains XRE, or mount it.",
    ),
    vendor_check(
        "network.bkcl_debug",
        check_bkcl_debug,
        reads="environment variables",
        source="public training scripts for P800",
        rule="FAIL if BKCL_DEBUG is not a number",
        fix="Set BKCL_DEBUG to a number.",
    ),
    vendor_check(
        "network.bkcl_nics",
        check_bkcl_nics,
        reads="environment variables, network interfaces",
        source="ERNIE, docs/devices/README_XPU.md",
        rule="FAIL if BKCL_RDMA_NICS names no interface of this host, or not one for each card",
        fix="List one interface for each card.",
    ),
)
