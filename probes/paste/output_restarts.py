"""Rules by which a line begins another output, although such lines also occur within one.

Each takes the lines of the output so far, the line, and some lines below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

Restart = Callable[[Sequence[str], str, Sequence[str]], bool]

BLOCK_HEAD = 6  # lines below: the device, its chips, a blank line, the first key
_COUNTS = ("Total Count", "Card Count")  # keys above the blocks of a list, with their number
_HEADS = ("NPU ID", "Chip ID", "Chip Count", "Card ID", "Chip Name", *_COUNTS)  # keys that name a device
_NUMBERS = re.compile(r"(?<!\S)[^\s\d]*\d\S*")  # a word with a digit


def has_other_words(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
    """Return whether the line differs from the first one of the output by more than numbers: another message."""
    begun = next(filter(str.strip, above), "")
    return bool(begun) and _fold_numbers(begun) != _fold_numbers(line)


def has_other_words_behind(preface: str) -> Restart:
    """Return the rule of `has_other_words` for messages that may follow lines which match `preface`."""
    introduces = re.compile(preface)

    def restart(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
        full = list(filter(str.strip, above))
        return not all(map(introduces.match, full)) and has_other_words(above, line, below)

    return restart


def has_other_block(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
    """Return whether the block of a device has another first key than those of the output, or its list is complete.

    A second head of the same device begins another answer, too, unless each chip has its own.
    """
    if line.strip() in map(str.strip, above) and _has_another_head(above, below):
        return True
    own = _find_block_key(above)
    blocks = [at for at, each in enumerate(above) if _read_key(each) == _read_key(line)]
    if own in _COUNTS:
        return _is_complete_list(above)
    key = _find_block_key(each if ":" in each else f"{each.strip()}:" for each in below if each.strip())
    if key is None or own is None:
        return False
    if not blocks:
        return key != "Chip ID" or own == "Process id"
    return _find_block_key(above[blocks[0] + 1 :][:BLOCK_HEAD]) not in (None, key)


def has_new_key(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
    """Return whether the line's key is new in the output, and more than the names of a device is above it."""
    key = _read_key(line)
    keys = [_read_key(each) for each in above if ":" in each]
    is_named = set(keys) <= set(_HEADS) and not _is_complete_list(above)
    return bool(keys) and (key in _COUNTS or (key not in keys and not is_named))


def has_other_counts(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
    """Return whether the line's key is new in the output, and no key above it counts the same."""
    counted = " ".join(_read_key(line).split()[-2:])
    return has_new_key(above, line, below) and not any(_read_key(each).endswith(counted) for each in above)


def follows_line(text: str) -> Restart:
    """Return the rule for rows that no output has below a line of this text: one with it has ended."""

    def restart(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
        return any(each.strip() == text for each in above)

    return restart


def has_same_key(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
    """Return whether the output has a line with this key already."""
    return any(_read_key(each) == _read_key(line) for each in above)


def follows_other_line(word: str) -> Restart:
    """Return the rule for rows without a head that are one below the other: the last line has not this word."""

    def restart(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
        return word not in next(filter(str.strip, reversed(above)), word)

    return restart


def follows_no_table(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
    """Return whether no table is above the line, which continues one."""
    return not any("|" in each for each in above)


def has_other_width(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
    """Return whether a row has another number of cells than the line above it, which may be of no row at all."""
    last = next(filter(str.strip, reversed(above)), "")
    return bool(last) and last.count(",") != line.count(",")


def has_lesser_begin(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
    """Return whether the first word of the line is not behind that of the one above it: a sorted list ends there."""
    last = next(filter(str.strip, reversed(above)), "")
    return bool(last) and line.split()[:1] <= last.split()[:1]


def is_row_of_another_table(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
    """Return whether the row's number is not behind that of the row before it, or the table has ended: `| 4 Name ...`.

    The third word tells such rows from others.
    """
    _bar, number, name, *_rest = line.split()
    for each in reversed(above):
        if "Processes:" in each:
            return True
        words = each.split()[:3]
        if words[2:] == [name] and words[1].isdigit():
            return int(number) <= int(words[1])
    return False


def is_second(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
    """Return whether the output has such a line already."""
    return any(each.split() == line.split() for each in above)


def is_first(above: Sequence[str], line: str, below: Sequence[str]) -> bool:
    """Return whether no line of the output begins with the four characters of this one."""
    return not any(each.lstrip()[:4] == line.lstrip()[:4] for each in above)


def _has_another_head(above: Sequence[str], below: Sequence[str]) -> bool:
    """Return whether a head of a device that is above, too, has the number of its chips, or only one of them has it."""
    counted, own = ([_read_key(each) for each in lines] for lines in (above, below[:1]))
    return "Chip Count" in own or "Chip Count" in counted or not {"Chip ID", "Chip Name"} & {*counted}


def _fold_numbers(line: str) -> str:
    return _NUMBERS.sub("0", line.strip())


def _read_key(line: str) -> str:
    return line.partition(":")[0].strip()


def _is_complete_list(lines: Sequence[str]) -> bool:
    """Return whether a list of devices has as many as its first line announces."""
    counts = (line.partition(":")[2].strip() for line in lines if _read_key(line) in _COUNTS)
    value = next(counts, "")
    devices = sum(_read_key(line) == "NPU ID" for line in lines)
    return value.isdecimal() and len(value) < 10 and int(value) <= devices


def _find_block_key(lines: Iterable[str]) -> str | None:
    """Return the first key of a block, without the lines that all blocks have."""
    keys = (_read_key(line) for line in lines if ":" in line)
    return next((key for key in keys if key != "Chip Count"), None)
