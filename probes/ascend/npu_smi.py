"""How the outputs of `npu-smi` and related tools begin; `npu_answers` parses them."""

from __future__ import annotations

from envcheck.core.model import Document
from probes.ascend.npu_page import TOOL
from probes.paste.output_forms import SHELL, FirstLine, OutputForms

__all__ = ["FORMS", "TOOL", "parse"]

_FIELDS = (
    r"Total Count|Card Count|Health Status|Fault Event Count|Chip Physical ID|Soc Max Temperature ?\(C\)"
    r"|vnpu-mode|Process id"
)
_FIELD_BEGINS = (
    *("Total Count", "Card Count", "Health Status", "Fault Event Count", "Chip Physical ID", "Soc Max Temp"),
    *("vnpu-mode", "Process id"),
)
_WATCH = r"N(?:pu|PU) ?ID\s*\(|Pwr\(W\)\s+Temp\(C\)"
_FILES = r"/usr/local/Ascend/\S+\s*$|(?:Version|package_name|UserName|address_\d+)=\S"
_FILE_BEGINS = ("/usr/local/Ascend/", "Version=", "package_name=", "UserName=", "address_")
_ERRORS = (
    r"DrvMng\w+ failed|dcmi (?:module|init)|There is no NPU|This device does not support querying|Get \w+ failed"
    rf"|{SHELL}(?:npu-smi|hccn_tool): [A-Za-z]"
)
_ERROR_BEGINS = ("DrvMng", "dcmi ", "There is no NPU", "This device does not support", "Get ")
FORMS = OutputForms(
    programs=r"npu-smi|hccn_tool|npu-list|cat\s+\S*(?:scend|hccn|version\.)\S*",
    program_words=("smi", "hccn", "npu-list", "scend", "version."),
    own=(
        FirstLine("info", r"[ \t]*(?:\|\s*)?npu-smi\s+v?[\w.]+\s+Version\s*:", ("smi",)),
        FirstLine("info", r"[ \t]*\|\s*NPU\s+Chip\s*\|\s*Process id", begins=("NPU",), repeats=True),
        FirstLine("map", r"\s*NPU ID\s+(?:Slot ID\s+)?Chip ID\s", begins=("NPU ID",)),
        FirstLine("topo", r"\s*(?:NPU|Phy-ID)\d+\s+(?:NPU|Phy-ID)\d+\b", begins=("NPU", "Phy-ID")),
        FirstLine("vnpu", r"[ \t]*\|\s*NPU (?:resource static|instance template) info", begins=("NPU ",)),
        FirstLine("version", r"\s*npu-smi version\s*:", ("smi",)),
        FirstLine("watch", rf"\s*(?:{_WATCH})", begins=("NPU", "Npu", "Pwr(W)"), repeats=True),
        FirstLine("fields", r"\s*NPU ID\s*:", begins=("NPU ID",), repeats=True, other_block=True),
        FirstLine("fields", rf"\s*(?:{_FIELDS})\s*:", begins=_FIELD_BEGINS, repeats=True),
        FirstLine(
            "hccn",
            r"\s*(?:\[dev(?:ice)?[ _]?(?:id)?[ :]*\d"
            r"|(?:default gateway|link status|net health status|optical info)\s*:)",
            begins=("[dev", "default gateway", "link status", "net health status", "optical info"),
            repeats=True,
        ),
        FirstLine(
            "lspci",
            r"\s*[0-9a-f:]{2,7}:[0-9a-f]{2}\.\d Processing accelerators: Huawei",
            ("accelerators: Huawei",),
            repeats=True,
        ),
        FirstLine("file", rf"\s*(?:{_FILES})", begins=_FILE_BEGINS, extends=True),
        FirstLine("error", rf"\s*(?:{_ERRORS})", ("smi: ", "hccn_tool: "), begins=_ERROR_BEGINS, repeats=True),
    ),
    hints=r"Ascend|davinci|hccn|\bNPU\b|Chip ID",
)


def parse(text: str) -> Document:
    """Return the parsed text; kind `unknown` if it has no output of these tools. Never raises."""
    from probes.ascend.npu_answers import parse_answers  # a text of another tool needs the forms alone

    return parse_answers(text)
