"""What one recipe's job asks of this machine; run when a job is named (--model, --method)."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.checks.devices import conflicts, device_memory
from envcheck.checks.host.system import SHM_GIB
from envcheck.checks.software import compatibility
from envcheck.core import versions
from envcheck.core.check import Check, of_job
from envcheck.core.derived.driver import unlisted_because
from envcheck.core.derived.installed import installed
from envcheck.core.facts import Disk, Facts, Fit, Host, VendorFacts, Wanted
from envcheck.core.findings import (
    GIB,
    fail,
    figures,
    follows,
    gib,
    missing,
    not_told,
    of_device,
    ok,
    skip,
    told_by,
    unknown,
    warn,
)
from envcheck.core.findings import command as asked
from envcheck.core.installed_versions import firmware_version, toolkit_version
from envcheck.core.key_value import driver_version
from envcheck.core.model import Device, Finding, Remedy, Status
from envcheck.settings.thresholds import least_share
from envcheck.vendors import VENDORS
from probes.host.package_names import normalize_name

MIB_PER_GIB = 1024


def device(facts: Facts) -> Iterator[Finding]:
    """The job's kind of device is in this machine."""
    wanted = _wanted(facts)
    here = [v for v in facts.vendors if v.name == wanted.device]
    if wanted.device in ("cpu", "", "auto"):
        yield ok("the job runs on the CPU")
    elif here and here[0].devices:
        yield ok(f"{len(here[0].devices)} × {here[0].vendor.title}")
    elif here:
        yield follows(unlisted_because(here[0]))
    else:
        found = ", ".join(v.vendor.title for v in facts.vendors) or "no accelerator"
        title = VENDORS[wanted.device].title if wanted.device in VENDORS else wanted.device
        words = f"Choose a recipe for this machine, or run it where there is {title}."
        yield fail(
            f"the job wants {wanted.device}, this machine has {found}",
            words,
            "envcheck recipes",
            evidence=_recipe(facts, device=wanted.device),
        )


def cards(facts: Facts) -> Iterator[Finding]:
    """There are as many devices as the job starts ranks on one node."""
    wanted, v = _wanted(facts), _mine(facts)
    if wanted.cards is None or wanted.device in ("cpu", ""):
        yield skip("the job names no number of devices")
    elif (
        v is None
        or (not v.devices and v.document is None)
        or (not v.devices and not (v.document and v.document.truncated))
    ):
        yield follows("job.device")
    elif v.document and v.document.truncated and len(v.devices) < wanted.cards:
        own = unknown(f"the tool's answer is cut off after {len(v.devices)} devices")
        yield told_by("driver.whole_answer", own)
    elif len(v.devices) < wanted.cards:
        seen = f"{len(v.devices)} devices, the job wants {wanted.cards}"
        words = f"Use a machine with more, or another method. {_source(facts, 'hardware.cards')}"
        own = fail(seen, words, "envcheck recipes", evidence=_recipe(facts, cards=wanted.cards))
        yield told_by("devices.count" if len(v.devices) + missing(facts, v) >= wanted.cards else "", own)
    else:
        yield ok(f"{len(v.devices)} devices, {wanted.cards} wanted")


def memory(facts: Facts) -> Iterator[Finding]:
    """Each device has the memory that the job wants, by its recipe and by the planner, and has it free."""
    wanted, v = _wanted(facts), _mine(facts)
    if wanted.memory_gib is None or wanted.device in ("cpu", ""):
        yield _planned(wanted.fit) if wanted.fit else skip("the job names no device memory")
        return
    if v is None or not v.devices:
        yield follows("job.device")
        return
    sizes = [d.memory_total_mib for d in v.devices if d.memory_total_mib is not None]
    if not sizes:
        yield unknown("the devices' memory could not be told")
        return
    least = wanted.memory_gib * MIB_PER_GIB * least_share(facts)
    if min(sizes) < least:
        seen = f"{min(sizes) / MIB_PER_GIB:.0f} GiB a device, the job wants {wanted.memory_gib:g}"
        yield fail(
            seen,
            f"Use larger devices, or a smaller method. {_source(facts, 'hardware.memory_gib')}",
            "envcheck recipes",
            evidence=_recipe(facts, memory_gib=wanted.memory_gib),
        )
    elif full := device_memory.crowded(facts, v):
        yield _too_full(wanted, v, full, len(sizes) - len(full))
    else:
        seen = f"{min(sizes) / MIB_PER_GIB:.0f} GiB a device, {wanted.memory_gib:g} wanted"
        yield _planned(wanted.fit, f"{seen}; ") if wanted.fit else ok(seen)


def _too_full(wanted: Wanted, v: VendorFacts, full: list[Device], fitting: int) -> Finding:
    """In the place of devices.processes, which tells of the same processes."""
    enough = min(wanted.cards or len(v.devices), len(v.devices))
    here = conflicts.processes_on(v, full)
    owners = f": {conflicts.listed(here)}" if here else ""
    seen = f"{fitting} devices have their {wanted.memory_gib:g} GiB free, {enough} are wanted{owners}"
    shown = of_device(v, max(full, key=lambda d: d.memory_used_mib or 0), "memory_used_mib")
    return fail(
        seen, "Stop who holds it.", *conflicts.look(v, here), *v.vendor.commands.get("list", ()), evidence=shown
    )


