"""The SBL firmware of each card, from the outputs that list it."""

from __future__ import annotations

import pytest

from probes.kunlunxin.firmware_versions import read_sbl_versions

TEXT = """    Firmware Version
        PBL Version                       : 1.0
        SBL Version                       : 1.54
        ALL Version                       : 1.0.2.14.1.54
"""
XML = """<firmware_version>
    <pcie_version>2.14</pcie_version>
    <sbl>1.48</sbl>
    <all_version>1.0.2.14.1.48</all_version>
</firmware_version>
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TEXT, ("1.54",)),
        (XML + XML.replace("1.48", "1.39"), ("1.48", "1.39")),
        (TEXT.replace("1.54", "N/A"), ()),
        (XML.replace("<sbl>1.48", "<sbl>Invalid Argument"), ()),
        ("", ()),
    ],
)
def test_versions_in_the_order_of_the_output(text: str, found: tuple[str, ...]) -> None:
    """One version for each device that has one; words instead of a version are none."""
    assert read_sbl_versions(text) == found
