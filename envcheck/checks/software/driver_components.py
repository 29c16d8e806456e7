"""Checks of the driver's parts: kernel module, next kernel, build tools, Secure Boot, libraries and mounts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, vendor_check
from envcheck.core.derived.driver_install import driver_install_command
from envcheck.core.derived.libraries import evaluate_libraries
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    is_in_container,
    local_severity,
    ok,
    quote_values,
    report_missing_rule,
    report_unanswered,
    requires_fact,
    skip,
    skipped_because,
    unknown,
    vendor_commands,
    warn,
    warn_or_fail,
)
from envcheck.core.messages import _, join, mark
from envcheck.core.model import Finding, Outcome, diagnose, fix
from probes.host import kernel_modules, schemas
from probes.host.schemas import KernelState, PathStates


@requires_fact(schemas.read_kernel, "ask kernel")
def check_module(seen: KernelState, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The kernel module of the driver is loaded; a kernel update can leave it behind."""
    if not v.vendor.kernel_modules:
        yield report_missing_rule(v, _("kernel modules"))
    elif mine := kernel_modules.select_vendor_modules(v, seen.loaded):
        versions = sorted({seen.versions[name] for name in mine if name in seen.versions})
        yield ok(
            _(
                "{modules} loaded{version}",
                modules=join(", ", mine[:3]),
                version=_(", version {version}", version=versions[0]) if versions else "",
            )
        )
    elif v.devices or v.nodes:
        yield ok(_("the driver works, but /proc/modules does not list its module"))
    elif not v.pci:
        yield skipped_because("devices.present")
    elif v.tool and v.tool.outcome is Outcome.ABSENT and not _find_kernel_with_module(v, seen):
        yield skipped_because("driver.tool")
    else:
        yield _module_not_loaded_finding(facts, v, seen)