def _planned(fit: Fit, before: str = "") -> Finding:
    status = {True: Status.OK, False: Status.FAIL, None: Status.UNKNOWN}[fit.fits]
    return Finding("", status, f"{before}{fit.reason}", fit.remedy)


def degrees(facts: Facts) -> Iterator[Finding]:
    """Heads, layers and experts of the published model divide by the job's parallel degrees."""
    found = _wanted(facts).degrees
    if found is None:
        yield skip("the model is none that the planner knows, or nothing is trained")
    elif found.fits:
        yield ok(found.reason)
    elif found.fits is None:
        yield unknown(found.reason)
    else:
        remedy = found.remedy or Remedy("Take other degrees.")
        yield fail(found.reason, remedy.words, *remedy.commands, evidence=_recipe(facts, method=_wanted(facts).method))


def architecture(facts: Facts) -> Iterator[Finding]:
    """The processor is one that the job's image and wheels are made for."""
    wanted, here = _wanted(facts), (facts.host or Host()).architecture
    if not wanted.architectures:
        yield skip("the job names no architecture")
    elif not here:
        yield not_told(facts, "ask host")
    elif here in wanted.architectures:
        yield ok(here)
    else:
        seen = f"{here}, the job's image and wheels are for {', '.join(wanted.architectures)}"
        yield fail(seen, "Use another host or image.", "uname -m", evidence=figures("uname", machine=here))


def driver(facts: Facts) -> Iterator[Finding]:
    """The driver is at least the one that the recipe names."""
    v = _mine(facts)
    minimum, found = _wanted(facts).driver_minimum, driver_version(v) if v else None
    absent = minimum and not found and not (v and v.devices)
    if absent:
        yield follows("job.device")
        return
    own = _at_least("driver", minimum, found, facts)
    yield compatibility.wants_newer(v, own) if v else own


def firmware(facts: Facts) -> Iterator[Finding]:
    """The firmware is at least the one that the recipe names."""
    v = _mine(facts)
    minimum, found = _wanted(facts).firmware_minimum, firmware_version(v) if v else None
    absent = minimum and not found and not (v and v.devices)
    yield follows("job.device") if absent else _at_least("firmware", minimum, found, facts)


def toolkit(facts: Facts) -> Iterator[Finding]:
    """The toolkit, where the job runs on the host, is at least the one that the recipe names."""
    wanted, v = _wanted(facts), _mine(facts)
    if wanted.image and wanted.toolkit_minimum:
        yield skip(f"{wanted.toolkit_minimum} stands in the image")
    else:
        yield _at_least("toolkit", wanted.toolkit_minimum, toolkit_version(facts, v) if v else None, facts)


def host_memory(facts: Facts) -> Iterator[Finding]:
    """The host has the memory that loading and offloading take."""
    wanted, host = _wanted(facts).host_memory_gib, facts.host
    free = (host or Host()).memory_available_bytes
    yield _room("host memory", wanted, free, facts, "ask host", "free -g")


def shm(facts: Facts) -> Iterator[Finding]:
    """/dev/shm is as large as the recipe gives its container."""
    wanted = _wanted(facts)
    there = facts.disks.get("/dev/shm", Disk()).total_bytes if facts.disks else None
    if wanted.shm_gib is not None and wanted.image and not (facts.host and facts.host.in_container):
        yield skip(f"the container is started with {wanted.shm_gib:g} GiB")
        return
    found = _room(
        "/dev/shm",
        wanted.shm_gib,
        there,
        facts,
        "ask disks",
        f"sudo mount -o remount,size={wanted.shm_gib or 16:g}G /dev/shm",
        "Make it larger.",
    )
    covered = facts.vendors and (wanted.shm_gib or 0) <= SHM_GIB  # by what that check advises where cards are
    yield told_by("host.shm", found) if covered else found


def disk(facts: Facts) -> Iterator[Finding]:
    """The working folder has room for weights and checkpoints."""
    disks = facts.disks or {}
    free = (disks.get(".") or disks.get("/") or Disk()).free_bytes
    yield _room("free disk", _wanted(facts).disk_gib, free, facts, "ask disks", "df -h .")


