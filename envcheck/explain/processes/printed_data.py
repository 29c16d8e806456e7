"""Samples of a data set and source that a program prints: they may quote errors, but report none; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

LOOK_BACK = 400  # lines
WIDTH = 400  # bytes of a line that are looked at
# Of a table's column, whose name may be one of the captions: `answer: string`.
_COLUMN_TYPE = rb"(?:string|u?int\d{1,2}|double|float|halffloat|bool|null|binary|list<|struct<|timestamp)"
# Captions of LLaMA-Factory, ms-swift, Megatron-SWIFT, PaddleFormers, OpenRLHF, verl and axolotl.  kubectl describe has
# labels of another kind: `Labels:    app=trainer`.
_STARTS = re.compile(
    rb"^(?!\s{0,8}Labels: {1,40}(?:[\w./-]{1,160}=|<none>))\s{0,8}(?:\[INFO:swift\] )?"
    rb"(?:\[(?:INPUT|LABELS|CHOSEN_INPUT|REJECTED_INPUT|prompt|response|ground_truth)\](?:\s|$)"
    rb"|(?:(?:chosen_|rejected_)?inputs|labels|chosen|rejected|prompts?|response|question|answer|src|tgt|source|target"
    rb"|(?:training|eval|sample|data) example|###? (?:Instruction|Question|Human|User))\s{0,3}"
    rb"(?::(?!\s(?:large_)?" + _COLUMN_TYPE + rb")(?:\s|$)|$)|<\|(?:user|system|assistant|im_start)\|>)",
    re.IGNORECASE,
)
# A line of a logger, a bar, a traceback, or of a step: the sample is over.
_ENDS = re.compile(
    rb"^\s{0,4}(?:\[?(?:INFO|WARNING|ERROR|WARN|DEBUG)\b[|:\]]|\[?20\d\d[-/]\d\d|\d\d/\d\d/20\d\d|\[rank\d{1,5}\]:"
    rb"|[IWEF]\d{4} |\*{3,}|label_ids:|input_ids:|\[(?:INPUT|LABELS)_IDS\]|\{'(?:loss|train_runtime|eval_))"
    rb"|\d{1,3}%\||it/s\]|s/it\]|^Traceback \(most recent"
)
# A record printed as one line: a dictionary with a field of a data set.
_RECORD = re.compile(
    rb"^(?:(?!rror|xception|FATAL|fail).){0,120}?[{\[]\s{0,4}['\"](?:instruction|input|output|text|messages|content|prompt|conversations|query|response"
    rb"|question|answer|chosen|rejected|role)['\"]\s{0,3}:"
)
# Python source: a statement by its keyword, and what else such a line may be.
_STATEMENT = re.compile(
    rb"^\s{0,40}(?:(?:assert|raise|return) \S|(?:from \S{1,80} )?import \w"
    rb"|(?:if|elif|for|while|with) .{1,300}:\s{0,9}(?:#|$)|(?:else|try|finally):|except\b.{0,99}:\s{0,9}(?:#|$)"
    rb"|(?:def|class) \w{1,80}[(:]|(?:print|warnings\.warn)\()"
)
_SOURCE = re.compile(
    rb"^\s{0,40}(?:#|@\w|\w[\w.]{0,80}(?:\[[^\[\]]{0,80}\])? (?:[-+*/|]?=) \S|\w[\w.]{0,80}\(.{0,300}\)\s{0,9}(?:#|$))"
)
_FRAME = re.compile(rb'File "[^"]{1,400}", line \d{1,9}')  # a traceback shows the source line below


_BOX = tuple(mark.encode() for mark in "│┃║")
# A source line or frame in rich's box of a traceback: `│   13 def main():   │`, `│ /w/train.py:14 in main   │`.
_BOXED_FRAME = re.compile(rb"^\s{1,8}(?:\xe2\x9d\xb1 )?\s{0,6}\d{1,9} |^ [^\s:]{1,400}:\d{1,9} in \S")


def is_boxed(line: bytes) -> bool:
    """Return whether the line is a row of a table with several columns, or of rich's box of a traceback.

    Programs print their own error in a box of one column, and rich prints the exception's own line below its box.
    """
    row = line.strip()
    if not (row.startswith(_BOX) and row.endswith(_BOX)):
        return False
    inside = row[len(_BOX[0]) : -len(_BOX[0])]
    return any(mark in inside for mark in _BOX) or bool(_BOXED_FRAME.match(inside))


class SampleReader:
    """Tells which lines of a block, asked in their order, are part of a printed sample; checks each line once."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._next = 0
        self._caption = -LOOK_BACK  # line of the caption of the sample that is not over

    def is_printed_data(self, at: int) -> bool:
        """Return whether the line is part of a sample that was printed."""
        line = self._lines[at]
        if is_boxed(line) or _RECORD.match(line[:WIDTH]) or self._is_source(at):
            return True
        if _ENDS.search(line[:200]):
            return False
        for before in range(max(self._next, at - LOOK_BACK + 1), at):
            self._check_line(before)
        self._next = max(self._next, at)
        return bool(_STARTS.match(line[:WIDTH])) or self._caption > at - LOOK_BACK

    def _check_line(self, at: int) -> None:
        head = self._lines[at][:WIDTH]
        if _STARTS.match(head):
            self._caption = at
        elif _ENDS.search(head):
            self._caption = -LOOK_BACK

    def _is_source(self, at: int) -> bool:
        """Return whether the line and one next to it are source that was printed, at least one a plain statement."""
        line = self._lines[at][:WIDTH]
        is_statement = bool(_STATEMENT.match(line))
        if not is_statement and not _SOURCE.match(line):
            return False
        before, after = self._find_text(at, -1), self._find_text(at, 1)
        if _FRAME.search(before):
            return False
        return any(_STATEMENT.match(one) or (is_statement and _SOURCE.match(one)) for one in (before, after))

    def _find_text(self, at: int, step: int) -> bytes:
        """Return the next line with text in a direction, at most three lines away."""
        for place in range(at + step, at + 4 * step, step):
            if 0 <= place < len(self._lines) and self._lines[place].strip():
                return self._lines[place][:WIDTH]
        return b""
