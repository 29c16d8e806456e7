"""Reads the versions of the SBL firmware from the outputs of xpu_smi that list them: -q and -q -x of drivers 5.x."""

from __future__ import annotations

import re

# <sbl>1.48</sbl> in a public -q -x, "SBL Version : 1.54" in -q
_SBL = re.compile(r"<sbl(?:_version)?>\s{0,20}(\d[\w.]{0,30})\s{0,20}<|\bSBL Version\s{0,60}:\s{0,4}(\d[\w.]{0,30})")


def read_sbl_versions(text: str) -> tuple[str, ...]:
    """Return the version of each device that has one, in the order of the output."""
    return tuple(found[1] or found[2] for found in _SBL.finditer(text))
