"""Recognizes the output of other vendors' programs: Intel's xpu-smi of the same name, and tables of the same shape."""

from __future__ import annotations

import re

from envcheck.core.messages import mark

INTEL_REASON = mark("this is the output of Intel's xpu-smi, another program of the same name")
_INTEL = re.compile(
    r"Intel\(R\)|\bIntel XPU[- ]|\bLevel Zero\b|\bXPU Manager\b|\bxpumcli\b|\blibxpum\b"
    r"|\bDevice Information\s{0,120}\||\bEU Array\b|\bGPU Utilization \(%\)|\bDeviceI[Dd]\s{1,20}SHR\s{1,20}MEM\b"
    r"|\|\s{0,8}Device ID\s{1,40}\||\bPCI BDF Address\b|\bpci_bdf_address\b|\bTile ID\b|\bGPU \d{1,2}/\d{1,2}\s"
    r"|\bxpu-smi (?:discovery|stats|dump|health|diag|policy|topdown|topology|ps|config|updatefw|vgpu)\b"
)
_OTHER = re.compile(
    r"\|\s{0,40}(?:NVIDIA|PPU|HL|MX|MTHREADS|IX|ROCM|HY|MXSMI|BR|EFSMI|CN)-SMI\b|\|\s{0,40}IX-ML\b|\bNVSMI LOG\b"
    r"|\bIXSMI LOG\b|<(?:nvidia|ixsmi|ix|mx)_smi_log>|<ixsmi_log>|\bnpu-smi \d"
    r"|(?:^|\n)\s{0,8}GPU \d{1,3}: \S.{0,80}\(UUID:"
)
# Marks of an output of Kunlunxin's, not words that prose may have.
_KUNLUNXIN = re.compile(
    r"XPU-SMI\s{1,40}Driver Version|XPUSMI LOG|<xpu_smi_log|XPU-RT Version|XPURT\]|:\s{1,4}KUNLUNXIN\b"
    r"|\|\s{0,6}\d{1,3}\s{1,4}(?:P8|R[2-4]|K[12]|M[13])00\b|(?:^|\n)\s{0,40}XPU \d{1,3}: "
)
_WORDS = re.compile(r"xpu|kunlun|(?<![A-Za-z0-9])(?:P8|R[2-4]|RG8|K[12])00\b", re.IGNORECASE)


def has_kunlunxin_word(text: str) -> bool:
    """Return whether any word of the text hints at Kunlunxin; other tools' outputs have none."""
    return bool(_WORDS.search(text))


def is_kunlunxin_output(text: str) -> bool:
    """Return whether the text has a mark that only Kunlunxin's xpu_smi prints."""
    return bool(_KUNLUNXIN.search(text))


def is_intel_output(text: str) -> bool:
    """Return whether the text is from Intel's program, and has no mark of Kunlunxin's."""
    return bool(_INTEL.search(text)) and not is_kunlunxin_output(text)


def is_other_output(text: str) -> bool:
    """Return whether the text is from a tool of another vendor with similar formats."""
    return bool(_OTHER.search(text)) and not is_kunlunxin_output(text)
