"""Samples of a data set that a program prints: they may quote errors, but report none; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

LOOK_BACK = 400  # lines
# Captions of LLaMA-Factory, ms-swift, Megatron-SWIFT, PaddleFormers, OpenRLHF, verl and axolotl.
_STARTS = re.compile(
    rb"^\s{0,8}(?:\[INFO:swift\] )?(?:(?:chosen_|rejected_)?inputs|labels|chosen|rejected|prompts?|response"
    rb"|question|answer|\[(?:INPUT|LABELS|CHOSEN_INPUT|REJECTED_INPUT|prompt|response|ground_truth)\]|src|tgt|source|target"
    rb"|(?:training|eval|sample|data) example)\s{0,3}:?(?:\s|$)",
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


def is_printed_data(lines: Sequence[bytes], at: int) -> bool:
    """Return whether the line is part of a sample that was printed."""
    line = lines[at]
    if _RECORD.match(line[:400]):
        return True
    if _ENDS.search(line[:200]):
        return False
    for before in range(at, max(-1, at - LOOK_BACK), -1):
        head = lines[before][:400]
        if _STARTS.match(head):
            return True
        if before != at and _ENDS.search(head):
            return False
    return False
