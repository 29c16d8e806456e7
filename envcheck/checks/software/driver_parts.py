"""The driver's parts: its kernel module, for this kernel and the next, its libraries, and what was mounted for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, of_vendor
from envcheck.core.derived.libraries import judge_libraries
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    fail,
    figures,
    follows,
    graded,
    here,
    in_container,
    no_rule,
    not_told,
    ok,
    reading,
    skip,
    unknown,
    warn,
)
from envcheck.core.model import Finding, Outcome
from probes.host import kernel_modules, schemas
from probes.host.schemas import Kernel, Paths


@reading(schemas.kernel, "ask kernel")
def module(seen: Kernel, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The driver's kernel module is loaded: an update of the kernel leaves it behind."""
    if not v.vendor.kernel_modules:
        yield no_rule(v, "kernel modules")
    elif mine := kernel_modules.of_vendor(v, seen.loaded):
        versions = sorted({seen.versions[name] for name in mine if name in seen.versions})
        yield ok(f"{', '.join(mine[:3])} loaded{f', version {versions[0]}' if versions else ''}")
    elif v.devices or v.nodes:
        yield ok("no module is named in /proc/modules, but the driver is at work")
    elif not v.pci:
        yield follows("devices.present")
    elif v.tool and v.tool.outcome is Outcome.ABSENT and not _elsewhere(v, seen):
        yield follows("driver.tool")
    else:
        yield _not_loaded(v, seen)


