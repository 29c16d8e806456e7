"""How the outputs of xpu_smi, also installed as xpu-smi, begin; `xpu_outputs` parses them."""

from __future__ import annotations

from envcheck.core.model import Document
from probes.paste.output_forms import SHELL, FirstLine, OutputForms
from probes.smi.output_forms import DRIVER_LINE

FORMS = OutputForms(
    programs=r"xpu[-_]smi",
    program_words=("smi",),
    own=(
        FirstLine("table", r".{0,60}?\|\s*XPU-SMI\s.{0,80}Version", ("SMI",)),
        FirstLine("query-text", r"[ \t]*=+\s*XPU-?SMI LOG\s*=+", ("SMI",)),
        FirstLine("xml", r"\s*<xpu_smi_log>", ("smi",)),
        FirstLine(
            "machine",
            r"\s*[0-9a-f]{8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] \d+ \d+ [0-9A-Z]{8,} \d",
            words=tuple(f".{function} " for function in range(8)),
            repeats=True,
        ),
        FirstLine("list", r"\s*XPU 0: \S", begins=("XPU 0: ",)),
        FirstLine("topo", r"\s*(?:XPU|OAM)0\s+(?:(?:XPU|OAM)1|CPU Affinity)\b", begins=("XPU0", "OAM0")),
        FirstLine("old-table", r"\s*Runtime Version: \d", begins=("Runtime Version: ",)),
        FirstLine("old-table", r"\s*\|?\s*DEVICES\s*\|?\s*$", begins=("DEVICES",), repeats=True),
        DRIVER_LINE,
        FirstLine("query-text", r"\s*XPU-RT Version\s+: ", begins=("XPU-RT",), repeats=True),
        FirstLine("error", rf"{SHELL}xpu[-_]smi: [A-Za-z]|\[ERROR\]\[XPURT\]", ("smi", "XPURT"), repeats=True),
    ),
    hints=r"KUNLUNXIN|P800|\bXPU|\b(?:R[234]|K[12])00\b",
    follows="nvidia-smi",
)


def parse(text: str) -> Document:
    """Return the parsed text, with or without surrounding text; kind "unknown" if there is no output. Never raises."""
    from probes.kunlunxin.xpu_outputs import parse_outputs  # a text of another tool needs the forms alone

    return parse_outputs(text)
