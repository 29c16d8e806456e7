"""The driver's parts: its kernel module, for this kernel and the next, its libraries, and what was mounted for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch

from envcheck.core.check import ILUVATAR, NPU, Check, of_vendor
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    fail,
    figures,
    follows,
    graded,
    here,
    in_container,
    not_told,
    ok,
    reading,
    skip,
    unknown,
    warn,
)
from envcheck.core.model import Finding, Outcome, Severity
from probes.host import schemas
from probes.host.schemas import Kernel, Library, Paths

# The libraries that come with the driver; those of the toolkit are judged there.
DRIVER_LIBRARIES = {
    "npu": ("libascend_hal.so",),
    "iluvatar": ("libixml.so",),
    "nvidia": ("libcuda.so.1", "libnvidia-ml.so.1"),
}
DCMI = "libdcmi.so"
DCMI_CHAIN = ("/usr/local/dcmi/libdcmi.so", "/usr/local/dcmi", "/usr/local", "/usr", "/")
# Files that documents mount into containers: of one that is missing on the host the engine makes an empty folder.
MOUNTED = {
    "npu": (
        *("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi", "/etc/ascend_install.info", "/etc/hccn.conf"),
        "/usr/local/Ascend/driver/version.info",
    ),
    "iluvatar": ("/usr/local/bin/ixsmi",),
}
OTHERS_WRITE = 0o022
NOT_FOUND = "cannot open shared object file"


@reading(schemas.kernel, "ask kernel")
def module(seen: Kernel, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The driver's kernel module is loaded: an update of the kernel leaves it behind."""
    if mine := _mine(v, seen.loaded):
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


def gone(facts: Facts, v: VendorFacts) -> bool:
    """Whether `module` is the one that tells why the vendor's tool fails."""
    seen = schemas.kernel(facts)
    absent = v.tool is None or v.tool.outcome is Outcome.ABSENT
    there = seen is None or _mine(v, seen.loaded) or v.devices or v.nodes or not v.pci
    return not there and not absent


