"""Checks of torch, its NPU plugin, and packages that do not support NPUs."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, VersionTables, machine_check, vendor_check, version_check
from envcheck.core.derived.installed_versions import toolkit_version
from envcheck.core.derived.python_packages import find_job_packages, quote_metadata
from envcheck.core.facts import Facts, Packages, VendorFacts
from envcheck.core.findings import (
    ok,
    quote_values,
    report_unanswered,
    requires_fact,
    skip,
    skipped_because,
    unknown,
    warn,
)
from envcheck.core.messages import _, verbatim
from envcheck.core.model import Finding, diagnose, fix
from envcheck.vendors.ascend import VENDOR
from probes.host import kernel_modules

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
AUTOLOADS_SINCE = "2.5"  # since then torch loads backend packages on import; release notes of 2.5


@requires_fact(find_job_packages, "ask packages")
def check_bitsandbytes(found: Packages, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No quantized method is installed that this device does not support."""
    if "torch" not in found.packages:
        yield skip(_("torch is not installed"))
    elif "bitsandbytes" in found.packages:
        words = _("Train LoRA in bf16 instead of QLoRA: bitsandbytes has no Ascend kernels.")
        yield warn(
            _(
                "bitsandbytes {version} is installed, but does not support NPUs",
                version=found.packages["bitsandbytes"],
            ),
            fix(words, "pip uninstall bitsandbytes"),
            evidence=quote_metadata(found, "bitsandbytes"),
        )
    else:
        yield ok(_("not installed"))


def check_autoload(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """torch loads the device plugin automatically; otherwise training silently runs on the CPU."""
    found = find_job_packages(facts)
    if found is None or facts.environment is None:
        yield report_unanswered(facts, "ask packages", "ask environment")
    elif "torch" not in found.packages:
        yield skip(_("torch is not installed"))
    elif "torch-npu" not in found.packages:
        words = _("Install the matching torch-npu: without it, torch trains on the CPU.")
        seen = _("torch {torch} without torch-npu", torch=found.packages["torch"])
        yield warn(
            seen,
            diagnose(words, "envcheck solve --device npu --library torch"),
            evidence=quote_metadata(found, "torch"),
        )
    elif facts.environment.get(AUTOLOAD) == "0":
        words = _("Unset this variable, unless the program imports torch_npu itself.")
        shown = quote_values("environment", **{AUTOLOAD: "0"})
        seen = _("{autoload} is 0: torch does not load torch-npu automatically", autoload=AUTOLOAD)
        yield warn(seen, fix(words, f"unset {AUTOLOAD}"), evidence=shown)
    else:
        yield ok(_("torch loads torch-npu automatically"))


@requires_fact(find_job_packages, "ask packages")
def check_torch_npu(found: Packages, facts: Facts, v: VendorFacts, tables: VersionTables) -> Iterator[Finding]:
    """torch, torch-npu and the toolkit are compatible."""
    torch, mine = (found.packages.get(n) for n in ("torch", "torch-npu"))
    if not mine:
        yield skip(_("torch-npu is not installed"))
    elif not torch or versions.sort_key(torch) is None or versions.sort_key(mine) is None:
        yield unknown(
            _("torch {torch} and torch-npu {mine} cannot be compared", torch=torch, mine=mine)
            if torch
            else _("torch-npu {mine} is installed without torch", mine=mine)
        )
    else:
        here = {"torch": torch, "torch-npu": mine, "cann": toolkit_version(facts, v)}
        shown, commands = (
            quote_metadata(found, "torch", "torch-npu"),
            f"pip install torch=={mine.partition('.post')[0]}",
        )
        bad = tables.find_bad((("torch-npu", "torch"), ("torch-npu", "cann")), here, shown, commands)
        yield bad or ok(_("torch {torch} with torch-npu {mine}", torch=torch, mine=mine))


def check_import_without_driver(facts: Facts) -> Iterator[Finding]:
    """On a host without a driver, such as an image build, torch does not load torch_npu automatically."""
    found, environment = facts.packages, facts.environment
    if found is None or environment is None:
        yield report_unanswered(facts, "ask packages", "ask environment")
        return
    torch = found.packages.get("torch", "")
    if "torch-npu" not in found.packages or versions.is_at_least(torch, AUTOLOADS_SINCE) is False:
        yield skip(_("torch does not load torch_npu on import"))
    elif any(v.nodes or v.devices for v in facts.vendors if v.name == VENDOR.name):
        yield ok(_("the driver that torch_npu needs is present"))
    elif any(kernel_modules.is_module_gone(facts, v) for v in facts.vendors if v.name == VENDOR.name):
        yield skipped_because("driver.module")
    elif versions.sort_key(torch) is None:
        yield unknown(_("torch-npu is installed, but the torch version is unknown"))
    elif environment.get(AUTOLOAD) == "0":
        yield ok(verbatim(f"{AUTOLOAD}=0"))
    else:
        words = _("Set this variable in the image build: importing torch fails where the driver libraries are missing.")
        seen = _("torch {torch} loads torch_npu on import, but no NPU driver is present", torch=torch)
        yield warn(
            seen, fix(words, f"export {AUTOLOAD}=0"), evidence=quote_values("environment", **{AUTOLOAD: _("not set")})
        )


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "python.bitsandbytes",
        check_bitsandbytes,
        before="python.megatron",
        reads="installed packages",
        rule="WARN if installed on a host with NPUs",
        fix="Train LoRA in bf16 instead of QLoRA.",
        source="LlamaFactory#3271, #9465, #10125",
        frameworks=("llamafactory", "swift"),
    ),
    vendor_check(
        "python.autoload",
        check_autoload,
        before="python.megatron",
        reads="installed packages, environment variables",
        rule="WARN if torch is installed without torch-npu, or autoload is off",
        fix="Install the pair, or unset TORCH_DEVICE_BACKEND_AUTOLOAD.",
        source="LlamaFactory#6461, transformers#35785, FlagCX#451",
        frameworks=("llamafactory", "swift"),
    ),
    version_check(
        "python.torch_npu",
        check_torch_npu,
        before="python.triton",
        reads="installed packages",
        source="Ascend/pytorch#105, ms-swift#1243",
        rule="FAIL if a table lists torch, torch-npu and CANN as a bad pair",
        fix="Install the torch version of torch-npu.",
        frameworks=("torch",),
    ),
    machine_check(
        "python.import_without_driver",
        check_import_without_driver,
        before="python.requirements",
        reads="installed packages, environment variables, /dev",
        source="FlagCX#451",
        rule="WARN if torch-npu is installed, the host has no NPU, and autoload is on",
        fix=f"Set {AUTOLOAD}=0 for the build.",
        frameworks=("torch",),
    ),
)
