"""/proc/driver/nvidia/version: the version of the kernel module that is loaded."""

from __future__ import annotations

import re

from envcheck.core.model import Document


def parse(text: str) -> Document:
    """`NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06`, or `Open Kernel Module for x86_64  570.124.06`."""
    found = re.search(r"Kernel Module\D*?(?:x86_64|aarch64)?\s+(\d+(?:\.\d+)+)", text)
    return Document("nvidia-smi", "kernel-module" if found else "unknown", driver_version=found[1] if found else None)
