"""The builds of the frameworks for CUDA, against the driver and the cards."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, of_vendor
from envcheck.core.derived.installed import installed, metadata
from envcheck.core.facts import Facts, Packages, VendorFacts
from envcheck.core.findings import ok, reading, skip, warn
from envcheck.core.model import Finding


@reading(installed, "ask packages")
def device_build(found: Packages, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Where GPUs are, paddle's GPU build is installed: the CPU build would train on the CPU."""
    if "paddlepaddle-gpu" in found.packages:
        yield ok(f"paddlepaddle-gpu {found.packages['paddlepaddle-gpu']}")
    elif "paddlepaddle" in found.packages:
        words = "Install the GPU build from Paddle's index instead: this one trains on the CPU."
        seen = f"paddlepaddle {found.packages['paddlepaddle']} is the CPU build"
        yield warn(seen, words, "pip uninstall paddlepaddle", evidence=metadata(found, "paddlepaddle"))
    else:
        yield skip("no paddle is installed here")


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "python.device_build",
        device_build,
        before="python.numpy",
        reads="installed packages",
        source="LlamaFactory#6461",
        rule="WARN when paddle is the CPU build where GPUs are",
        fix="The GPU build from Paddle's index.",
        frameworks=("paddle",),
    ),
)
