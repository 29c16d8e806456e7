"""Parses ixsmi of Iluvatar CoreX 3.x and 4.x: the formats of nvidia-smi with another header, and clocks instead of
ECC."""

from __future__ import annotations

from envcheck.core.model import Document
from probes.smi import output_kinds
from probes.smi.pasted_output import SmiTool

TOOL = "ixsmi"
_NAMES = SmiTool(TOOL, banner=r"(?:IX-ML|IX-?SMI)", management=r"nvml|ixml|ix-ml|libixml[\w.]{0,8}")


def parse(text: str) -> Document:
    """Return the parsed text, with or without surrounding text; kind "unknown" if there is no output. Never raises."""
    return output_kinds.parse_output(_NAMES, text)
