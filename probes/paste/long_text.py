"""Selects the outputs in a text of any length: a table behind 50 MB of log, or a watch log of a month.

The text comes in blocks; of each only the outputs are kept, and some lines around them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from envcheck.core.tool_text import strip_escapes
from probes.paste.text_parts import PartSplitter, cut_after_output

BLOCK = 2 << 20  # characters of a block: memory is ten times as much while it is split
KEPT_LIMIT = 2 << 20  # characters kept of all blocks, from their end
_WAITING = 4  # blocks that are not split yet: of a text full of outputs, only the last one is
_NEAR = 1 << 5  # part of a block at its end where most texts that have outputs have one
_AROUND = 100  # lines kept before the first output of a block, and of a block without any


def select_outputs(blocks: Iterable[str], splitter: PartSplitter) -> tuple[str, int]:
    """Return the text of all outputs with lines around them, and how many characters were left out."""
    kept: list[str] = []
    waiting: list[str] = []
    size = 0
    for block in _end_at_lines(blocks, splitter):
        size += len(block)
        waiting.append(block)
        if len(waiting) > _WAITING:
            kept, waiting = _keep_last(kept, waiting, splitter), []
    kept = _keep_last(kept, waiting, splitter)
    return "\n".join(kept), max(0, size - sum(map(len, kept)))


def _keep_last(kept: list[str], blocks: list[str], splitter: PartSplitter) -> list[str]:
    """Return the texts kept of all blocks, the last of which are not split yet, as far as the limit allows."""
    texts: list[str] = []
    size = 0
    for text in chain((_select_of_block(block, splitter) for block in reversed(blocks)), reversed(kept)):
        size += len(text)
        if texts and size > KEPT_LIMIT:
            break
        texts.append(text)
    return texts[::-1]


def _end_at_lines(blocks: Iterable[str], splitter: PartSplitter) -> Iterator[str]:
    """Yield blocks of whole outputs: the last output of a block goes on in the next one."""
    rest = ""
    for block in blocks:
        text = rest + strip_escapes(block)
        end = text.rfind("\n") + 1
        if end and (last := _find_last_start(text, end, splitter)) is not None:
            end = last
        if end:
            yield text[:end].removesuffix("\n")
        rest = text[end:]
        if len(rest) > BLOCK:  # a line or an output without end
            yield rest
            rest = ""
    if rest:
        yield rest


def _find_last_start(text: str, end: int, splitter: PartSplitter) -> int | None:
    """Return where the last output begins, None if there is none near the end."""
    near, far = (max(0, end - BLOCK // part) for part in (_NEAR, 4))
    last = splitter.find_last_start(text[near:end])
    if last is not None and near + last > text.find("\n", near) + 1:  # not below the first line, which may be cut
        return near + last
    last = splitter.find_last_start(text[far:end])
    return None if last is None else far + last


def _select_of_block(block: str, splitter: PartSplitter) -> str:
    if len(block) < BLOCK // 2:
        return block
    texts = []
    for part in splitter.split_lines(block.split("\n")):
        if part.tools:
            texts.append(cut_after_output(part).removesuffix("\n"))
        elif len(part.lines) > 2 * _AROUND:
            texts.append("\n".join([*part.lines[:_AROUND], *part.lines[-_AROUND:]]))
        else:
            texts.append(part.text)
    return "\n".join(texts)
