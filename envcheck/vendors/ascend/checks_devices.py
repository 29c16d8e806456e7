"""Checks of NPU generation and numbering."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, device_check
from envcheck.core.derived.installed_versions import toolkit_version
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    format_ranges,
    ok,
    quote_answer,
    quote_device,
    quote_values,
    report_unanswered,
    skip,
    unknown,
    warn,
)
from envcheck.core.messages import _, join
from envcheck.core.model import Finding, diagnose
from envcheck.core.vendor import find_die_id

OLD_TRAINING = re.compile(r"910(A|Pro|Premium)", re.IGNORECASE)  # PaddleCustomDevice#1186: release/2.6 is their branch
INFERENCE = re.compile(r"310")
REMAPS_SINCE = "8.1.RC1"  # vllm-ascend#672: older CANN looks up a remapped device by its physical id, and fails


def check_generation(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The chips are of a generation that current plugins support for training."""
    if not all(d.name for d in v.devices):
        yield unknown(_("the vendor tool does not report the chip names"))
        return
    old = next((d for d in v.devices if OLD_TRAINING.search(d.name or "")), None)
    infer = next((d for d in v.devices if INFERENCE.search(d.name or "")), None)
    if old:
        words = _("Use the plugin's branch release/2.6 and a matching image: 3.x supports only 910B and later.")
        yield warn(
            _("{name} is not supported by the plugin", name=old.name),
            diagnose(words, "envcheck recipes"),
            evidence=quote_device(v, old, "memory_total_mib"),
        )
    elif infer:
        words = _(
            "Train on a 910B or later: this chip is for inference, and the training packages are not built for it."
        )
        yield warn(
            _("{name} is an inference chip", name=infer.name),
            diagnose(words, "envcheck recipes"),
            evidence=quote_device(v, infer, "memory_total_mib"),
        )
    else:
        yield ok(join(", ", sorted({str(d.name) for d in v.devices})))


def check_numbering(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The vendor tool numbers the devices like the device nodes; /dev/davinci16 is not NPU 16 on every machine."""
    ids = sorted({n for d in v.devices if (n := find_die_id(d)) is not None})
    nodes = sorted(int(found[1]) for path in v.nodes or () if (found := re.search(r"(?<!\d)(\d+)$", path)))
    if not ids or v.nodes is None:
        yield unknown(_("cannot determine the device numbers or device nodes"))
    elif not nodes:
        yield skip(_("no device node to compare with"))
    elif set(ids) <= set(nodes):
        yield ok(_("npu-smi's numbers match the device nodes"))
    else:
        seen = _(
            "npu-smi numbers the devices {ids}, but the device nodes are {nodes}",
            ids=format_ranges(ids),
            nodes=format_ranges(nodes),
        )
        words = _("Pass devices to containers by device node, not by NPU ID.")
        shown = quote_answer(facts.answers.get(v.vendor.node_question.key))
        yield warn(seen, diagnose(words, "npu-smi info -m"), evidence=shown)


def check_remapped(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Visible devices that do not begin at 0 are supported by this CANN version."""
    name, cann = v.vendor.visible_env, toolkit_version(facts, v)
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    value = facts.environment.get(name)
    numbers = [int(n) for n in re.findall(r"\d+", value or "")]
    if value is None:
        yield skip(_("{name} is not set: devices keep their numbers", name=name))
    elif numbers == list(range(len(numbers))):
        yield ok(_("{variable}={value} keeps the device numbers", variable=name, value=value))
    elif cann is None or (reached := versions.is_at_least(cann, REMAPS_SINCE)) is None:
        yield unknown(
            _("{variable}={value} renumbers the devices, and the CANN version is unknown", variable=name, value=value)
        )
    elif reached:
        yield ok(
            _("{variable}={value}; CANN {cann} supports renumbered devices", variable=name, value=value, cann=cann)
        )
    else:
        words = _("Use the first devices, or a newer CANN: this HCCL uses the original device number.")
        shown = quote_values("environment", **{name: value})
        yield warn(
            _(
                "{variable}={value} with CANN {cann}, older than {since}",
                variable=name,
                value=value,
                cann=cann,
                since=REMAPS_SINCE,
            ),
            diagnose(words, "envcheck recipes"),
            evidence=shown,
        )


CHECKS: tuple[Check, ...] = (
    device_check(
        "devices.generation",
        check_generation,
        before="devices.visible",
        reads="npu-smi info",
        source="PaddleCustomDevice#1186, ascend-device-plugin#9",
        frameworks=("paddle",),
        rule="WARN for the 910A family and for 310",
        fix="Use another machine, or the plugin branch for this chip.",
    ),
    device_check(
        "devices.numbering",
        check_numbering,
        before="devices.visible",
        reads="npu-smi info, /dev",
        source="vllm-ascend#8519",
        rule="WARN if the numbers differ from those of the nodes",
        fix="Pass devices to containers by node.",
    ),
    device_check(
        "devices.remapped",
        check_remapped,
        before="devices.order",
        reads="environment variables, toolkit version",
        source="vllm-ascend#672",
        rule="WARN if the list does not begin at 0 and CANN is older than 8.1.RC1",
        fix="Upgrade CANN, or use the first devices.",
    ),
)