@requires_fact(schemas.read_kernel, "ask kernel")
def check_next_kernel(seen: KernelState, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The kernel that boots next has the driver module."""
    if not v.vendor.kernel_modules:
        yield report_missing_rule(v, _("kernel modules"))
    elif not seen.bootable:
        yield (
            skip(_("no kernel is installed in this container"))
            if is_in_container(facts)
            else unknown(_("no bootable kernel found"))
        )
    elif kernel_modules.is_module_gone(facts, v):
        yield skipped_because("driver.module")
    elif not kernel_modules.select_vendor_modules(v, seen.kernels.get(seen.running, ())):
        yield unknown(
            _(
                "/lib/modules/{running} does not contain the driver's module: it was loaded from another folder",
                running=seen.running,
            )
        )
    elif kernel_modules.select_vendor_modules(
        v, seen.kernels.get(newest := max(seen.bootable, key=_natural_sort_key), ())
    ):
        yield ok(_("kernel {newest} has the driver's module", newest=newest))
    else:
        words = (
            _("Build the driver's module for this kernel before the next reboot, or keep booting the current kernel.")
            if v.vendor.uses_dkms
            else _(
                "Keep booting the current kernel, or install the driver package again after the first boot of "
                "this kernel."
            )
        )
        commands = _list_rebuild_commands(facts, v, newest)
        shown = quote_values(f"/lib/modules/{newest}", driver_modules=0)
        yield warn(
            _("kernel {newest} is installed without the driver's module", newest=newest),
            fix(words, *commands),
            evidence=shown,
        )


@requires_fact(schemas.read_kernel, "ask kernel")
def check_build_tools(seen: KernelState, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """If no driver is loaded, the kernel headers and the compiler needed to install one exist."""
    if v.devices or kernel_modules.select_vendor_modules(v, seen.loaded):
        yield ok(_("not needed: the driver is loaded"))
    elif is_in_container(facts):
        yield skip(_("the driver is installed on the host, not in a container"))
    elif seen.headers is None or not seen.tools:
        yield report_unanswered(facts, "ask kernel")
    elif missing := [
        *([] if seen.headers else ["headers"]),
        *(tool for tool in ("gcc", "make") if not seen.tools[tool]),
    ]:
        words = _("Install them before the driver: its installer aborts without them.")
        shown = quote_values(f"kernel {seen.running}", missing=", ".join(missing))
        yield warn(
            _("missing: {missing}", missing=join(", ", missing)),
            fix(words, *_build_tools_command(facts, v, seen)),
            evidence=shown,
        )
    else:
        yield ok(_("kernel headers of {running}, gcc and make found", running=seen.running))


@requires_fact(schemas.read_kernel, "ask kernel")
def check_secure_boot(seen: KernelState, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Secure Boot does not block the driver module."""
    if seen.secure_boot is None:
        yield unknown(
            _("cannot determine whether Secure Boot is on: permission denied"),
            diagnose(_("Query the firmware."), "mokutil --sb-state"),
        )
    elif not seen.secure_boot:
        yield ok(_("Secure Boot is off"))
    elif v.devices or kernel_modules.select_vendor_modules(v, seen.loaded):
        yield ok(_("Secure Boot is on, and the driver's module was accepted"))
    else:
        words = _(
            "Sign the module with your own key and enrol the key, or turn Secure Boot off: the "
            "kernel rejects unsigned modules."
        )
        shown = quote_values("the EFI variable", SecureBoot=1)
        yield warn(
            _("Secure Boot is on, and the driver's module is not loaded"),
            diagnose(words, "mokutil --sb-state"),
            evidence=shown,
        )


def check_library(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The driver libraries can be loaded."""
    names = v.vendor.driver_libraries
    yield (
        evaluate_libraries(facts, v, schemas.read_libraries(facts), names)
        if names
        else report_missing_rule(v, _("driver libraries"))
    )


@requires_fact(schemas.read_paths, "ask paths")
def check_mounts(seen: PathStates, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Mounted driver files are files; an engine creates a directory in place of a missing source file."""
    there = {path: seen.paths[path].kind for path in v.vendor.driver_files if path in seen.paths}
    folders = [path for path, kind in there.items() if kind == "folder"]
    if not v.vendor.driver_files:
        yield report_missing_rule(v, _("driver files"))
    elif folders:
        words = _(
            "Remove the folder, then mount the host's file at this path (on the host, `command -v {tool}` prints the "
            "path of {tool}).",
            tool=v.vendor.tool,
        )
        commands = (f"sudo rmdir {' '.join(folders)}",)
        shown = quote_values(f"stat {folders[0]}", kind="folder")
        yield warn_or_fail(
            local_severity(facts),
            _("{folders} is a folder, but must be a file", folders=join(", ", folders)),
            fix(words, *commands),
            evidence=shown,
        )
    elif there:
        yield ok(_("{there_count} driver files are regular files", there_count=len(there)))
    else:
        yield skip(_("no driver file found at its documented path"))


def _module_not_loaded_finding(facts: Facts, v: VendorFacts, seen: KernelState) -> Finding:
    shown = quote_values("/proc/modules", kernel=seen.running, cards=len(v.pci or ()), driver_modules=0)
    if other := _find_kernel_with_module(v, seen):
        words = (
            _(
                "Build the driver's module for {running}, or boot kernel {other}, which has it.",
                running=seen.running,
                other=other,
            )
            if v.vendor.uses_dkms
            else _(
                "Install the driver package again for kernel {running}, or boot kernel {other}, which has the module.",
                running=seen.running,
                other=other,
            )
        )
        commands = _list_rebuild_commands(facts, v, seen.running)
        return fail(
            _(
                "no driver module for the running kernel {running}; kernel {other} has one",
                other=other,
                running=seen.running,
            ),
            fix(words, *commands),
            evidence=shown,
        )
    words = _("Reinstall the driver. If its module still does not load, check the kernel log.")
    return fail(
        _("the driver's kernel module is not loaded"),
        fix(words, driver_install_command(facts, v), *vendor_commands(v, "driver")),
        evidence=shown,
    )


def _list_rebuild_commands(facts: Facts, v: VendorFacts, kernel: str) -> tuple[str, ...]:
    """Return the commands that build the module for this kernel; without DKMS, the package is installed again."""
    if v.vendor.uses_dkms:
        return (f"sudo dkms autoinstall -k {kernel}", "dkms status")
    return (driver_install_command(facts, v),)


def _find_kernel_with_module(v: VendorFacts, seen: KernelState) -> str:
    """The newest other installed kernel that has the module."""
    others = [
        release
        for release, names in seen.kernels.items()
        if release != seen.running and kernel_modules.select_vendor_modules(v, names)
    ]
    return max(others, key=_natural_sort_key, default="")


def _natural_sort_key(release: str) -> tuple[tuple[int, str], ...]:
    """Sort 5.10.0-216 after 5.10.0-99."""
    return tuple(
        (int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[a-z]+", release.lower())
    )


def _build_tools_command(facts: Facts, v: VendorFacts, seen: KernelState) -> tuple[str, ...]:
    name = (facts.host and facts.host.os) or ""
    tools = " ".join(("gcc", "make", *(("dkms",) if v.vendor.uses_dkms else ())))
    if re.search("Debian|Ubuntu", name):
        return (f"sudo apt-get install linux-headers-{seen.running} {tools}",)
    return (f"sudo dnf install kernel-devel-{seen.running} {tools}",)


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "driver.module",
        check_module,
        reads="/proc/modules, modules.dep of each kernel",
        source="compute-gpu-installation#18",
        rule="FAIL if cards are on the PCI bus but no driver module is loaded",
        fix="Rebuild the module for the running kernel (dkms), or boot the kernel that has it.",
    ),
    vendor_check(
        "driver.next_kernel",
        check_next_kernel,
        reads="modules.dep of each kernel, /boot",
        source="compute-gpu-installation#18",
        rule="WARN if the newest kernel in /boot lacks the module",
        fix="Build the module for that kernel, or hold the kernel package.",
    ),
    vendor_check(
        "driver.build_tools",
        check_build_tools,
        reads="/lib/modules, PATH",
        source="ascend-deployer README; crhy/spaced#20",
        rule="WARN if no driver is loaded and headers, gcc or make are missing",
        fix="Install the kernel headers, gcc, make and dkms.",
    ),
    vendor_check(
        "driver.secure_boot",
        check_secure_boot,
        reads="the EFI variable SecureBoot",
        source=mark("Linux kernel module signing: unsigned modules are rejected"),
        rule="WARN if Secure Boot is on and no driver module is loaded",
        fix="Sign and enroll the module, or turn Secure Boot off.",
    ),
    vendor_check(
        "driver.library",
        check_library,
        reads="dlopen in a child process",
        source="vllm-ascend#1440",
        rule="FAIL if a library fails to load; WARN on hosts that run jobs in containers",
        fix="Mount the driver directories, or add them to the library path.",
    ),
    vendor_check(
        "driver.mounts",
        check_mounts,
        reads="npu-smi, ixsmi, version.info, install record",
        source=mark("the NPU pages of ms-swift and ERNIE differ: sbin and bin"),
        rule="FAIL if one of them is a directory; WARN on hosts that run jobs in containers",
        fix="Remove the directory and mount the file from its real path.",
    ),
)