@reading(schemas.kernel, "ask kernel")
def next_kernel(seen: Kernel, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The kernel that starts next has the driver's module, too."""
    if not v.vendor.kernel_modules:
        yield no_rule(v, "kernel modules")
    elif not seen.bootable:
        yield (
            skip("no kernel is installed here (a container)")
            if in_container(facts)
            else unknown("no kernel with an image to start was found")
        )
    elif kernel_modules.is_gone(facts, v):
        yield follows("driver.module")
    elif not kernel_modules.of_vendor(v, seen.kernels.get(seen.running, ())):
        yield unknown(f"/lib/modules/{seen.running} lists no module of the driver: it is loaded from elsewhere")
    elif kernel_modules.of_vendor(v, seen.kernels.get(newest := max(seen.bootable, key=_natural), ())):
        yield ok(f"kernel {newest} has it")
    else:
        words = "Build the module for it before the next reboot, or hold the kernel at the one that runs."
        fix = ("dkms status", f"sudo dkms autoinstall -k {newest}")
        shown = figures(f"/lib/modules/{newest}", driver_modules=0)
        yield warn(f"kernel {newest} is installed, without the driver's module", words, *fix, evidence=shown)


@reading(schemas.kernel, "ask kernel")
def build_tools(seen: Kernel, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Where no driver is loaded, it can be installed: the kernel's headers and a compiler are there."""
    if v.devices or kernel_modules.of_vendor(v, seen.loaded):
        yield ok("not needed: the driver is loaded")
    elif in_container(facts):
        yield skip("a driver is installed on the host")
    elif seen.headers is None or not seen.tools:
        yield not_told(facts, "ask kernel")
    elif missing := [
        *([] if seen.headers else ["headers"]),
        *(tool for tool in ("gcc", "make") if not seen.tools[tool]),
    ]:
        words = "Install them before the driver: its installer stops half-way without them."
        shown = figures(f"kernel {seen.running}", missing=", ".join(missing))
        yield warn(f"not there: {', '.join(missing)}", words, *_packages(facts, seen), evidence=shown)
    else:
        yield ok(f"headers of {seen.running}, gcc and make")


@reading(schemas.kernel, "ask kernel")
def secure_boot(seen: Kernel, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Secure Boot does not stand in the module's way."""
    if seen.secure_boot is None:
        yield unknown("whether Secure Boot is on may not be read", "Ask the firmware.", "mokutil --sb-state")
    elif not seen.secure_boot:
        yield ok("Secure Boot is off")
    elif v.devices or kernel_modules.of_vendor(v, seen.loaded):
        yield ok("Secure Boot is on, and the driver's module was accepted")
    else:
        words = "Sign the module with a key of yours and enrol it, or turn Secure Boot off: the kernel refuses it."
        shown = figures("the EFI variable", SecureBoot=1)
        yield warn(
            "Secure Boot is on, and no module of the driver is loaded", words, "mokutil --sb-state", evidence=shown
        )


def library(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The driver's libraries can be loaded by a program here."""
    names = v.vendor.driver_libraries
    yield judge_libraries(facts, v, schemas.libraries(facts), names) if names else no_rule(v, "driver libraries")


@reading(schemas.paths, "ask paths")
def mounts(seen: Paths, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """What should be a file of the driver is one: an engine makes a folder of a mounted file that is missing."""
    there = {path: seen.paths[path].kind for path in v.vendor.driver_files if path in seen.paths}
    folders = [path for path, kind in there.items() if kind == "folder"]
    if not v.vendor.driver_files:
        yield no_rule(v, "files of the driver")
    elif folders:
        words = f"Remove the folder and mount the file from where the host has it: command -v {v.vendor.tool} tells."
        fix = (f"sudo rmdir {' '.join(folders)}",)
        shown = figures(f"stat {folders[0]}", kind="folder")
        yield graded(here(facts), f"a folder: {', '.join(folders)}", words, *fix, evidence=shown)
    elif there:
        yield ok(f"{len(there)} files of the driver are files")
    else:
        yield skip("none of the driver's files is in a documented place")


def _not_loaded(v: VendorFacts, seen: Kernel) -> Finding:
    shown = figures("/proc/modules", kernel=seen.running, cards=len(v.pci or ()), driver_modules=0)
    if other := _elsewhere(v, seen):
        words = f"Build the driver's module for {seen.running}, or start the kernel that has it, {other}."
        fix = ("dkms status", f"sudo dkms autoinstall -k {seen.running}")
        return fail(f"the driver's module is there for {other}, but {seen.running} runs", words, *fix, evidence=shown)
    words = "Load it, and read the kernel's log when it does not come; else install the driver again."
    return fail("no module of the driver is loaded", words, *commands(v, "driver"), evidence=shown)


def _elsewhere(v: VendorFacts, seen: Kernel) -> str:
    """Another installed kernel that has the module; the newest."""
    others = [
        release
        for release, names in seen.kernels.items()
        if release != seen.running and kernel_modules.of_vendor(v, names)
    ]
    return max(others, key=_natural, default="")


def _natural(release: str) -> tuple[tuple[int, str], ...]:
    """5.10.0-216 after 5.10.0-99."""
    return tuple(
        (int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[a-z]+", release.lower())
    )


def _packages(facts: Facts, seen: Kernel) -> tuple[str, ...]:
    name = (facts.host and facts.host.os) or ""
    if re.search("Debian|Ubuntu", name):
        return (f"sudo apt-get install linux-headers-{seen.running} gcc make dkms",)
    return (f"sudo dnf install kernel-devel-{seen.running} gcc make dkms",)


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "driver.module",
        module,
        reads="/proc/modules, modules.dep of each kernel",
        source="compute-gpu-installation#18",
        rule="FAIL when cards are on the bus and no module of the driver is loaded",
        fix="Rebuild the module for the running kernel (dkms), or start the kernel that has it.",
    ),
    of_vendor(
        "driver.next_kernel",
        next_kernel,
        reads="modules.dep of each kernel, /boot",
        source="compute-gpu-installation#18",
        rule="WARN when the newest kernel with an image in /boot lacks the module",
        fix="Build the module for it, or hold the kernel.",
    ),
    of_vendor(
        "driver.build_tools",
        build_tools,
        reads="/lib/modules, PATH",
        source="ascend-deployer README; crhy/spaced#20",
        rule="WARN when no driver is loaded and headers, gcc or make are missing",
        fix="Install the kernel's headers, gcc, make and dkms.",
    ),
    of_vendor(
        "driver.secure_boot",
        secure_boot,
        reads="the EFI variable SecureBoot",
        source="the kernel's module signing: unsigned modules are refused",
        rule="WARN when it is on and no module of the driver is loaded",
        fix="Sign and enrol the module, or turn Secure Boot off.",
    ),
    of_vendor(
        "driver.library",
        library,
        reads="dlopen in a child",
        source="vllm-ascend#1440",
        rule="FAIL when it cannot be loaded; WARN when it is missing where containers can be started",
        fix="Mount the driver's folders, or put them on the library path.",
    ),
    of_vendor(
        "driver.mounts",
        mounts,
        reads="npu-smi, ixsmi, version.info, install record",
        source="ms-swift's NPU page against ERNIE's: sbin and bin",
        rule="FAIL when one of them is a folder; WARN where containers can be started",
        fix="Remove the folder, and mount the file from its real place.",
    ),
)
