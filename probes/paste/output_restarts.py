"""Rules by which a line begins another output, although such lines also occur within one.

Each takes the lines of the output so far, the line, and some lines below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice, takewhile

BLOCK_HEAD = 6  # lines below: the device, its chips, a blank line, the first key
_COUNTS = ("Total Count", "Card Count")  # keys above the blocks of a list, with their number
_HEADS = ("NPU ID", "Chip ID", "Chip Count", "Card ID", "Chip Name", *_COUNTS)  # keys that name a device
_IDLE = "No process in device"  # where the line of a process would be
_SELECTED = re.compile(r"\s-i\s{1,4}(\d{1,9})\b")  # the device that a command asks for
_BEGIN = re.compile(r"[^A-Za-z]{0,4}[A-Za-z]*")
_ROW = re.compile(r"\s*\|\s*([0-9]{1,9})\s+(\S+)")  # | 4 Name ...
_FORM = re.compile(  # of a cell; a mask, an error and a flag have none
    r"\s*(?:(?P<uuid>(?:GPU|MIG)-[0-9a-f]{8}-)|(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:)|(?P<mask>0x[0-9A-Fa-f]{4,16}\s*$)"
    r"|(?P<number>\d{1,12}(?:\.\d{1,6})?(?: [A-Za-z%]{1,4})?\s*$)|(?P<name>[A-Z][A-Za-z]{1,12}[ -][A-Z0-9]))"
)
_NUMBERS = re.compile(r"(?<!\S)[^\s\d]*\d\S*")  # a word with a digit


class LinesAbove:
    """The lines of an output so far, without that of its command.

    What a rule asks of all lines is read once for each line, however many lines may begin another output.
    """

    def __init__(self, lines: list[str], first: int = 0) -> None:
        self._lines, self._first = lines, first
        self._places: dict[Callable[[str], Hashable], dict[Hashable, list[int]]] = {}
        self._read: dict[Callable[[str], Hashable], int] = {}
        self._first_places: dict[Callable[[str], Hashable], tuple[dict[Hashable, int], int]] = {}
        self._valued: dict[Callable[[str], str | None], int] = {}  # the first line that may have a value
        self._begin = ""

    @property
    def command(self) -> str:
        """The line of the command, or ""."""
        return self._lines[0] if self._first else ""

    def cut(self, first: int, last: int) -> list[str]:
        """Return the lines from one index up to another one."""
        return self._lines[self._first + first : self._first + last]

    def group_lines(self, fold: Callable[[str], Hashable]) -> Mapping[Hashable, list[int]]:
        """Return the indices of the lines for each value that `fold` gives, in the order of the lines."""
        places = self._places.setdefault(fold, {})
        done = self._read.get(fold, self._first)
        for at in range(done, len(self._lines)):
            places.setdefault(fold(self._lines[at]), []).append(at - self._first)
        self._read[fold] = max(done, len(self._lines))
        return places

    def find_first(self, fold: Callable[[str], Hashable], value: Hashable) -> int:
        """Return the index of the first line for which `fold` gives this value, -1 without one.

        Lines below the first one are not read.
        """
        places, done = self._first_places.get(fold) or ({}, self._first)
        if value not in places and done < len(self._lines):
            for at, each in enumerate(map(fold, self._lines[done:]), done - self._first):
                places.setdefault(each, at)
            self._first_places[fold] = places, len(self._lines)
        return places.get(value, -1)

    def find_first_value(self, fold: Callable[[str], str | None]) -> str | None:
        """Return the first value that `fold` gives for a line, None without one."""
        value = None
        for at in range(self._valued.get(fold, self._first), len(self._lines)):
            self._valued[fold] = at
            value = fold(self._lines[at])
            if value is not None:
                break
        return value

    def list_full_lines(self) -> Sequence[int]:
        """Return the indices of the lines that are not blank."""
        return self.group_lines(_is_full).get(True, [])

    def find_first_full_line(self) -> str:
        """Return the first line that is not blank, or ""."""
        self._begin = self._begin or next(filter(str.strip, islice(self._lines, self._first, None)), "")
        return self._begin

    def find_last_full_line(self) -> str:
        """Return the last line that is not blank, or ""."""
        if len(self._lines) > self._first and self._lines[-1].strip():
            return self._lines[-1]
        return next(filter(str.strip, islice(reversed(self._lines), len(self._lines) - self._first)), "")

    def ends_with_blank(self) -> bool:
        """Return whether the last line is blank, and another one is not."""
        is_blank = len(self._lines) > self._first and not self._lines[-1].strip()
        return is_blank and bool(self.find_first_full_line())


Restart = Callable[[LinesAbove, str, Sequence[str]], bool]


def any_rule(*rules: Restart) -> Restart:
    """Return the rule of which one of these is enough."""

    def restart(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
        found = False
        for rule in rules:  # a generator for each row takes longer than most rules
            found = rule(above, line, below)
            if found:
                break
        return found

    return restart


def all_rules(*rules: Restart) -> Restart:
    """Return the rule that needs all of these."""

    def restart(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
        found = True
        for rule in rules:
            found = rule(above, line, below)
            if not found:
                break
        return found

    return restart


def has_other_words(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the line differs from the first one of the output by more than numbers: another message."""
    begun = above.find_first_full_line()
    return bool(begun) and _fold_numbers(begun) != _fold_numbers(line)


