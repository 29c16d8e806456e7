"""The torch that each release of a package requires, by the version tables; pure."""

from __future__ import annotations

import functools
import re

from envcheck.compat.table_loader import own_version_table

_FIRST = re.compile(r"(?:>=)?(\d[\w.]{0,20})")


@functools.cache
def describe_torch_releases(package: str) -> str:
    """Return `0.8.0: 2.6.0, 0.9.0: 2.7.0`: the first release that requires each torch; "" for an unknown package."""
    rows = [row for row in own_version_table().rows if row.of == package and "torch" in row.others and not row.partner]
    firsts = {row.others["torch"][0]: found[1] for row in reversed(rows) if (found := _FIRST.match(row.version[0]))}
    return ", ".join(f"{first}: {torch}" for torch, first in reversed(firsts.items()))
