"""Recognizes the output of other vendors' programs: Intel's xpu-smi of the same name, and tables of the same shape."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envcheck.core.messages import mark

INTEL_REASON = mark("this is the output of Intel's xpu-smi, another program of the same name")

# Patterns by a word that each of their matches has: a search for a word takes a hundredth of that for such a pattern.
# A pattern that begins with a letter is faster than one that begins with \b.
_INTEL = {
    "Intel": re.compile(r"Intel\(R\)|\bIntel XPU[- ]"),
    "Level Zero": re.compile(r"\bLevel Zero\b"),
    "XPU Manager": re.compile(r"\bXPU Manager\b"),
    "xpumcli": re.compile(r"\bxpumcli\b"),
    "libxpum": re.compile(r"\blibxpum\b"),
    "Device Information": re.compile(r"\bDevice Information\s{0,120}\|"),
    "EU Array": re.compile(r"\bEU Array\b"),
    "GPU Utilization": re.compile(r"\bGPU Utilization \(%\)"),
    "DeviceI": re.compile(r"\bDeviceI[Dd]\s{1,20}SHR\s{1,20}MEM\b"),
    "Device ID": re.compile(r"\|\s{0,8}Device ID\s{1,40}\|"),
    "PCI BDF Address": re.compile(r"\bPCI BDF Address\b"),
    "pci_bdf_address": re.compile(r"\bpci_bdf_address\b"),
    "Tile ID": re.compile(r"\bTile ID\b"),
    "GPU ": re.compile(r"\bGPU \d{1,2}/\d{1,2}\s"),
    "xpu-smi ": re.compile(
        r"xpu-smi (?<=\bxpu-smi )(?:discovery|stats|dump|health|diag|policy|topdown|topology|ps|config|updatefw|vgpu)\b"
    ),
}
_OTHER = {
    "-SMI": re.compile(r"\|\s{0,40}(?:NVIDIA|PPU|HL|MX|MTHREADS|IX|ROCM|HY|MXSMI|BR|EFSMI|CN)-SMI\b"),
    "IX-ML": re.compile(r"\|\s{0,40}IX-ML\b"),
    "SMI LOG": re.compile(r"SMI LOG(?<=\b(?:NV|IX)SMI LOG)\b"),
    "smi_log>": re.compile(r"<(?:nvidia_smi|ixsmi_smi|ix_smi|mx_smi|ixsmi)_log>"),
    "npu-smi ": re.compile(r"\bnpu-smi \d"),
    "(UUID:": re.compile(r"(?:^|\n)\s{0,8}GPU \d{1,3}: \S.{0,80}\(UUID:"),
}
# Marks of an output of Kunlunxin's, not words that prose may have.
_KUNLUNXIN = re.compile(
    r"XPU-SMI\s{1,40}Driver Version|XPUSMI LOG|<xpu_smi_log|XPU-RT Version|XPURT\]|:\s{1,4}KUNLUNXIN\b"
    r"|\|\s{0,6}\d{1,3}\s{1,4}(?:P8|R[2-4]|K[12]|M[13])00\b|(?:^|\n)\s{0,40}XPU \d{1,3}: "
)
_WORDS = re.compile(r"xpu|kunlun|(?<![A-Za-z0-9])(?:P8|R[2-4]|RG8|K[12])00\b", re.IGNORECASE)


def _has_any(patterns: Mapping[str, re.Pattern[str]], text: str) -> bool:
    """Return whether one of the patterns is in the text."""
    return any(word in text and pattern.search(text) for word, pattern in patterns.items())


def has_kunlunxin_word(text: str) -> bool:
    """Return whether any word of the text hints at Kunlunxin; other tools' outputs have none."""
    return bool(_WORDS.search(text))


def is_kunlunxin_output(text: str) -> bool:
    """Return whether the text has a mark that only Kunlunxin's xpu_smi prints."""
    return bool(_KUNLUNXIN.search(text))


def is_intel_output(text: str) -> bool:
    """Return whether the text is from Intel's program, and has no mark of Kunlunxin's."""
    return not is_kunlunxin_output(text) and _has_any(_INTEL, text)


def is_other_output(text: str) -> bool:
    """Return whether the text is from a tool of another vendor with similar formats."""
    return not is_kunlunxin_output(text) and _has_any(_OTHER, text)
