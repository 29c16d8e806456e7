"""nvidia-smi, drivers 340 to 610, on Linux, Windows, WSL and Jetson."""

from __future__ import annotations

from envcheck.core.model import Document
from probes.smi import kinds
from probes.smi.smi_paste import Tool

TOOL = "nvidia-smi"
_NAMES = Tool(TOOL, banner=r"NVIDIA-SMI", management=r"nvml|libnvidia-ml[\w.]{0,8}")


def parse(text: str) -> Document:
    """Whatever stands around the output; kind "unknown" where there is none."""
    return kinds.parse(_NAMES, text)
