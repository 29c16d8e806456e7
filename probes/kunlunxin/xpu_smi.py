"""How the outputs of xpu_smi, also installed as xpu-smi, begin; `xpu_outputs` parses them."""

from __future__ import annotations

from envcheck.core.model import Document
from probes.paste.output_forms import FOREIGN, FirstLine, OutputForms, shell_errors, xml_head
from probes.paste.output_restarts import (
    all_rules,
    any_rule,
    follows_blank,
    follows_gap,
    follows_line,
    has_lesser_second,
    has_other_words,
    has_other_words_behind,
    is_row_of_another_table,
)
from probes.smi.output_forms import DRIVER_LINE

_INTEL_COMMAND = r"\bxpu-smi (?:discovery|stats|dump|health|diag|policy|topdown|topology|ps|config|updatefw|vgpu)\b"
FORMS = OutputForms(
    programs=r"xpu[-_]smi",
    program_words=("smi",),
    own=(
        FirstLine("table", r".{0,60}?\|\s*XPU-SMI\s.{0,80}Version", ("SMI",)),
        FirstLine("query-text", r"[ \t]*=+\s*XPU-?SMI LOG\s*=+", ("SMI",)),
        FirstLine("xml", xml_head("xpu_smi_log"), ("smi",)),
        FirstLine(
            "machine",
            r"\s*[0-9a-fx]{8}:[0-9a-fx]{2}:[0-9a-fx]{2}\.(?:[0-7] |x )\d+ \d+ [0-9A-Z]{2,32} \d",
            words=tuple(f".{function} " for function in (*"01234567", "x")),
            also="0 0",
            repeats=True,
            restart=has_lesser_second,
        ),
        FirstLine("list", r"\s*XPU 0: \S", begins=("XPU 0: ",)),
        FirstLine("topo", r"\s*(?:XPU|OAM)0\s+(?:(?:XPU|OAM)1|CPU Affinity)\b", begins=("XPU0", "OAM0")),
        FirstLine("old-table", r"\s*Runtime Version: \d", begins=("Runtime Version: ",)),
        FirstLine("old-table", r"\s*\|?\s*DEVICES\s*\|?\s*$", begins=("DEVICES",), repeats=True),
        DRIVER_LINE,
        FirstLine("query-text", r"\s*XPU-RT Version\s+: ", begins=("XPU-RT",), repeats=True),
        FirstLine(
            "old-table",
            r"\s*\|\s*\d{1,3} \| [0-9a-f:.]{7,16} \|.{1,80}/dev/xpu\d",
            ("/dev/xpu",),
            repeats=True,
            restart=any_rule(follows_line("PROCESSES"), is_row_of_another_table, follows_gap),
        ),  # of a table without a head
        FirstLine(
            "error",
            rf"{shell_errors('xpu[-_]smi')}|\s*insmod: .{{1,80}}kunlun",  # before the runtime prints anything
            ("smi",),
            begins=("insmod: ",),
            repeats=True,
            restart=has_other_words,
        ),
        FirstLine(
            "error",
            r"\s*(?:\[(?:ERROR|WARN)\]\[XPURT\]|No XPUs were found|Failed to initialize XPUML)",
            ("XPURT",),
            begins=("No XPUs were", "Failed to initialize XPU"),
            repeats=True,
            restart=any_rule(
                has_other_words_behind(r"\s*\[(?:ERROR|WARN)\]\[XPURT\]"), all_rules(has_other_words, follows_blank)
            ),
        ),
        # Intel's program of the same name, and programs of vendors whose tables have the same form.
        FirstLine(
            FOREIGN,
            r"[ \t]*\|\s*(?:Intel XPU-SMI|(?!(?:NVIDIA|IX|XPU)-SMI)[A-Z]{2,8}-SMI)\b",
            ("Intel XPU", "-SMI"),
            repeats=True,
        ),
        FirstLine(FOREIGN, rf"[^|\n]{{0,80}}?{_INTEL_COMMAND}", ("xpu-smi ",), repeats=True),
        FirstLine(
            FOREIGN,
            r"\s*(?:\|?\s{0,8}Device ID {1,40}\||Timestamp, DeviceId, |PID {1,20}Command {1,60}DeviceID |CLI:\s*$)",
            begins=("Device ID ", "Timestamp, DeviceId", "PID ", "CLI:"),
            repeats=True,
        ),
    ),
    hints=("KUNLUNXIN", "P800", r"XPU(?<=\bXPU)", r"R(?<=\bR)[234]00\b", r"K(?<=\bK)[12]00\b"),
    follows="nvidia-smi",
)


def parse(text: str) -> Document:
    """Return the parsed text, with or without surrounding text; kind "unknown" if there is no output. Never raises."""
    from probes.kunlunxin.xpu_outputs import parse_outputs  # a text of another tool needs the forms alone

    return parse_outputs(text)
