"""Puts the rows of a table on lines of their own again where a paste lost the line breaks.

+-----+ | NVIDIA-SMI 535 ... | |-----+-----+ | GPU Name | Bus-Id | | Fan | Memory | |=====+=====| | 0 ...

A border shows how many cells the rows below it have, so that rows with empty cells are told apart, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

LEAST_LENGTH = 240  # characters of a line that may hold a table: no row of a table is longer
_BORDER = re.compile(r"(?<![^\s|+])[+|](?:[-=]{3,}[+|]){1,16}(?=\s|[|+]|$)|(?<![^\s|])-{20,}(?=\s|[|]|$)")
_LISTED = re.compile(r"(?<=\)) +(?=(?:GPU \d{1,4}: |MIG \d)\S.{1,140}?\(UUID: )")
_LEAST_BORDERS = 3  # above and below the head, and at the end


def expand_collapsed_rows(lines: list[str]) -> list[str]:
    """Return the lines, with the rows of collapsed tables on lines of their own."""
    if max(map(len, lines), default=0) < LEAST_LENGTH:
        return lines
    expanded = [list(_expand_line(line)) if len(line) >= LEAST_LENGTH else [line] for line in lines]
    return lines if len(expanded) == sum(map(len, expanded)) else [row for rows in expanded for row in rows]


def _expand_line(line: str) -> Iterator[str]:
    """Yield the pieces of a line: borders, the rows between them, and the text around the table; rows of a list."""
    if "(UUID:" in line:
        yield from _LISTED.split(line)
        return
    borders = list(_BORDER.finditer(line)) if line.count("---") >= _LEAST_BORDERS else []
    if len(borders) < _LEAST_BORDERS:
        yield line
        return
    if before := line[: borders[0].start()].strip():
        yield before
    counts: list[int] = []  # cells of the rows so far, each number once, the latest first
    for border, following in zip(borders, [*borders[1:], None], strict=True):
        yield border[0]
        counts = _put_first(len(re.findall(r"[-=]{3,}", border[0])), counts)
        rows, after = _split_rows(line[border.end() : following.start() if following else None], counts)
        yield from rows
        if rows:
            counts = _put_first(rows[0].count("|") - 1, counts)
        if after.strip():
            yield after.strip()


def _put_first(number: int, numbers: Iterable[int]) -> list[int]:
    return list(dict.fromkeys([number, *numbers]))


def _split_rows(text: str, counts: Sequence[int]) -> tuple[list[str], str]:
    """Return the rows of a block and the text below them: each row has a bar more than cells, nothing is between rows.

    The number of cells is that of the border above, else that of rows further above, else all are in one row.
    """
    *parts, after = text.split("|")
    for cells in (*counts, len(parts) - 1):
        step = cells + 1
        if parts and len(parts) % step == 0 and not any(map(str.strip, parts[::step])):
            rows = ["|".join(("", *parts[at + 1 : at + step], "")) for at in range(0, len(parts), step)]
            return rows, after
    return [], text
