"""Parses ixsmi of Iluvatar CoreX 3.x and 4.x: the formats of nvidia-smi with another header, and clocks instead of
ECC."""

from __future__ import annotations

from envcheck.core.model import Document
from probes.paste.output_forms import FirstLine, OutputForms, shell_errors, xml_head
from probes.paste.output_restarts import (
    any_rule,
    follows_gap,
    follows_gap_and_rule,
    has_other_words,
    is_row_of_another_table,
)
from probes.smi.output_forms import SHARED_FORMS
from probes.smi.pasted_output import SmiTool

TOOL = "ixsmi"
_NAMES = SmiTool(TOOL, banner=r"(?:IX-ML|IX-?SMI)", management=r"nvml|ixml|ix-ml|libixml[\w.]{0,8}")

FORMS = OutputForms(
    programs=r"ixsmi",
    program_words=("smi",),
    own=(
        FirstLine("table", r".{0,60}?\|\s*(?:IX-ML|IX-?SMI)\s*:?.{0,80}Version", ("IX-ML", "SMI")),
        FirstLine(
            "table",
            r"[ \t]*\|\s*\d{1,3}\s+Iluvatar\s",
            ("Iluvatar",),
            repeats=True,
            restart=any_rule(is_row_of_another_table, follows_gap, follows_gap_and_rule),
        ),  # of a table without a head
        FirstLine("query-text", r"[ \t]*=+\s*IX-?SMI LOG\s*=+", ("SMI",)),
        FirstLine("query-text", r"\s*Product Name\s*: Iluvatar", ("Iluvatar",), repeats=True, restart=follows_gap),
        FirstLine("xml", xml_head(r"ix\w{0,8}smi_log"), ("smi",)),
        FirstLine(
            "error",
            rf"{shell_errors('ixsmi')}|\s*Failed to initialize IX-?ML",
            ("smi",),
            begins=("Failed to initialize IX",),
            repeats=True,
            restart=has_other_words,
        ),
    ),
    shared=SHARED_FORMS,
    follows="nvidia-smi",
    hints=("Iluvatar", r"IX(?<=\bIX)\b", r"B(?<=\bB)[IR]-?V?\d{2,3}", r"M(?<=\bM)[IR]-?V?\d{2,3}", "ixlink", "ixml"),
)


def parse(text: str) -> Document:
    """Return the parsed text, with or without surrounding text; kind "unknown" if there is no output. Never raises."""
    from probes.smi.output_kinds import parse_output  # a text of another tool needs the forms alone

    return parse_output(_NAMES, text)
