"""No accelerator: the processor alone."""

from __future__ import annotations

from envcheck.core.vendor import Vendor

VENDOR = Vendor(
    name="cpu",
    package=__name__,
    title="no accelerator",
    tool="",
    pci_vendor="",
    node_pattern="",
    visible_env="",
    device_type="cpu",
    launch_option="",
    plugin=None,
    toolkit=None,
    runtime=None,
    chips_per_card=1,
    devices=(),
)
