"""What vendor records say about downloads agrees with the tables of installers."""

from __future__ import annotations

from envcheck.vendors import VENDORS
from installers.drivers import installer_tables


def test_downloads_of_the_records_are_published() -> None:
    """Each processor for which a record promises a download has a published file, and no other has one."""
    published = {
        name: {file.architecture for driver in installer_tables.load_vendor_drivers(name) for file in driver.published}
        for name in VENDORS
    }

    assert published == {name: {*vendor.driver_downloads} for name, vendor in VENDORS.items()}
