"""How devices are numbered, by the tool, by their nodes and by a list: what a launch makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from envcheck.core import versions
from envcheck.core.check import ILUVATAR, NPU, NVIDIA, Check, of_devices
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    figures,
    label,
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
from envcheck.core.model import Device, Finding
from envcheck.core.vendor import die_id

REMAPS_SINCE = "8.1.RC1"  # vllm-ascend#672: older CANN looks a remapped device up by its physical id, and fails


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


def visible(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The list of visible devices is clean: a blank or a number that is not there cuts it silently."""
    name = v.vendor.visible_env
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    value = facts.environment.get(name)
    if value is None:
        yield skip(f"{name} is not set: all devices are seen")
    elif wrong := _wrong_list(value, len(v.devices)):
        words = "Write ascending numbers with commas alone, each once."
        right = f"export {name}={','.join(map(str, range(len(v.devices))))}"
        yield fail(f"{name}={value}: {wrong}", words, right, evidence=figures("environment", **{name: value}))
    else:
        yield ok(f"{name}={value}")


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
            f"{v.vendor.tool} -L",
            evidence=shown,
        )
    elif len(kinds) > 1 and v.name in NVIDIA and chosen != "PCI_BUS_ID":
        words = "Set it: CUDA counts the fastest first otherwise, and the tool by the bus."
        shown = figures("environment", CUDA_DEVICE_ORDER=chosen or "not set")
        seen = f"{len(kinds)} kinds of devices, and CUDA_DEVICE_ORDER is {chosen or 'not set'}"
        yield warn(seen, words, "export CUDA_DEVICE_ORDER=PCI_BUS_ID", evidence=shown)
    else:
        yield ok("indices follow the bus")


def _wrong_list(value: str, devices: int) -> str:
    if re.search(r"GPU-|MIG-", value):
        return ""  # UUIDs name what they mean
    if not re.fullmatch(r"\d{1,4}(,\d{1,4})*", value):
        return "holds something else than numbers and commas"
    numbers = [int(n) for n in value.split(",")]
    if numbers != sorted(set(numbers)):
        return "is not ascending, or names one twice"
    return f"there are {devices} devices" if devices and numbers[-1] >= devices else ""


def _place(device: Device) -> tuple[int, ...]:
    """0000:C1:00.0, as numbers."""
    return tuple(int(part, 16) for part in re.findall(r"[0-9a-fA-F]+", device.bus_id or ""))


CHECKS: tuple[Check, ...] = (
    of_devices(
        "devices.numbering",
        numbering,
        reads="npu-smi info, /dev",
        source="vllm-ascend#8519",
        vendors=NPU,
        rule="WARN when the tool's numbers are not those of the nodes",
        fix="Name devices for containers by their node.",
    ),
    of_devices(
        "devices.visible",
        visible,
        reads="the environment",
        source="CANN's environment variable reference; ms-swift NPU page, Q7",
        rule="FAIL for blanks, doubles, and numbers that are not there",
        fix="Ascending numbers with commas alone.",
    ),
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
)
