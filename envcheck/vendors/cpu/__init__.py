"""Hosts without accelerators: only the CPU."""

from __future__ import annotations

from envcheck.core.messages import _
from envcheck.core.vendor import Vendor

VENDOR = Vendor(
    name="cpu",
    package=__name__,
    title=_("no accelerator found"),
    tool="",
    parser="",
    pci_vendor="",
    node_pattern="",
    devices=(),
    device_type="cpu",
    torch_device="cpu",
    torch_backend="gloo",
)
