"""No accelerator: the processor alone."""

from __future__ import annotations

from envcheck.core.vendor import Vendor

VENDOR = Vendor(
    name="cpu",
    package=__name__,
    title="no accelerator",
    tool="",
    parser="",
    pci_vendor="",
    node_pattern="",
    devices=(),
    device_type="cpu",
    torch_device="cpu",
    torch_backend="gloo",
)
