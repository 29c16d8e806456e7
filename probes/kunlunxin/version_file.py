"""Parses /proc/kunlun/version: the version of the loaded driver.

The file also has the version of the NVIDIA-like interface that the driver imitates, such as 515.58; installation
scripts take the driver's version from the line with KUNLUN (Paddle#75925; public installation scripts).
"""

from __future__ import annotations

import re

from envcheck.core.model import Document

TOOL = "xpu-smi"
_VERSION = re.compile(r"(?<![\w.])\d{1,4}(?:\.\d{1,6}){2,4}(?![\w.])")
_BY_OTHERS = re.compile(r"\bgcc\b|\blinux\b|\bkernel version\b", re.IGNORECASE)


def parse(text: str) -> Document:
    """Return the driver's version: of the line with KUNLUN, else the only other version of three or more numbers."""
    lines = text[:4096].splitlines()
    own = [line for line in lines if "KUNLUN" in line.upper() and _VERSION.search(line)]
    other = [line for line in lines if not _BY_OTHERS.search(line) and _VERSION.search(line)]
    found = [match[0] for line in own or other for match in [_VERSION.search(line)] if match]
    version = found[0] if own or len(set(found)) == 1 else None
    return Document(TOOL, "kernel-module" if version else "unknown", driver_version=version)
