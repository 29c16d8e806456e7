"""What kind of devices they are: alike, whole cards, uncut, of a generation that is trained on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from envcheck.core.check import ILUVATAR, NPU, NVIDIA, Check, of_devices
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    fail,
    follows,
    incomplete,
    label,
    named,
    of_device,
    ok,
    quote,
    skip,
    telling,
    unknown,
    warn,
)
from envcheck.core.model import Device, Finding

OLD_TRAINING = re.compile(r"910(A|Pro|Premium)", re.IGNORECASE)  # PaddleCustomDevice#1186: release/2.6 is their branch
INFERENCE = re.compile(r"310")


def uniform(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The devices are of one kind and size: the slowest sets the pace, the smallest the plan."""
    kinds = Counter((d.name, d.memory_total_mib) for d in v.devices)
    if any(total is None or name is None for name, total in kinds):
        yield unknown("the tool does not show name and memory of each device")
    elif len(kinds) > 1:
        seen = ", ".join(f"{n} × {name} with {total} MiB" for (name, total), n in kinds.most_common())
        words = f"Choose devices of one kind: {v.vendor.visible_env}=0,1,..."
        odd = next(d for d in v.devices if (d.name, d.memory_total_mib) == kinds.most_common()[-1][0])
        yield warn(seen, words, *commands(v, "list"), evidence=of_device(v, odd, "memory_total_mib"))
    else:
        (name, total), n = next(iter(kinds.items()))
        yield ok(f"{n} × {name}, {total} MiB each")


def chips(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Chips come in whole cards: a BI-V150 carries two, and counts and memory are per chip."""
    each, n = v.vendor.chips_per_card, len(v.devices)
    if not any("V150" in (d.name or "") for d in v.devices):
        known = all(d.name for d in v.devices)
        yield skip("not a card with several chips") if known else unknown("the devices are not named")
    elif cause := incomplete(facts, v):
        yield follows(cause)
    elif n % each:
        seen = f"{n} chips cannot be whole cards of {each}"
        yield fail(seen, "A chip is missing: look at the bus.", *commands(v, "pci"), evidence=quote(v.tool, "V150"))
    else:
        size = v.devices[0].memory_total_mib
        yield ok(f"{n} chips{f' of {size} MiB' if size else ''} on {n // each} cards; plan with chips")


def mig(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No GPU is cut into MIG instances: the launcher counts whole GPUs."""
    told = [d for d in v.devices if d.mig_mode is not None]
    cut = [d for d in told if is_cut(d)]
    if cut:
        seen = f"{named(cut)}: MIG is on"
        words = "Turn MIG off (a reset follows) to train over several GPUs, or name one instance by its UUID."
        yield warn(
            seen,
            words,
            f"nvidia-smi -i {label(cut[0])} -mig 0",
            "nvidia-smi -L",
            evidence=telling(facts, v, "current_mig", "Enabled"),
        )
    elif told:
        yield ok("MIG is off")
    elif all(d.name for d in v.devices):
        yield skip("these devices have no MIG")
    else:
        yield unknown("the tool does not show the MIG mode")


def is_cut(device: Device) -> bool:
    return str(device.mig_mode).lower().startswith(("enabled", "on"))


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


CHECKS: tuple[Check, ...] = (
    of_devices(
        "devices.uniform",
        uniform,
        reads="the vendor's tool",
        source="the slowest device sets the pace",
        rule="WARN when names or memory differ",
        fix="Choose devices of one kind.",
    ),
    of_devices(
        "devices.chips",
        chips,
        reads="ixsmi",
        source="ERNIE's Iluvatar page; ix-device-plugin splitboard",
        vendors=ILUVATAR,
        rule="FAIL when chips do not make whole cards",
        fix="Look at the bus.",
    ),
    of_devices(
        "devices.mig",
        mig,
        reads="nvidia-smi",
        source="NVIDIA's MIG user guide",
        vendors=NVIDIA,
        rule="WARN when a GPU is cut",
        fix="Turn MIG off, or name an instance by UUID.",
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
