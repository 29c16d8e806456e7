"""The components of the version tables."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from envcheck.compat.table_file import own_files
from envcheck.compat.version_records import VersionedComponent


@functools.cache
def load_components() -> Mapping[str, VersionedComponent]:
    """Return the components by name."""
    return {
        name: replace(component, title=component.title or name, vendor=file.vendor)
        for file in own_files()
        for name, component in file.components.items()
    }
