"""Parses /proc/driver/nvidia/version: the version of the loaded kernel module."""

from __future__ import annotations

import re

from envcheck.core.model import Document


def parse(text: str) -> Document:
    """Return the version in `NVRM version: NVIDIA UNIX x86_64 Kernel Module 570.124.06`, or in that of the open
    module."""
    found = re.search(r"Kernel Module\D{0,40}?(?:x86_64|aarch64)?\s{1,8}(\d+(?:\.\d+)+)", text)
    return Document("nvidia-smi", "kernel-module" if found else "unknown", driver_version=found[1] if found else None)
