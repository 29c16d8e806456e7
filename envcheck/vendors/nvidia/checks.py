"""The checks that make sense for NVIDIA's cards alone, in the order of the table."""

from __future__ import annotations

from envcheck.core.check import Check
from envcheck.vendors.nvidia import checks_cuda, checks_devices, checks_fabric, checks_python

CHECKS: tuple[Check, ...] = (
    *checks_fabric.CHECKS,
    *checks_devices.CHECKS,
    *checks_python.CHECKS,
    *checks_cuda.CHECKS,
)
