"""How the outputs of `npu-smi` and related tools begin; `npu_answers` parses them."""

from __future__ import annotations

from envcheck.core.model import Document
from probes.ascend.npu_page import TOOL
from probes.paste.output_forms import FirstLine, OutputForms, shell_errors
from probes.paste.output_restarts import (
    any_rule,
    follows_blank,
    follows_gap,
    follows_last_chip,
    follows_no_table,
    follows_word,
    has_lesser_begin,
    has_new_key,
    has_other_block,
    has_other_counts,
    has_other_words,
    has_other_words_behind,
    has_same_assignment,
    has_same_begin,
    is_first,
    is_second,
    repeats_begin,
)

__all__ = ["FORMS", "TOOL", "parse"]

_FIELDS = (
    r"Total Count|Card Count|Health Status|Fault Event Count|Chip Physical ID|Soc Max Temperature ?\(C\)"
    r"|vnpu-mode|Process id|SDID|Super Pod ID|(?:VRD|MCU|VDM) Count"
)
_FIELD_BEGINS = (
    *("Total Count", "Card Count", "Health Status", "Fault Event Count", "Chip Physical ID", "Soc Max Temp"),
    *("vnpu-mode", "Process id", "SDID", "Super Pod ID", "VRD Count", "MCU Count", "VDM Count"),
)
_WATCH = r"N(?:pu|PU) ?ID\s*\(|Pwr\(W\)\s+Temp\(C\)"
_ERRORS = (
    r"DrvMng\w+ failed|dcmi (?:module|model|init)|There is no NPU|This device does not support querying|Get \w+ failed"
    r"|Fail(?:ed)? to .{1,120}\bret is -?\d|Error parameter of|Command or option is not found"
    rf"|cat: \S{{0,80}}(?:Ascend|hccn)\S{{0,80}}: |{shell_errors('npu-smi|hccn_tool')}"
)
_ERROR_BEGINS = (
    *("DrvMng", "dcmi ", "There is no NPU", "This device does not support", "Get ", "Fail", "Error parameter of"),
    *("Command or option", "cat: "),
)
FORMS = OutputForms(
    programs=r"npu-smi|hccn_tool|npu-list|lspci|cat\s+\S*(?:scend|hccn|version\.)\S*",
    program_words=("smi", "hccn", "npu-list", "lspci", "scend", "version."),
    own=(
        FirstLine("info", r"[ \t]*(?:\|\s*)?npu-smi\s+v?[\w.]+\s+Version\s*:", ("smi",)),
        FirstLine(
            "info",
            r"[ \t]*\|\s*NPU\s+Chip\s*\|\s*Process id",
            begins=("NPU",),
            repeats=True,
            restart=any_rule(is_second, follows_word("[WARNING]")),
        ),
        FirstLine("map", r"\s*NPU ID\s+(?:Slot ID\s+)?Chip ID\s", begins=("NPU ID",)),
        FirstLine("topo", r"\s*(?:NPU|Phy-ID)\d+\s+(?:NPU|Phy-ID)\d+\b", begins=("NPU", "Phy-ID")),
        FirstLine("vnpu", r"[ \t]*\|\s*NPU (?:resource static|instance template) info", begins=("NPU ",)),
        FirstLine(
            "vnpu",
            r"\s*\|?[ \t]{0,40}AICORE\s+Memory\s+AICPU\b",
            begins=("AICORE",),
            repeats=True,
            restart=any_rule(is_second, follows_word("template info")),
        ),
        FirstLine("version", r"\s*npu-smi version\s*:", ("smi",)),
        FirstLine(
            "watch",
            rf"\s*(?:{_WATCH})",
            begins=("NPU", "Npu", "Pwr(W)"),
            repeats=True,
            restart=any_rule(has_other_words, follows_gap),
        ),
        FirstLine("fields", r"\s*NPU ID\s*:", begins=("NPU ID",), repeats=True, restart=has_other_block),
        FirstLine(
            "fields",
            rf"\s*(?:{_FIELDS})\s*:",
            begins=_FIELD_BEGINS,
            repeats=True,
            restart=any_rule(has_new_key, repeats_begin, follows_last_chip),
        ),
        FirstLine(
            "fields",
            r"\s*TX Error Count\s*:",
            begins=("TX Error Count",),
            repeats=True,
            restart=any_rule(has_other_counts, repeats_begin, follows_last_chip),
        ),
        FirstLine(
            "hccn",
            r"\s*\[dev(?:ice)?[ _]?(?:id)?[ :]*\d",
            begins=("[dev",),
            repeats=True,
            restart=any_rule(is_first, repeats_begin),
        ),
        FirstLine(
            "hccn",
            r"\s*(?:(?:default gateway|link status|net health status|optical info)\s*:|dev_id:\d)",
            begins=("default gateway", "link status", "net health status", "optical info", "dev_id:"),
            repeats=True,
            restart=any_rule(has_other_words, repeats_begin, has_same_begin(r"\s*dev_id:\d{1,6},")),
        ),
        FirstLine(
            "hccn",
            r"\s*packet statistics:\s*$",
            begins=("packet stat",),
            repeats=True,
            restart=any_rule(is_second, has_other_words),
        ),
        FirstLine(
            "lspci",
            r"\s*[0-9a-f:]{2,7}:[0-9a-f]{2}\.\d Processing accelerators(?: \[\w{4}\])?: Huawei",
            ("Processing accelerators",),
            repeats=True,
            restart=any_rule(has_lesser_begin, has_same_begin(r"\s*[0-9a-f:.]{7,12} ")),
        ),
        FirstLine(
            "file",
            r"\s*package_name=\S",
            begins=("package_name=",),
            extends=True,
            restart=any_rule(follows_no_table, follows_blank),
        ),
        FirstLine(
            "file",
            r"\s*(?:Version|address_\d+)=\S",
            begins=("Version=", "address_"),
            repeats=True,
            restart=any_rule(is_first, has_same_assignment),
        ),
        FirstLine("file", r"\s*UserName=\S", begins=("UserName=",)),
        FirstLine(
            "file",
            r"\s*/usr/local/Ascend/\S+\s*$",
            begins=("/usr/local/Ascend/",),
            repeats=True,
            restart=has_other_words,
        ),
        FirstLine(
            "error",
            rf"\s*(?:{_ERRORS})",
            ("smi", "hccn_tool"),
            begins=_ERROR_BEGINS,
            repeats=True,
            restart=has_other_words_behind(r"\s*DrvMng"),
        ),
        FirstLine(
            "info",
            r"\s*\[WARNING\] ?The driver package may not be completely",
            begins=("[WARNING]",),
            repeats=True,
            restart=follows_blank,
        ),  # below a table, or alone
    ),
    hints=("Ascend", "davinci", "hccn", r"NPU(?<=\bNPU)\b", "Chip ID"),
)


def parse(text: str) -> Document:
    """Return the parsed text; kind `unknown` if it has no output of these tools. Never raises."""
    from probes.ascend.npu_answers import parse_answers  # a text of another tool needs the forms alone

    return parse_answers(text)
