"""References in vendor records and checks resolve."""

from __future__ import annotations

from envcheck.checks import CHECKS, GENERIC
from envcheck.vendors import VENDORS, load_modules

NAMES = {check.name for check in CHECKS}


def test_excluded_checks_are_generic_ones() -> None:
    """Every check excluded by a record is a generic check."""
    generic = {check.name for check in GENERIC if check.is_per_vendor}

    assert {name for vendor in VENDORS.values() for name in vendor.not_applicable} <= generic


def test_no_check_is_left_without_a_vendor() -> None:
    """Each check of cards judges some vendor's, and no two have one name."""
    assert [check.name for check in CHECKS if check.is_per_vendor and not check.vendors] == []
    assert len(NAMES) == len(CHECKS)


def test_places_of_the_vendors_checks() -> None:
    """A vendor's check is placed before an existing check of the same area."""
    own = [check for _, module in load_modules("checks") for check in module.CHECKS]

    assert own
    assert {c.name: c.before for c in own if c.before and c.before not in NAMES} == {}
    assert {c.name: c.before for c in own if c.before and c.before.partition(".")[0] != c.area} == {}


def test_driver_libraries_are_tried() -> None:
    """What the driver brings is among the libraries that are loaded for a try."""
    assert all({*v.driver_libraries} <= {name for name, _ in v.libraries} for v in VENDORS.values())
