"""A simulated server without accelerators has no tools of its own."""

from __future__ import annotations

from envcheck.core.simulate.vendor_simulation import VendorSimulation

SIMULATION = VendorSimulation()
