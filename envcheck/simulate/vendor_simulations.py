"""The vendors' simulated tools, files and faults, from each vendor folder's simulate.py."""

from __future__ import annotations

from envcheck.core.simulate.vendor_simulation import VendorSimulation
from envcheck.vendors import load_modules


def load_simulations() -> dict[str, VendorSimulation]:
    """Return the simulations by vendor; vendors without simulate.py, or without a VendorSimulation in it, are left
    out.
    """
    found = {vendor.name: getattr(module, "SIMULATION", None) for vendor, module in load_modules("simulate")}
    return {name: simulation for name, simulation in found.items() if isinstance(simulation, VendorSimulation)}
