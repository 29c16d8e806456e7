"""The NPUs' numbers and generation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, of_devices
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    figures,
    not_told,
    of_device,
    ok,
    quote,
    ranges,
    skip,
    unknown,
    warn,
)
from envcheck.core.installed_versions import toolkit_version
from envcheck.core.model import Finding
from envcheck.core.vendor import die_id

OLD_TRAINING = re.compile(r"910(A|Pro|Premium)", re.IGNORECASE)  # PaddleCustomDevice#1186: release/2.6 is their branch
INFERENCE = re.compile(r"310")
REMAPS_SINCE = "8.1.RC1"  # vllm-ascend#672: older CANN looks a remapped device up by its physical id, and fails


def generation(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The chips are of a generation that today's plugins train on."""
    if not all(d.name for d in v.devices):
        yield unknown("the tool does not name the chips")
        return
    old = next((d for d in v.devices if OLD_TRAINING.search(d.name or "")), None)
    infer = next((d for d in v.devices if INFERENCE.search(d.name or "")), None)
    if old:
        words = "Use the plugin's branch release/2.6 and an image of that time: 3.x knows 910B and later alone."
        yield warn(
            f"{old.name}: no chip of the plugin's",
            words,
            "envcheck recipes",
            evidence=of_device(v, old, "memory_total_mib"),
        )
    elif infer:
        words = "Train on a 910B or later: this one is for inference, and packages are built for each chip."
        yield warn(
            f"{infer.name}: for inference", words, "envcheck recipes", evidence=of_device(v, infer, "memory_total_mib")
        )
    else:
        yield ok(", ".join(sorted({str(d.name) for d in v.devices})))


def numbering(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The tool's numbers are those of the device nodes: /dev/davinci16 is not NPU 16 everywhere."""
    ids = sorted({n for d in v.devices if (n := die_id(d)) is not None})
    nodes = sorted(int(found[1]) for path in v.nodes or () if (found := re.search(r"(\d+)$", path)))
    if not ids or v.nodes is None:
        yield unknown("numbers or device nodes could not be told")
    elif not nodes:
        yield skip("no device node to compare with")
    elif set(ids) <= set(nodes):
        yield ok("the tool's numbers are those of the device nodes")
    else:
        seen = f"the tool counts {ranges(ids)}, the nodes are {ranges(nodes)}"
        words = "Name devices for containers by their node, not by the NPU id."
        shown = quote(facts.answers.get(v.vendor.presence[1].key))
        yield warn(seen, words, "npu-smi info -m", evidence=shown)


def remapped(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Visible devices that begin elsewhere than at 0 are something that this CANN can look up."""
    name, cann = v.vendor.visible_env, toolkit_version(facts, v)
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    value = facts.environment.get(name)
    numbers = [int(n) for n in re.findall(r"\d+", value or "")]
    if value is None:
        yield skip(f"{name} is not set: nothing is renumbered")
    elif numbers == list(range(len(numbers))):
        yield ok(f"{name}={value} keeps the numbers")
    elif cann is None or (reached := versions.at_least(cann, REMAPS_SINCE)) is None:
        yield unknown(f"{name}={value} renumbers the devices, and CANN's version is not known")
    elif reached:
        yield ok(f"{name}={value}, and CANN {cann} looks renumbered devices up")
    else:
        words = "Use the first devices, or a newer CANN: HCCL asks for the number before the renumbering."
        shown = figures("environment", **{name: value})
        yield warn(
            f"{name}={value} with CANN {cann}, older than {REMAPS_SINCE}", words, "envcheck recipes", evidence=shown
        )


CHECKS: tuple[Check, ...] = (
    of_devices(
        "devices.generation",
        generation,
        before="devices.visible",
        reads="npu-smi info",
        source="PaddleCustomDevice#1186, ascend-device-plugin#9",
        frameworks=("paddle",),
        rule="WARN for 910A and its kin, and for 310",
        fix="Another machine, or the plugin's branch for the chip.",
    ),
    of_devices(
        "devices.numbering",
        numbering,
        before="devices.visible",
        reads="npu-smi info, /dev",
        source="vllm-ascend#8519",
        rule="WARN when the tool's numbers are not those of the nodes",
        fix="Name devices for containers by their node.",
    ),
    of_devices(
        "devices.remapped",
        remapped,
        before="devices.order",
        reads="the environment, the toolkit's version",
        source="vllm-ascend#672",
        rule="WARN when the list does not begin at 0 and CANN is older than 8.1.RC1",
        fix="Upgrade CANN, or use the first devices.",
    ),
)
