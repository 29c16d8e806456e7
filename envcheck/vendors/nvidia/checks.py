"""All checks that apply only to NVIDIA's cards, in the order of the table."""

from __future__ import annotations

from envcheck.core.check import Check
from envcheck.vendors.nvidia import checks_cuda, checks_devices, checks_fabric

CHECKS: tuple[Check, ...] = (
    *checks_fabric.CHECKS,
    *checks_devices.CHECKS,
    *checks_cuda.CHECKS,
)
