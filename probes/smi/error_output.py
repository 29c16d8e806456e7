"""Finds an error message in place of output, by its wording without blanks, so that wrapped lines match."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, islice

from envcheck.core.model import Document, ToolError
from probes.smi.error_phrases import PHRASES, SIGNS, ErrorPhrase
from probes.smi.pasted_output import PastedOutput, SmiTool

SEARCHED = 256 << 10  # characters; an error is short, and so is the text around it


_RESULT = re.compile(
    r":\s*(?:insufficient permissions|unknown error|gpu is lost|not supported|driver not loaded|invalid argument"
    r"|gpu requires reset|in use by another)",
    re.IGNORECASE,
)
# A message that any program may print counts only on a line with one of these, or below a line with the tool's name.
_OURS = re.compile(
    r"nvidia|nvml|nvrm|ixsmi|ixml|ix-ml|iluvatar|corex|xpu|kunlun|gpu|cuda|devices?(?:were)?found|mig|query|\bfield"
)
_ESCAPE = re.compile(r"\\(?=['\"`])")
TRIES = 20  # maximum number of such lines that are tested


def parse_error(paste: PastedOutput, phrases: tuple[ErrorPhrase, ...] = PHRASES) -> Document | None:
    """Return the document of kind `error`, or None if there is no error message."""
    found = find_error(paste, phrases)
    return Document(paste.tool.name, "error", error=found) if found else None


def is_nvml_result(line: str) -> bool:
    """Return whether the line ends with a result of the NVML library."""
    return bool(_RESULT.search(line))


def find_error(paste: PastedOutput, phrases: tuple[ErrorPhrase, ...] = PHRASES) -> ToolError | None:
    """Return the first known error message in the text, or None."""
    whole = paste.text[:SEARCHED]
    text = "".join(whole.lower().split()).replace("’", "'")
    if "\\" not in whole and not any(map(text.__contains__, SIGNS)):
        return None
    lines = whole.split("\n")
    squeezed = ["".join(line.split()) for line in whole.lower().replace("’", "'").split("\n")]
    if "\\" in whole:
        squeezed = [_ESCAPE.sub("", line) for line in squeezed]
    text = "".join(squeezed)
    starts = list(accumulate(map(len, squeezed), initial=0))
    if not _OURS.search(text):
        return None
    named = _compile_tool_name(paste.tool)
    for phrase, wording in zip(phrases, list_wordings(phrases, paste.tool), strict=True):
        for found in islice(wording.finditer(text), TRIES):
            first, last = (bisect_right(starts, at) - 1 for at in (found.start(), found.end() - 1))
            above = "".join(squeezed[max(0, first - 2) : first])
            if _OURS.search("".join(squeezed[first : last + 1])) or named.search(above):
                message = " ".join(" ".join(lines[first : last + 1]).split())[:1000]
                return ToolError(phrase.category, None, message, phrase.meaning, phrase.fix)
    return None


@lru_cache
def _compile_tool_name(tool: SmiTool) -> re.Pattern[str]:
    return re.compile(rf"{tool.program_pattern}|{tool.management}")


@lru_cache
def list_wordings(phrases: tuple[ErrorPhrase, ...], tool: SmiTool) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of the phrases with the names of the tool, once for all texts."""
    return tuple(re.compile(_wording_pattern(phrase, tool)) for phrase in phrases)


def _wording_pattern(phrase: ErrorPhrase, tool: SmiTool) -> str:
    wording = phrase.wording.replace("TOOL", f"(?:{tool.program_pattern})").replace("LIB", tool.management)
    return wording if tool.unit == "gpu" else wording.replace("gpu", f"(?:gpu|{tool.unit})")
