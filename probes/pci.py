"""Parses `lspci -nn -d VENDOR:` by PCI class, for all vendors.

c1:00.0 Processing accelerators [1200]: Huawei Technologies Co., Ltd. Device [19e5:d802] (rev 20)
17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2335] (rev a1)
17:00.1 Audio device [0403]: NVIDIA Corporation ...       not an accelerator, nor is an NVSwitch bridge [0680]
03:00.0 VGA compatible controller [0300]: Huawei ... Hi171x Series [19e5:1711]       the BMC console
"""

from __future__ import annotations

import re

from envcheck.core.tool_text import strip_escapes

# Without -nn there are only the class names of pci.ids.
_WORDS = {"Processing accelerators": "1200", "3D controller": "0302", "VGA compatible controller": "0300"}
_LINE = re.compile(
    r"^[^\S\n]*(?P<bus>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+(?!\s)"
    r"(?P<words>(?:[^\[:\s]+(?:[^\S\n]+[^\[:\s]+)*)?)[^\S\n]*(?:\[(?P<class>[0-9a-f]{4})\])?:",
    re.IGNORECASE | re.MULTILINE,
)


def find_accelerators(text: str, classes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the bus ids, as printed, of the devices whose class starts with one of `classes`."""
    found = ((m["bus"], m["class"] or _WORDS.get(m["words"], "")) for m in _LINE.finditer(strip_escapes(text)))
    return tuple(bus for bus, kind in found if kind.startswith(classes))
