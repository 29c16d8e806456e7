"""How much room packages take once they are installed."""

from __future__ import annotations

from envcheck.vendors import VENDORS

# Installed size, with dependencies and the download beside it.  paddlepaddle: 860 MB + 223 MB, 3.1.0, measured.
# paddlepaddle-gpu: computed, the wheel and NVIDIA's libraries are several GB packed and unpacked.
# torch: 970 MB + 220 MB, 2.13.0 for CPUs, measured.  Others are small beside these.
SIZES_MIB = {
    "paddlepaddle": 1100,
    "torch": 1200,
    **{vendor.plugin: 300 for vendor in VENDORS.values() if vendor.plugin},
    "numpy": 100,
    "paddlepaddle-gpu": 10_000,
}
SMALL_MIB = 10
