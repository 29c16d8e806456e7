"""Disk space of installed packages."""

from __future__ import annotations

from envcheck.vendors import VENDORS

# Installed size with dependencies, plus the download.  paddlepaddle 3.1.0: 860 MB + 223 MB, measured.  torch 2.13.0
# for CPU: 970 MB + 220 MB, measured.  paddlepaddle-gpu: computed; the wheel and NVIDIA's libraries have several GB,
# packed and unpacked.  Vendors' other builds of paddle: estimated; the wheel contains the vendor's runtime.  All others
# are small in comparison.
SIZES_MIB = {
    "paddlepaddle": 1100,
    "torch": 1200,
    **{vendor.plugin: 300 for vendor in VENDORS.values() if vendor.plugin},
    **{vendor.paddle_build: 2500 for vendor in VENDORS.values() if vendor.paddle_build},
    "numpy": 100,
    "paddlepaddle-gpu": 10_000,
}
SMALL_MIB = 10
