"""The command that installs a vendor's driver, as remedies print it."""

from __future__ import annotations

from envcheck.core.derived.key_value import driver_version
from envcheck.core.facts import Facts, VendorFacts


def driver_install_command(facts: Facts, v: VendorFacts, *, is_too_old: bool = False) -> str:
    """Return the envcheck command that installs the vendor's driver: a download, else from the vendor's file.

    A download needs a published file for this processor; it is skipped if a driver that is not too old is installed.
    """
    architecture = facts.host.architecture if facts.host else None
    downloads = architecture in v.vendor.driver_downloads and (is_too_old or driver_version(v) is None)
    return f"envcheck provision --device {v.name} --install-driver {'fetch' if downloads else 'FILE.run'}"
