"""The vendors' simulated tools, files and faults: what each folder's simulate.py exports."""

from __future__ import annotations

from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.vendors import load_modules


def load_simulations() -> dict[str, VendorSimulation]:
    """By vendor; those that have no simulate.py, or nothing of that type in it, are left out."""
    found = {vendor.name: getattr(module, "SIMULATION", None) for vendor, module in load_modules("simulate")}
    return {name: simulation for name, simulation in found.items() if isinstance(simulation, VendorSimulation)}
