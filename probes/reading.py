"""Which parser reads which answer.  A parser that breaks is an answer too: a document of kind "unknown"."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

from envcheck.model import Answer, Document, Outcome
from envcheck.vendors import Vendor
from probes import pci

PARSERS = {"npu-smi": "probes.npu_smi", "ixsmi": "probes.ixsmi", "nvidia-smi": "probes.nvidia_smi"}
UNKNOWN = "unknown"


def document(vendor: Vendor, answer: Answer) -> Document:
    """What the answer says.  Errors come on either stream, an absent or hung tool says nothing that could be read."""
    nothing = Document(vendor.tool, UNKNOWN)
    if answer.outcome in (Outcome.ABSENT, Outcome.HUNG, Outcome.EMPTY):
        return nothing
    try:
        return _parser(vendor, answer)(answer.out if answer.ok and answer.out.strip() else answer.text)
    except Exception:  # the last line of defence: parsers promise not to raise, the doctor goes on if one does
        return nothing


def bus_ids(vendor: Vendor, lspci: Answer) -> tuple[str, ...]:
    return pci.accelerators(lspci.out, vendor.pci_classes)


def _parser(vendor: Vendor, answer: Answer) -> Callable[[str], Document]:
    if answer.key == "read /proc/driver/nvidia/version":
        return kernel_module
    parse: Callable[[str], Document] = importlib.import_module(PARSERS[vendor.tool]).parse
    return parse


def kernel_module(text: str) -> Document:
    """`NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06`, or `Open Kernel Module for x86_64  570.124.06`."""
    found = re.search(r"Kernel Module\D*?(?:x86_64|aarch64)?\s+(\d+(?:\.\d+)+)", text)
    return Document("nvidia-smi", "kernel-module" if found else UNKNOWN, driver_version=found[1] if found else None)
