"""A simulated server without accelerators, which has no vendor tools."""

from __future__ import annotations

from envcheck.core.simulate.vendor_simulation import VendorSimulation

SIMULATION = VendorSimulation()
