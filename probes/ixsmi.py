"""ixsmi of Iluvatar CoreX, 3.x and 4.x: nvidia-smi's forms with a head of its own and clocks in place of ECC."""

from __future__ import annotations

from envcheck.model import Document
from probes import smi
from probes.smi_paste import Tool

TOOL = "ixsmi"
_NAMES = Tool(TOOL, banner=r"(?:IX-ML|IX-?SMI)", management=r"nvml|ixml|ix-ml|libixml[\w.]{0,8}")


def parse(text: str) -> Document:
    """Whatever stands around the output; kind "unknown" where there is none."""
    return smi.parse(_NAMES, text)
