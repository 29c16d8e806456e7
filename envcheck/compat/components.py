"""Components by name, as the tables of versions list them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from envcheck.compat.model import Component
from envcheck.compat.table_file import own_files


@functools.cache
def components() -> Mapping[str, Component]:
    """By name."""
    return {
        name: replace(component, title=component.title or name, vendor=file.vendor)
        for file in own_files()
        for name, component in file.components.items()
    }
