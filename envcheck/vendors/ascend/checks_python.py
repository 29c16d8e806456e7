"""torch and its plugin for NPUs, and packages without a path on them."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, VersionTables, of_machine, of_vendor, of_versions
from envcheck.core.derived.installed import installed, metadata
from envcheck.core.facts import Facts, Packages, VendorFacts
from envcheck.core.findings import (
    figures,
    follows,
    not_told,
    ok,
    reading,
    skip,
    unknown,
    warn,
)
from envcheck.core.installed_versions import toolkit_version
from envcheck.core.model import Finding
from envcheck.vendors.ascend import VENDOR
from probes.host import kernel_modules

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
AUTOLOADS_SINCE = "2.5"  # torch loads its backends' packages on import from then on; release notes of 2.5


@reading(installed, "ask packages")
def bitsandbytes(found: Packages, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No quantised method is prepared that has no path on this device."""
    if "torch" not in found.packages:
        yield skip("torch is not installed here")
    elif "bitsandbytes" in found.packages:
        words = "Train a LoRA in bf16 instead of QLoRA: the package has no kernels for Ascend."
        yield warn(
            f"bitsandbytes {found.packages['bitsandbytes']} is installed, and has no path on an NPU",
            words,
            "pip uninstall bitsandbytes",
            evidence=metadata(found, "bitsandbytes"),
        )
    else:
        yield ok("none is installed")


def autoload(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """torch loads the device's plugin by itself: without it a training runs on the CPU, and does not say so."""
    found = installed(facts)
    if found is None or facts.environment is None:
        yield not_told(facts, "ask packages", "ask environment")
    elif "torch" not in found.packages:
        yield skip("torch is not installed here")
    elif "torch-npu" not in found.packages:
        words = "Install the torch-npu that pairs with it: without it torch trains on the CPU."
        seen = f"torch {found.packages['torch']} without torch-npu"
        yield warn(seen, words, "envcheck solve --device npu --framework torch", evidence=metadata(found, "torch"))
    elif facts.environment.get(AUTOLOAD) == "0":
        words = "Unset it, unless the program imports torch_npu itself."
        shown = figures("environment", **{AUTOLOAD: "0"})
        seen = f"{AUTOLOAD} is 0: torch does not load torch-npu by itself"
        yield warn(seen, words, f"unset {AUTOLOAD}", evidence=shown)
    else:
        yield ok("torch loads torch-npu by itself")


@reading(installed, "ask packages")
def torch_npu(found: Packages, facts: Facts, v: VendorFacts, tables: VersionTables) -> Iterator[Finding]:
    """torch and torch-npu are a pair, and the toolkit is one that this torch-npu works with."""
    torch, mine = (found.packages.get(n) for n in ("torch", "torch-npu"))
    if not mine:
        yield skip("torch-npu is not installed here")
    elif not torch or versions.key(torch) is None or versions.key(mine) is None:
        yield unknown(f"torch {torch or 'is absent'}, torch-npu {mine}: cannot be compared")
    else:
        here = {"torch": torch, "torch-npu": mine, "cann": toolkit_version(facts, v)}
        shown, fix = metadata(found, "torch", "torch-npu"), f"pip install torch=={mine.partition('.post')[0]}"
        bad = tables.find_bad((("torch-npu", "torch"), ("torch-npu", "cann")), here, shown, fix)
        yield bad or ok(f"torch {torch} with torch-npu {mine}")


def without_driver(facts: Facts) -> Iterator[Finding]:
    """Where no driver is, as in the build of an image, torch does not load torch_npu by itself."""
    found, said = facts.packages, facts.environment
    if found is None or said is None:
        yield not_told(facts, "ask packages", "ask environment")
        return
    torch = found.packages.get("torch", "")
    if "torch-npu" not in found.packages or versions.at_least(torch, AUTOLOADS_SINCE) is False:
        yield skip("no torch_npu is loaded with torch here")
    elif any(v.nodes or v.devices for v in facts.vendors if v.name == VENDOR.name):
        yield ok("the driver that torch_npu wants is here")
    elif any(kernel_modules.is_gone(facts, v) for v in facts.vendors if v.name == VENDOR.name):
        yield follows("driver.module")
    elif versions.key(torch) is None:
        yield unknown("torch-npu is installed, and torch's version could not be told")
    elif said.get(AUTOLOAD) == "0":
        yield ok(f"{AUTOLOAD}=0")
    else:
        words = "Set it in the build: importing torch fails where the driver's libraries are missing."
        seen = f"torch {torch} loads torch_npu on import, and no NPU's driver is here"
        yield warn(seen, words, f"export {AUTOLOAD}=0", evidence=figures("environment", **{AUTOLOAD: "not set"}))


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "python.bitsandbytes",
        bitsandbytes,
        before="python.megatron",
        reads="installed packages",
        rule="WARN when it is installed beside an NPU",
        fix="Train a LoRA in bf16 instead of QLoRA.",
        source="LlamaFactory#3271, #9465, #10125",
        frameworks=("llamafactory", "swift"),
    ),
    of_vendor(
        "python.autoload",
        autoload,
        before="python.megatron",
        reads="installed packages, the environment",
        rule="WARN when torch is there without torch-npu, or is told not to load it",
        fix="Install the pair, unset TORCH_DEVICE_BACKEND_AUTOLOAD.",
        source="LlamaFactory#6461, transformers#35785, FlagCX#451",
        frameworks=("llamafactory", "swift"),
    ),
    of_versions(
        "python.torch_npu",
        torch_npu,
        before="python.triton",
        reads="installed packages",
        source="Ascend/pytorch#105, ms-swift#1243",
        rule="FAIL when a table calls torch, torch-npu and CANN a bad pair",
        fix="The torch of torch-npu's version.",
        frameworks=("torch",),
    ),
    of_machine(
        "python.import_without_driver",
        without_driver,
        before="python.requirements",
        reads="installed packages, the environment, /dev",
        source="FlagCX#451",
        rule="WARN when torch-npu is installed, no NPU is here, and autoload is not off",
        fix=f"{AUTOLOAD}=0 in the build.",
        frameworks=("torch",),
    ),
)
