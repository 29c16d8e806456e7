"""Parses nvidia-smi, drivers 340 to 610, on Linux, Windows, WSL and Jetson."""

from __future__ import annotations

from envcheck.core.model import Document
from probes.smi import output_kinds
from probes.smi.pasted_output import SmiTool

TOOL = "nvidia-smi"
_NAMES = SmiTool(TOOL, banner=r"NVIDIA-SMI", management=r"nvml|libnvidia-ml[\w.]{0,8}")


def parse(text: str) -> Document:
    """Return the parsed text, with or without surrounding text; kind "unknown" if there is no output. Never raises."""
    return output_kinds.parse_output(_NAMES, text)
