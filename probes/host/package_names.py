"""A Python package's name, in its one spelling."""

from __future__ import annotations

import re


def normalize_name(name: str) -> str:
    """Paddle_Custom.NPU is paddle-custom-npu (the packaging specification's rule)."""
    return re.sub(r"[-_.]+", "-", name).lower()
