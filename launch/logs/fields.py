"""Parse a log line into numbers by the names of TrainingStep.  Examples:

    {"step": 3, "loss": 4.27, "tokens_per_s": 4963, "memory_mib": 376}                           launch/programs/tiny.py
    [2025-11-21 03:50:53,164] [    INFO] - loss: 1.53238273, learning_rate: 0.004167, global_step: 2, ...
                                                                                              PaddleFormers, ERNIEKit
    {'loss': '4.804', 'grad_norm': '0.88', 'learning_rate': '0.0006', 'epoch': '0.41'}       transformers, LLaMA-Factory
    {'loss': 0.2, ..., 'memory(GiB)': 63.2, 'train_speed(iter/s)': 0.011, 'global_step/max_steps': '78/176'}    ms-swift
     iteration      122/  250000 | elapsed time per iteration (ms): 86545.2 | lm loss: 2.504220E+00 | grad norm: 0.231 |
                                                                                                   Megatron, MindSpeed
    Step 3 | loss:1.2 lr:0.0001 tokens_per_second_per_gpu:812.5 peak_memory_reserved:11.2                  torchtune
    Epoch [1/5], Step [20/100], Loss: 2.31                   step 20 loss 2.31                       loops of users' own

All are pairs of a name and a number; the name is the text between the previous number and the colon.  Without a colon
only steps, epochs and the loss are read.
"""

from __future__ import annotations

import math
import re

MIB_IN_GIB = 1024
LINE_LIMIT = 8 << 10  # characters parsed per line
ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f]")
_NUMBER = r"[-+]?(?:\d[\d_]{0,40}\.?\d{0,40}(?:[eE][-+]?\d{1,9})?|\.\d{1,40}(?:[eE][-+]?\d{1,9})?|nan|inf(?:inity)?)"
_VALUE = re.compile(
    rf"[:=]\s{{0,8}}['\"]?(?:[a-z][\w.]{{0,20}}\()?({_NUMBER})(?:\s{{0,8}}/\s{{0,8}}(\d{{1,12}}))?(?!\w)", re.IGNORECASE
)
_LEAD = re.compile(r"\A.*(?:[,|{}\[\];]|: | - |\d\s|\b[A-Z]{3,}\s)", re.DOTALL)  # text before a name
_NUMBERED = re.compile(
    r"\b(?:iteration|iter|step)(?:\s{1,12}|\s?\[)(\d{1,12})(?:\s?/\s{0,12}(\d{1,12}))?(?=[\s|,:;)\]-]|$)", re.IGNORECASE
)
_EPOCH = re.compile(r"\bepoch(?:\s|\s?\[)(\d{1,9}(?:\.\d{1,9})?)(?=[\s|,:;)\]/-]|$)", re.IGNORECASE)
_BARE_LOSS = re.compile(rf"(?:^|[|,;:)\]-]\s{{0,4}}|\d\s{{1,4}})loss\s{{1,4}}({_NUMBER})(?![\w.])", re.IGNORECASE)
# A line that has nothing but the loss.
_ONLY_LOSS = re.compile(rf"loss\s{{0,4}}[:=]?\s{{0,4}}{_NUMBER}", re.IGNORECASE)

# Name in the log → (field, factor to its unit).  PaddleFormers' trainer divides its memory by 2**30 and its older
# gpu_max_memory_reserved by 2**20; torchtune's statistics and LLaMA-Factory's vram_reserved are GiB.
FIELDS: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("loss", "lm loss", "lm_loss"), ("loss", 1.0)),
    **dict.fromkeys(("step", "global_step", "current_steps", "iter", "global_step/max_steps"), ("step", 1.0)),
    **dict.fromkeys(("iteration",), ("step", 1.0)),
    **dict.fromkeys(("max_steps", "total_steps"), ("of", 1.0)),
    **dict.fromkeys(("learning_rate", "learning rate", "lr"), ("learning_rate", 1.0)),
    **dict.fromkeys(("grad_norm", "grad norm", "global_norm"), ("grad_norm", 1.0)),
    **dict.fromkeys(("samples_per_s", "samples_per_second", "interval_samples_per_second"), ("samples_per_s", 1.0)),
    **dict.fromkeys(
        ("tokens_per_s", "tokens_per_sec", "tokens_per_second", "interval_tokens_per_second", "throughput"),
        ("tokens_per_s", 1.0),
    ),
    **dict.fromkeys(
        ("interval_tokens_per_second_per_device", "tokens_per_second_per_gpu"), ("tokens_per_s_card", 1.0)
    ),
    **dict.fromkeys(("interval_steps_per_second", "train_speed(iter/s)"), ("steps_per_s", 1.0)),
    "train_speed(s/it)": ("seconds", 1.0),
    "elapsed time per iteration (ms)": ("seconds", 1e-3),
    **dict.fromkeys(("batch_cost", "avg_batch_cost"), ("seconds", 1.0)),
    **dict.fromkeys(("reader_cost", "avg_reader_cost", "data_time", "dataloader_time"), ("data_seconds", 1.0)),
    **dict.fromkeys(("epoch", "progress_or_epoch"), ("epoch", 1.0)),
    **dict.fromkeys(("memory_mib", "memory(mib)", "gpu_max_memory_reserved"), ("memory_mib", 1.0)),
    **dict.fromkeys(
        ("memory(gib)", "max_memory_reserved", "peak_memory_reserved", "vram_reserved"), ("memory_mib", MIB_IN_GIB)
    ),
}  # fmt: skip


def strip_control(line: str) -> str:
    """Return the line without escape sequences and control characters, cut to LINE_LIMIT."""
    return ESCAPE.sub("", line[:LINE_LIMIT]).strip()


def parse_fields(text: str) -> dict[str, float]:
    """Return the numbers of a line by field of TrainingStep, and `steps_per_s`; the first value of a field counts."""
    found: dict[str, float] = {}
    if numbered := _NUMBERED.search(text):
        found["step"] = float(numbered[1])
        if numbered[2]:
            found["of"] = float(numbered[2])
    if epoch := _EPOCH.search(text):
        found["epoch"] = float(epoch[1])
    if loss := _BARE_LOSS.search(text):
        found["loss"] = float(loss[1].replace("_", ""))
    at = 0
    for value in _VALUE.finditer(text):
        name, factor = FIELDS.get(_extract_name(text[at : value.start()]), ("", 1.0))
        at = value.end()
        if name:
            found.setdefault(name, float(value[1].replace("_", "")) * factor)
        if name == "step" and value[2]:
            found.setdefault("of", float(value[2]))
    return found


def has_only_loss(text: str) -> bool:
    """Whether the text is the training loss and nothing else: 'loss: 2.31'."""
    return _ONLY_LOSS.fullmatch(text) is not None


def to_whole_number(value: float | None) -> int | None:
    """Return the value as an integer, None if it is not a valid step number."""
    return None if value is None or not math.isfinite(value) or not 0 <= value < 1e12 else int(value)


def _extract_name(before: str) -> str:
    """Return the name at the end of the text before a colon, in lower case as in FIELDS."""
    return _LEAD.sub("", before[-120:].rstrip().rstrip("'\"")).strip(" '\"").lower()
