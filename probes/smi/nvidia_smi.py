"""Parses nvidia-smi, drivers 340 to 610, on Linux, Windows, WSL and Jetson."""

from __future__ import annotations

from envcheck.core.model import Document
from probes.paste.output_forms import FirstLine, OutputForms, shell_errors, xml_head
from probes.paste.output_restarts import any_rule, follows_word, has_other_words, is_second
from probes.smi.output_forms import SHARED_FORMS
from probes.smi.pasted_output import SmiTool

TOOL = "nvidia-smi"
_PROGRAMS = r"nvidia-smi(?:\.exe)?"
NAMES = SmiTool(TOOL, banner=r"NVIDIA-SMI", management=r"nvml|libnvidia-ml[\w.]{0,8}")

FORMS = OutputForms(
    programs=_PROGRAMS,
    program_words=("smi",),
    own=(
        FirstLine("table", r".{0,60}?\|\s*NVIDIA-SMI\s.{0,80}Version", ("SMI",)),
        FirstLine("query-text", r"[ \t]*=+\s*NVSMI LOG\s*=+", ("SMI",)),
        FirstLine("xml", r"\s*<!DOCTYPE nvidia_smi_log \[", ("smi",)),
        FirstLine(
            "xml",
            xml_head("nvidia_smi_log"),
            ("smi",),
            repeats=True,
            restart=any_rule(is_second, follows_word("</nvidia_smi_log>")),
        ),
        FirstLine("version", r"\s*NVIDIA-SMI version\s*:", ("SMI",)),
        FirstLine("error", r"\s*NVRM: API mismatch", begins=("NVRM: API",), repeats=True, restart=has_other_words),
        FirstLine(
            "error",
            rf"\s*NVIDIA-SMI (?:has failed|couldn)|{shell_errors(_PROGRAMS)}",
            ("SMI", "smi"),
            repeats=True,
            restart=has_other_words,
        ),
    ),
    shared=SHARED_FORMS,
    hints=("NVIDIA", "GeForce", "Tesla", "Quadro", r"GPU 0: (?:[AHLTVB]\d{1,3}|RTX)", "nvlink"),
)


def parse(text: str) -> Document:
    """Return the parsed text, with or without surrounding text; kind "unknown" if there is no output. Never raises."""
    from probes.smi.output_kinds import parse_output  # a text of another tool needs the forms alone

    return parse_output(NAMES, text)
