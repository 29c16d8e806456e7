"""All checks that apply only to NPUs, in the order of the table."""

from __future__ import annotations

from envcheck.core.check import Check
from envcheck.vendors.ascend import (
    checks_devices,
    checks_driver,
    checks_engine,
    checks_hccl,
    checks_hccn,
    checks_image,
    checks_ports,
    checks_python,
    checks_rank_table,
    checks_toolkit,
)

CHECKS: tuple[Check, ...] = (
    *checks_driver.CHECKS,
    *checks_devices.CHECKS,
    *checks_toolkit.CHECKS,
    *checks_hccn.CHECKS,
    *checks_ports.CHECKS,
    *checks_hccl.CHECKS,
    *checks_rank_table.CHECKS,
    *checks_engine.CHECKS,
    *checks_python.CHECKS,
    *checks_image.CHECKS,
)
