"""How devices are numbered and which generation they are: what a launch, and a plugin, makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from envcheck import versions
from envcheck.checks.check import ILUVATAR, NPU, NVIDIA, Check, of_devices
from envcheck.checks.common import figures, label, not_told, of_device, ok, skip, unknown, vendor, warn
from envcheck.checks.toolkit import toolkit_version
from envcheck.model import Device, Facts, Finding, VendorFacts

REMAPS_SINCE = "8.1.RC1"  # vllm-ascend#672: older CANN looks a remapped device up by its physical id, and fails
OLD_TRAINING = re.compile(r"910(A|Pro|Premium)", re.IGNORECASE)  # PaddleCustomDevice#1186: release/2.6 is their branch
INFERENCE = re.compile(r"310")


def remapped(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Visible devices that begin elsewhere than at 0 are something that this CANN can look up."""
    name, cann = vendor(v).visible_env, toolkit_version(facts, v)
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


def order(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The devices' indices follow the bus: schedulers and frameworks that count otherwise choose others."""
    told = [d for d in v.devices if d.bus_id and d.index is not None]
    kinds = {d.name for d in v.devices}
    chosen = (facts.environment or {}).get("CUDA_DEVICE_ORDER")
    wrong = next((b for a, b in pairwise(told) if _place(b) < _place(a)), None)
    if len(told) < len(v.devices):
        yield unknown("the tool does not show index and bus id of each device")
    elif wrong:
        words = "Name devices by their UUID: the tool's numbers are not in the order of the bus."
        shown = of_device(v, wrong, "memory_total_mib")
        yield warn(
            f"device {label(wrong)} lies before the one above it on the bus",
            words,
            f"{vendor(v).tool} -L",
            evidence=shown,
        )
    elif len(kinds) > 1 and v.name in NVIDIA and chosen != "PCI_BUS_ID":
        words = "Set it: CUDA counts the fastest first otherwise, and the tool by the bus."
        shown = figures("environment", CUDA_DEVICE_ORDER=chosen or "not set")
        seen = f"{len(kinds)} kinds of devices, and CUDA_DEVICE_ORDER is {chosen or 'not set'}"
        yield warn(seen, words, "export CUDA_DEVICE_ORDER=PCI_BUS_ID", evidence=shown)
    else:
        yield ok("indices follow the bus")


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


def _place(device: Device) -> tuple[int, ...]:
    """0000:C1:00.0, as numbers."""
    return tuple(int(part, 16) for part in re.findall(r"[0-9a-fA-F]+", device.bus_id or ""))


CHECKS: tuple[Check, ...] = (
    of_devices(
        "devices.remapped",
        remapped,
        reads="the environment, the toolkit's version",
        source="vllm-ascend#672",
        vendors=NPU,
        rule="WARN when the list does not begin at 0 and CANN is older than 8.1.RC1",
        fix="Upgrade CANN, or use the first devices.",
    ),
    of_devices(
        "devices.order",
        order,
        reads="the vendor's tool, the environment",
        source="HAMi#933; CUDA's programming guide, CUDA_DEVICE_ORDER",
        vendors=(*ILUVATAR, *NVIDIA),
        rule="WARN when indices do not follow the bus, or kinds differ without CUDA_DEVICE_ORDER=PCI_BUS_ID",
        fix="Name devices by UUID; set CUDA_DEVICE_ORDER.",
    ),
    of_devices(
        "devices.generation",
        generation,
        reads="npu-smi info",
        source="PaddleCustomDevice#1186, ascend-device-plugin#9",
        vendors=NPU,
        frameworks=("paddle",),
        rule="WARN for 910A and its kin, and for 310",
        fix="Another machine, or the plugin's branch for the chip.",
    ),
)
