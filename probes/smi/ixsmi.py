"""ixsmi of Iluvatar CoreX, 3.x and 4.x: nvidia-smi's forms with a head of its own and clocks in place of ECC."""

from __future__ import annotations

from envcheck.core.model import Document
from probes.smi import kinds
from probes.smi.smi_paste import Tool

TOOL = "ixsmi"
_NAMES = Tool(TOOL, banner=r"(?:IX-ML|IX-?SMI)", management=r"nvml|ixml|ix-ml|libixml[\w.]{0,8}")


def parse(text: str) -> Document:
    """Whatever stands around the output; kind "unknown" where there is none."""
    return kinds.parse(_NAMES, text)