@reading(schemas.kernel, "ask kernel")
def next_kernel(seen: Kernel, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The kernel that starts next has the driver's module, too."""
    if not seen.bootable:
        yield (
            skip("no kernel is installed here (a container)")
            if in_container(facts)
            else unknown("no kernel with an image to start was found")
        )
    elif gone(facts, v):
        yield follows("driver.module")
    elif not _mine(v, seen.kernels.get(seen.running, ())):
        yield unknown(f"/lib/modules/{seen.running} lists no module of the driver: it is loaded from elsewhere")
    elif _mine(v, seen.kernels.get(newest := max(seen.bootable, key=_natural), ())):
        yield ok(f"kernel {newest} has it")
    else:
        words = "Build the module for it before the next reboot, or hold the kernel at the one that runs."
        fix = ("dkms status", f"sudo dkms autoinstall -k {newest}")
        shown = figures(f"/lib/modules/{newest}", driver_modules=0)
        yield warn(f"kernel {newest} is installed, without the driver's module", words, *fix, evidence=shown)


@reading(schemas.kernel, "ask kernel")
def build_tools(seen: Kernel, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Where no driver is loaded, it can be installed: the kernel's headers and a compiler are there."""
    if v.devices or _mine(v, seen.loaded):
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
    elif v.devices or _mine(v, seen.loaded):
        yield ok("Secure Boot is on, and the driver's module was accepted")
    else:
        words = "Sign the module with a key of yours and enrol it, or turn Secure Boot off: the kernel refuses it."
        shown = figures("the EFI variable", SecureBoot=1)
        yield warn(
            "Secure Boot is on, and no module of the driver is loaded", words, "mokutil --sb-state", evidence=shown
        )


def library(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The driver's libraries can be loaded by a program here."""
    yield _loads(facts, v, DRIVER_LIBRARIES[v.name], "driver.tool")


def dcmi(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """libdcmi.so can be loaded: npu-smi, monitors and schedulers ask the cards through it."""
    yield _loads(facts, v, (DCMI,), "driver.library")


@reading(schemas.paths, "ask paths")
def dcmi_owner(seen: Paths, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """libdcmi.so and the folders above belong to root and to nobody else's pen: monitors refuse it otherwise."""
    if DCMI_CHAIN[0] not in seen.paths:
        yield follows("driver.dcmi", "no libdcmi.so in /usr/local/dcmi; follows from driver.dcmi")
    elif loose := [p for p in DCMI_CHAIN if p in seen.paths and seen.paths[p].mode & OTHERS_WRITE]:
        words = "Take the right to write from group and others: exporters call the library invalid."
        fix = (f"sudo chmod go-w {' '.join(loose)}",)
        shown = figures(f"stat {loose[0]}", mode=f"{seen.paths[loose[0]].mode:o}", uid=seen.paths[loose[0]].uid)
        yield warn(f"others may write {', '.join(loose)}", words, *fix, evidence=shown)
    else:
        yield ok(f"{DCMI_CHAIN[0]} may be written by its owner alone")


@reading(schemas.paths, "ask paths")
def mounts(seen: Paths, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """What should be a file of the driver is one: an engine makes a folder of a mounted file that is missing."""
    there = {path: seen.paths[path].kind for path in MOUNTED[v.name] if path in seen.paths}
    folders = [path for path, kind in there.items() if kind == "folder"]
    if folders:
        words = "Remove the folder and mount the file from where the host has it: command -v npu-smi tells."
        fix = (f"sudo rmdir {' '.join(folders)}",)
        shown = figures(f"stat {folders[0]}", kind="folder")
        yield graded(here(facts), f"a folder: {', '.join(folders)}", words, *fix, evidence=shown)
    elif there:
        yield ok(f"{len(there)} files of the driver are files")
    else:
        yield skip("none of the driver's files is in a documented place")


def is_folder(facts: Facts, path: str) -> bool:
    seen = schemas.paths(facts)
    return seen is not None and path in seen.paths and seen.paths[path].kind == "folder"


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
    others = [release for release, names in seen.kernels.items() if release != seen.running and _mine(v, names)]
    return max(others, key=_natural, default="")


def _mine(v: VendorFacts, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if any(fnmatch(name, pattern) for pattern in v.vendor.kernel_modules)]


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


def _loads(facts: Facts, v: VendorFacts, names: tuple[str, ...], cause: str) -> Finding:
    said = schemas.libraries(facts)
    if said is None or not any(name in said for name in names):
        silent = v.tool is not None and v.tool.outcome is Outcome.ABSENT
        return follows("driver.tool") if silent and said is not None else not_told(facts, "ask libraries")
    found = {name: said[name] for name in names if name in said}
    bad = next((name for name, one in found.items() if one.loads is not True), None)
    if bad:
        return unloadable(facts, v, bad, found[bad])
    by_path = [one.path for one in found.values() if one.path]
    return ok(f"{', '.join(found)}{f', by its path {by_path[0]}' if by_path else ''}")


def unloadable(facts: Facts, v: VendorFacts, name: str, one: Library) -> Finding:
    """A library that is missing on a host may be one that images bring."""
    missing = NOT_FOUND in one.error and one.error.startswith(name)
    grade = here(facts) if missing or name not in DRIVER_LIBRARIES[v.name] else Severity.FAIL
    words = (
        "Mount the driver's folders into the container, or source the vendor's set_env.sh."
        if missing
        else "Keep one version of driver and toolkit on the library path; the loader names what does not fit."
    )
    fix = (f"ldconfig -p | grep {name}", "echo $LD_LIBRARY_PATH")
    return graded(
        grade,
        f"{name} cannot be loaded: {one.error}"[:300],
        words,
        *fix,
        evidence=figures("dlopen", **{name: one.error}),
    )


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
        "driver.dcmi",
        dcmi,
        reads="dlopen in a child",
        source="gpustack#3284",
        vendors=NPU,
        rule="FAIL when it cannot be loaded; WARN where containers can be started",
        fix="Mount /usr/local/dcmi into the container.",
    ),
    of_vendor(
        "driver.dcmi_owner",
        dcmi_owner,
        reads="owner and mode of libdcmi.so and its folders",
        source="FaultDiag AISW_MindX_Npu_Exporter_01",
        vendors=NPU,
        rule="WARN when group or others may write one of them",
        fix="chmod go-w.",
    ),
    of_vendor(
        "driver.mounts",
        mounts,
        reads="npu-smi, ixsmi, version.info, install record",
        source="ms-swift's NPU page against ERNIE's: sbin and bin",
        vendors=(*NPU, *ILUVATAR),
        rule="FAIL when one of them is a folder; WARN where containers can be started",
        fix="Remove the folder, and mount the file from its real place.",
    ),
)
