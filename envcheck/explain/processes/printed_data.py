"""Samples of a data set that a program prints: they may quote errors, but report none; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

LOOK_BACK = 400  # lines
WIDTH = 400  # bytes of a line that are looked at
# Captions of LLaMA-Factory, ms-swift, Megatron-SWIFT, PaddleFormers, OpenRLHF, verl and axolotl.
_STARTS = re.compile(
    rb"^\s{0,8}(?:\[INFO:swift\] )?"
    rb"(?:\[(?:INPUT|LABELS|CHOSEN_INPUT|REJECTED_INPUT|prompt|response|ground_truth)\](?:\s|$)"
    rb"|(?:(?:chosen_|rejected_)?inputs|labels|chosen|rejected|prompts?|response|question|answer|src|tgt|source|target"
    rb"|(?:training|eval|sample|data) example)\s{0,3}(?::(?:\s|$)|$))",
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


class SampleReader:
    """Tells which lines of a block, asked in their order, are part of a printed sample; checks each line once."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._lines = lines
        self._next = 0
        self._caption = -LOOK_BACK  # line of the caption of the sample that is not over

    def is_printed_data(self, at: int) -> bool:
        """Return whether the line is part of a sample that was printed."""
        line = self._lines[at]
        if _RECORD.match(line[:WIDTH]):
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
