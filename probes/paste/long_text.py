"""Selects the outputs in a text of any length: a table behind 50 MB of log, or a watch log of a month.

The text comes in blocks; of each only the outputs are kept, and some lines around them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from envcheck.core.tool_text import strip_escapes
from probes.paste.text_parts import PartSplitter, TextPart, cut_after_output

BLOCK = 2 << 20  # characters of a block: memory is ten times as much while it is split
KEPT_LIMIT = 2 << 20  # characters kept of all blocks, from their end
_AROUND = 100  # lines kept before the first output of a block, and of a block without any


def select_outputs(blocks: Iterable[str], splitter: PartSplitter) -> tuple[str, int]:
    """Return the text of all outputs with lines around them, and how many characters were left out."""
    kept: deque[str] = deque()
    size = left_out = 0
    for block in _end_at_lines(blocks, splitter):
        text = block if len(block) < BLOCK // 2 else _select_of_block(splitter.split_lines(block.split("\n")))
        left_out += len(block) - len(text)
        kept.append(text)
        size += len(text)
        while size > KEPT_LIMIT and len(kept) > 1:
            dropped = kept.popleft()
            size, left_out = size - len(dropped), left_out + len(dropped)
    return "\n".join(kept), max(0, left_out)


def _end_at_lines(blocks: Iterable[str], splitter: PartSplitter) -> Iterator[str]:
    """Yield blocks of whole outputs: the last output of a block goes on in the next one."""
    rest = ""
    for block in blocks:
        text = rest + strip_escapes(block)
        end = text.rfind("\n") + 1
        last = splitter.find_last_start(text[max(0, end - BLOCK // 4) : end]) if end else None
        if last is not None:
            end = max(0, end - BLOCK // 4) + last
        if end:
            yield text[:end].removesuffix("\n")
        rest = text[end:]
        if len(rest) > BLOCK:  # a line or an output without end
            yield rest
            rest = ""
    if rest:
        yield rest


def _select_of_block(parts: list[TextPart]) -> str:
    texts = []
    for part in parts:
        if part.tools:
            texts.append(cut_after_output(part).removesuffix("\n"))
        elif len(part.lines) > 2 * _AROUND:
            texts.append("\n".join([*part.lines[:_AROUND], *part.lines[-_AROUND:]]))
        else:
            texts.append(part.text)
    return "\n".join(texts)