def packages(facts: Facts) -> Iterator[Finding]:
    """The packages that the recipe names are installed, in versions that it allows."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    wanted, found = _wanted(facts), installed(facts)
    if not wanted.packages:
        yield skip("the recipe names no package")
    elif found is None:
        yield not_told(facts, "ask packages")
    else:
        wrong, untold = [], []
        for name, specifier in wanted.packages:
            version = found.packages.get(normalize_name(name))
            try:
                fits = version is not None and SpecifierSet(specifier).contains(version, prereleases=True)
            except InvalidSpecifier:
                untold.append(name)
                continue
            if not fits:
                wrong.append(f"{name}{specifier} ({version or 'absent'})")
        fix = f"envcheck provision --model {wanted.recipe} --method {wanted.method}"
        if wrong:
            seen = f"{len(wrong)} of {len(wanted.packages)} not as wanted: {', '.join(wrong[:4])}"
            words = (
                "Let envcheck install them, or train in the image." if wanted.image else "Let envcheck install them."
            )
            shown = figures(
                f"packages of {found.executable or 'python3'}",
                **{n: found.packages.get(normalize_name(n), "absent") for n, _ in wanted.packages[:4]},
            )
            yield (warn if wanted.image else fail)(seen, words, fix, evidence=shown)
        elif untold:
            yield unknown(f"{untold[0]}: the recipe's version range cannot be read")
        else:
            yield ok(f"all {len(wanted.packages)} packages are there")


def _at_least(what: str, minimum: str | None, found: str | None, facts: Facts) -> Finding:
    if minimum is None:
        return skip(f"the recipe names no {what}")
    if found is None:
        return unknown(f"the {what}'s version could not be told; {minimum} is wanted")
    reached = versions.at_least(found, minimum)
    if reached is None:
        return unknown(f"{what} {found} cannot be compared with {minimum}")
    if reached:
        return ok(f"{what} {found}, {minimum} wanted")
    words = f"Upgrade it. {_source(facts, f'{what}_minimum')}"
    show = f"envcheck recipes show {_wanted(facts).recipe}"
    shown = _recipe(facts, **{f"{what}_minimum": minimum})
    return fail(f"{what} {found} is older than {minimum}", words, show, evidence=shown)


def _room(
    what: str,
    wanted_gib: float | None,
    there: int | None,
    facts: Facts,
    key: str,
    command: str,
    words: str = "Free some, or use a larger host.",
) -> Finding:
    if wanted_gib is None:
        return skip(f"the recipe names no {what}")
    if there is None:
        return not_told(facts, key)
    if there >= wanted_gib * GIB * least_share(facts):
        return ok(f"{gib(there)}, {wanted_gib:g} wanted")
    seen = f"{gib(there)} of {what}, the job wants {wanted_gib:g} GiB"
    return fail(seen, words, command, evidence=figures(asked(key), bytes=there))


def _recipe(facts: Facts, **values: object) -> tuple[str, ...]:
    return figures(f"recipe {_wanted(facts).recipe}", **values)


def _wanted(facts: Facts) -> Wanted:
    assert facts.wanted is not None, "job checks run when a job is named"
    return facts.wanted


def _mine(facts: Facts) -> VendorFacts | None:
    return next((v for v in facts.vendors if v.name == _wanted(facts).device), None)


def _source(facts: Facts, key: str) -> str:
    said = _wanted(facts).sources.get(key, "")
    return f"Source: {said}." if said else ""


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
        rule="FAIL when fewer cards are there than the job takes; follows from devices.count where it misses them",
        fix="A machine with more, or another method.",
    ),
    of_job(
        "job.memory",
        memory,
        reads="the vendor's tool, the memory planner",
        rule="FAIL when a card has, or has free, less than the recipe names, or the planner says that it does not fit",
        fix="The planner's smallest change.",
    ),
    of_job(
        "job.degrees",
        degrees,
        reads="the recipe, the planner's models",
        source="vLLM's ERNIE MoE source; the recipes' frameworks",
        rule="FAIL when a degree does not divide, or the framework refuses the layout",
        fix="A degree that divides, by a recipe of your own or train's --set.",
    ),
    of_job(
        "job.architecture",
        architecture,
        reads="architecture",
        rule="FAIL when the recipe is for another processor",
        fix="Another host or image.",
    ),
    of_job(
        "job.driver",
        driver,
        reads="driver version",
        rule="FAIL when it is older than the recipe's minimum; follows from driver.version below every documented one",
        fix="A newer driver.",
    ),
    of_job(
        "job.firmware",
        firmware,
        reads="firmware version",
        rule="FAIL when it is older than the recipe's minimum",
        fix="A newer firmware.",
    ),
    of_job(
        "job.toolkit",
        toolkit,
        reads="toolkit version",
        rule="FAIL when it is older than the recipe's minimum",
        fix="A newer toolkit, or the recipe's image.",
    ),
    of_job(
        "job.host_memory",
        host_memory,
        reads="memory",
        rule="FAIL when less is free than the recipe wants",
        fix="Free some, or a larger host.",
    ),
    of_job(
        "job.shm",
        shm,
        reads="/dev/shm",
        rule="FAIL when it is smaller than the recipe wants",
        fix="Remount it, also by doctor --fix; --shm-size.",
    ),
    of_job(
        "job.disk",
        disk,
        reads="disks",
        rule="FAIL when less is free than the recipe wants",
        fix="Free some, or another disk.",
    ),
    of_job(
        "job.packages",
        packages,
        reads="installed packages",
        rule="FAIL when one is missing or of another version; WARN where the recipe has an image",
        fix="envcheck provision.",
    ),
)
