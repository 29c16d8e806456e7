"""A complaint in place of an answer, found by its wording without blanks: wrapped lines match wherever they broke."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate, islice

from envcheck.core.model import Document, ToolError
from probes.smi.smi_paste import Paste
from probes.smi.smi_phrases import PHRASES, Phrase

SEARCHED = 256 << 10  # characters: an error is short, what stands around it hardly longer


_RESULT = re.compile(
    r":\s*(?:insufficient permissions|unknown error|gpu is lost|not supported|driver not loaded|invalid argument"
    r"|gpu requires reset|in use by another)",
    re.IGNORECASE,
)
# A sentence that any program may print counts only on a line with a name of ours, or below one with the tool's.
_OURS = re.compile(
    r"nvidia|nvml|nvrm|ixsmi|ixml|ix-ml|iluvatar|corex|gpu|cuda|devices?(?:were)?found|mig|query|\bfield"
)
TRIES = 20  # lines that such a sentence is looked at on


def parse(paste: Paste) -> Document | None:
    found = find(paste)
    return Document(paste.tool.name, "error", error=found) if found else None


def is_nvml_result(line: str) -> bool:
    return bool(_RESULT.search(line))


def find(paste: Paste) -> ToolError | None:
    """The complaint that this text makes, if it makes one."""
    lines = "\n".join(paste.lines)[:SEARCHED].split("\n")
    squeezed = ["".join(line.lower().split()).replace("’", "'") for line in lines]
    text = "".join(squeezed)
    starts = list(accumulate(map(len, squeezed), initial=0))
    for phrase in PHRASES if _OURS.search(text) else ():
        for found in islice(re.finditer(_wording(phrase, paste), text), TRIES):
            first, last = (bisect_right(starts, at) - 1 for at in (found.start(), found.end() - 1))
            above = "".join(squeezed[max(0, first - 2) : first])
            if _OURS.search("".join(squeezed[first : last + 1])) or re.search(_names(paste), above):
                message = " ".join(" ".join(lines[first : last + 1]).split())[:1000]
                return ToolError(phrase.category, None, message, phrase.meaning, phrase.fix)
    return None


def _names(paste: Paste) -> str:
    return rf"{re.escape(paste.tool.name)}|{paste.tool.management}"


def _wording(phrase: Phrase, paste: Paste) -> str:
    return phrase.wording.replace("TOOL", re.escape(paste.tool.name)).replace("LIB", paste.tool.management)