def has_other_words_behind(preface: str) -> Restart:
    """Return the rule of `has_other_words` for messages that may follow lines which match `preface`."""
    introduces = re.compile(preface)

    def is_blank_or_preface(line: str) -> bool:
        return not line.strip() or introduces.match(line) is not None

    def restart(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
        return False in above.group_lines(is_blank_or_preface) and has_other_words(above, line, below)

    return restart


def has_other_block(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the block of a device has another first key than those of the output, or its list is complete.

    A second head of the same device begins another answer, too, unless each chip has its own; and the head of a device
    that the command does not ask for.
    """
    selected = _SELECTED.search(above.command)
    if selected and int(selected[1]) != _read_number(line):
        return True
    again = above.find_first(str.strip, line.strip())
    if again >= 0 and _has_another_head(above, again, below):
        return True
    own = above.find_first_value(_read_block_key)
    if own in _COUNTS:
        return _is_complete_list(above)
    key = _find_block_key(below)
    if key is None or own is None:
        return False
    if own not in _HEADS and _begins_block(below):
        return True
    block = above.find_first(_read_key, _read_key(line))
    if block < 0:
        return key != "Chip ID" or own == "Process id"
    return _find_block_key(above.cut(block + 1, block + 1 + BLOCK_HEAD)) not in (None, key)


def has_new_key(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the line's key is new in the output, and more than the names of a device is above it."""
    key = _read_key(line)
    keys = above.group_lines(_read_colon_key).keys() - {None}
    is_named = keys <= set(_HEADS) and not _is_complete_list(above)
    return bool(keys) and (key in _COUNTS or (key not in keys and not is_named))


def follows_last_chip(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the answer ends with the last one of its chips: where each chip is below its block."""
    places = above.group_lines(_read_key)
    chips, counts = places.get("Chip ID", ()), places.get("Chip Count", ())
    first = next((key for key in above.group_lines(_read_block_key) if key not in (None, "NPU ID")), None)
    if not counts or first == "Chip ID" or _read_key(above.find_last_full_line()) != "Chip ID":
        return False
    return _read_number(above.cut(counts[0], counts[0] + 1)[0]) == len(chips)


def has_other_counts(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the line's key is new in the output, and no key above it counts the same."""
    return has_new_key(above, line, below) and _read_counted(line) not in above.group_lines(_read_counted)


def follows_line(text: str) -> Restart:
    """Return the rule for rows that no output has below a line of this text: one with it has ended."""

    def restart(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
        return text in above.group_lines(str.strip)

    return restart


def follows_word(word: str) -> Restart:
    """Return the rule for lines that no output has below a line with this word: one with it has ended."""

    def has_word(line: str) -> bool:
        return word in line

    def restart(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
        return True in above.group_lines(has_word)

    return restart


def has_same_key(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the output has a line with this key already."""
    return _read_key(line) in above.group_lines(_read_key)


def has_same_begin(pattern: str) -> Restart:
    """Return the rule for lines that begin with what the pattern matches: the output has such a line already."""
    begin = re.compile(pattern)

    def read_begin(line: str) -> str | None:
        found = begin.match(line)
        return found[0] if found else None

    def restart(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
        begun = read_begin(line)
        return begun is not None and begun in above.group_lines(read_begin)

    return restart


def has_same_assignment(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the output has a line that gives the same name a value."""
    return _read_name(line) in above.group_lines(_read_name)


def follows_other_line(word: str) -> Restart:
    """Return the rule for rows without a head that are one below the other: the last line has not this word."""

    def restart(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
        return word not in (above.find_last_full_line() or word)

    return restart


def follows_gap(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether a blank line is between the line and the output, whose last lines have none between them.

    In a text with a blank line behind each one, it tells nothing.
    """
    full = above.list_full_lines() if above.ends_with_blank() else ()
    return len(full) > 1 and full[-1] - full[-2] == 1


def follows_gap_and_rule(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether a gap is above the rule that is above the line: the rule begins a table, and ends none."""
    is_ruled = above.find_last_full_line().lstrip()[:2] in ("+-", "+=")
    full = above.list_full_lines() if is_ruled else ()
    return len(full) > 2 and full[-1] - full[-2] > 1 and full[-2] - full[-3] == 1


def follows_blank(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether a blank line is between the line and the output."""
    return above.ends_with_blank()


def repeats_begin(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the key is that of the output's first line, and a gap is above: the same answer again."""
    return _read_key(line) == _read_key(above.find_first_full_line()) and follows_gap(above, line, below)


def has_other_head(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the output has no head of these words: of a monitor, which repeats its own."""
    return not is_second(above, line, below)


def follows_no_table(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether no table is above the line, which continues one."""
    return True not in above.group_lines(_has_bar)


def has_other_width(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether a row has another number of cells than the line above it, which may be of no row at all."""
    last = above.find_last_full_line()
    return bool(last) and last.count(",") != line.count(",")


def has_other_forms(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether a row has a cell of another form than the row above it, such as a number where that has a UUID."""
    last = above.find_last_full_line()
    forms = ((_read_form(one), _read_form(other)) for one, other in zip(last.split(","), line.split(","), strict=False))
    return any(one and other and one != other for one, other in forms)


def returns_to_begin(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the line has the words of the output's first one, and the last one has others: a list of such
    lines has ended."""
    last = above.find_last_full_line()
    return bool(last) and not has_other_words(above, line, below) and has_other_words(above, last, below)


def has_lesser_begin(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the first word of the line is not behind that of the last one with as many parts, or none has as
    many: a sorted list ends there."""
    rows = above.group_lines(_count_colons).get(_count_colons(line), ())
    last = above.cut(rows[-1], rows[-1] + 1)[0] if rows else ""
    return line.split()[:1] <= last.split()[:1] if rows else bool(above.list_full_lines())


def has_lesser_second(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the second word of a row is a number that is not behind that of the row before it.

    Rows have as many colons in their first word.
    """
    rows = above.group_lines(_count_colons).get(_count_colons(line), ())
    own = line.split()[1:2]
    other = above.cut(rows[-1], rows[-1] + 1)[0].split()[1:2] if rows else []
    are_numbers = all(word.isdecimal() and len(word) < 10 for word in (*own, *other))
    return bool(own and other) and are_numbers and int(own[0]) <= int(other[0])


def is_row_of_another_table(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the row's number is not behind that of the row before it, or the table has ended: `| 4 Name ...`.

    The word behind the number marks such rows.
    """
    number, name = _read_row(line)
    rows = above.group_lines(_read_row_name).get(name, ()) if name else ()
    ends = above.group_lines(_has_processes).get(True, ())
    if not rows or (ends and ends[-1] > rows[-1]):
        return bool(ends)
    return number <= _read_row(above.cut(rows[-1], rows[-1] + 1)[0])[0]


def is_second(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether the output has such a line already."""
    return _read_words(line) in above.group_lines(_read_words)


def is_first(above: LinesAbove, line: str, below: Sequence[str]) -> bool:
    """Return whether no line of the output begins with the word of this one."""
    return _read_begin(line) not in above.group_lines(_read_begin)


def _read_form(cell: str) -> str:
    """Return the form of a cell, "" where its text does not show one."""
    found = _FORM.match(cell)
    return found.lastgroup or "" if found else ""


def _count_colons(line: str) -> int:
    return sum(word.count(":") for word in line.split(maxsplit=1)[:1])


def _read_counted(line: str) -> str:
    return " ".join(_read_key(line).split()[-2:])


def _has_bar(line: str) -> bool:
    return "|" in line


def _has_processes(line: str) -> bool:
    return "Processes:" in line


def _read_row(line: str) -> tuple[int, str]:
    """Return the number of a row and the word behind it; without them 0 and ""."""
    match = _ROW.match(line)
    return (int(match[1]), match[2]) if match else (0, "")


def _read_row_name(line: str) -> str:
    return _read_row(line)[1]


def _is_full(line: str) -> bool:
    return bool(line.strip())


def _read_words(line: str) -> str:
    return " ".join(line.replace("|", " ").split())


def _read_begin(line: str) -> str:
    begin = _BEGIN.match(line.lstrip())
    return begin[0] if begin else ""


def _has_another_head(above: LinesAbove, first: int, below: Sequence[str]) -> bool:
    """Return whether a head of a device that is above, too, has the number of its chips or the same chip, or only one
    of them has a number."""
    own = [_read_key(each) for each in below[:1]]
    if own == ["Chip ID"] and [each.strip() for each in above.cut(first + 1, first + 2)] == [below[0].strip()]:
        return True
    if "Chip Count" in own or above.find_first(_read_key, "Chip Count") >= 0:
        return True
    return not any(above.find_first(_read_key, key) >= 0 for key in ("Chip ID", "Chip Name"))


def _begins_block(below: Sequence[str]) -> bool:
    """Return whether the head of a device has its block below it: another one may end a block with the device."""
    keys = [_read_colon_key(each) for each in takewhile(str.strip, below)]
    return "Chip Count" in keys or any(key not in (None, *_HEADS) for key in keys)


def _read_number(line: str) -> int:
    """Return the number behind the colon, -1 without one."""
    value = line.partition(":")[2].strip()
    return int(value) if value.isdecimal() and len(value) < 10 else -1


@lru_cache(maxsize=1024)  # messages are repeated
def _fold_numbers(line: str) -> str:
    return _NUMBERS.sub("0", line.strip())


def _read_key(line: str) -> str:
    return line.partition(":")[0].strip()


def _read_name(line: str) -> str:
    return line.partition("=")[0].strip()


def _read_colon_key(line: str) -> str | None:
    return _read_key(line) if ":" in line else None


def _read_block_key(line: str) -> str | None:
    """Return the key of a line, or None without one, and for a line that all blocks have."""
    if _IDLE in line:
        return "Process id"
    key, colon, _value = line.partition(":")
    return key if colon and (key := key.strip()) != "Chip Count" else None


def _is_complete_list(above: LinesAbove) -> bool:
    """Return whether a list of devices has as many as its first line announces."""
    places = above.group_lines(_read_key)
    counts = [places[key][0] for key in _COUNTS if key in places]
    count = _read_number(above.cut(min(counts), min(counts) + 1)[0]) if counts else -1
    return 0 <= count <= len(places.get("NPU ID", ()))


def _find_block_key(lines: Iterable[str]) -> str | None:
    """Return the first key of a block, without the lines that all blocks have."""
    return next((key for key in map(_read_block_key, lines) if key is not None), None)
