"""What `lspci -nn -d VENDOR:` lists; vendor-neutral, by PCI class.

c1:00.0 Processing accelerators [1200]: Huawei Technologies Co., Ltd. Device [19e5:d802] (rev 20)
17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2335] (rev a1)
17:00.1 Audio device [0403]: NVIDIA Corporation ...          no accelerator, and neither is an NVSwitch bridge [0680]
"""

from __future__ import annotations

import re

from probes.text import plain

# Classes 03xx display, 12xx processing accelerator, 0b40 co-processor: pci.ids.  Without -nn only the words stand.
_LINE = re.compile(
    r"^\s*(?P<bus>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+"
    r"(?:[^\[\n:]*\[(?:03|12|0b4)[0-9a-f]{1,2}\]|(?:Processing acc|3D contr|VGA comp|Display contr|Co-proc)[^\[:\n]*):",
    re.IGNORECASE | re.MULTILINE,
)


def accelerators(text: str) -> tuple[str, ...]:
    """Bus ids, as printed."""
    return tuple(found["bus"] for found in _LINE.finditer(plain(text)))
